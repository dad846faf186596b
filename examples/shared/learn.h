/* learn.h - what a net learns by: the loss of a row, and one step down the gradient. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHARED_LEARN_H
#define SHARED_LEARN_H

#include <stddef.h>
#include <stdint.h>

/* The right answers of some rows. */
struct answers {
    const uint8_t *labels; /* one a row; borrowed */
    size_t rows;
    size_t classes; /* outputs a row */
};

/* The sum of the rows' cross-entropies.  Counts rows whose class is guessed right, and leaves the
 * derivatives by the outputs, divided by `batch`, in `delta`. */
double learn_loss(const float *out, float *delta, const struct answers *answers, size_t batch,
                  size_t *right);

/* One step of gradient descent with momentum; `speeds` is the momentum's memory. */
void learn_step(float *restrict params, const float *restrict grads, float *restrict speeds,
                size_t count, float rate, float momentum);

#endif
