/* learn.c - what a net learns by: the loss of a row, and one step down the gradient. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "learn.h"

#include <math.h>
#include <stdbool.h>

/* `out` becomes probabilities, `delta` their distance from the truth. */
static double row_loss(const float *out, float *delta, size_t label, size_t classes, float scale)
{
    float top = out[0];
    float sum = 0;

    for (size_t j = 1; j < classes; j++)
        top = out[j] > top ? out[j] : top;
    for (size_t j = 0; j < classes; j++) {
        delta[j] = expf(out[j] - top);
        sum += delta[j];
    }
    for (size_t j = 0; j < classes; j++)
        delta[j] = (delta[j] / sum - (j == label ? 1.0F : 0.0F)) * scale;
    return log((double)sum) - (double)(out[label] - top);
}

static bool row_is_right(const float *out, size_t label, size_t classes)
{
    size_t guess = 0;

    for (size_t j = 1; j < classes; j++)
        guess = out[j] > out[guess] ? j : guess;
    return guess == label;
}

double learn_loss(const float *out, float *delta, const struct answers *answers, size_t batch,
                  size_t *right)
{
    size_t classes = answers->classes;
    float scale = 1.0F / (float)batch;
    double loss = 0;

    for (size_t i = 0; i < answers->rows; i++) {
        size_t label = answers->labels[i];

        loss += row_loss(out + i * classes, delta + i * classes, label, classes, scale);
        *right += row_is_right(out + i * classes, label, classes);
    }
    return loss;
}

void learn_step(float *restrict params, const float *restrict grads, float *restrict speeds,
                size_t count, float rate, float momentum)
{
    for (size_t i = 0; i < count; i++) {
        speeds[i] = momentum * speeds[i] + grads[i];
        params[i] -= rate * speeds[i];
    }
}
