/* plan_text.c - a plan as text: for failures and for drawings. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "plan_text.h"

#include <stdarg.h>
#include <string.h>

#include "core/base.h"

struct text {
    char *at;
    size_t room;
};

static void say(struct text *text, const char *format, ...)
{
    va_list args;
    int len;

    va_start(args, format);
    len = vsnprintf(text->at, text->room, format, args);
    va_end(args);

    size_t used = len < 0 ? 0 : tci_min((size_t)len, text->room - 1);

    text->at += used;
    text->room -= used;
}

static void say_slice(struct text *text, struct tci_slice slice)
{
    static const char *const names[] = {"src", "dst", "tmp"};

    say(text, "%s %u", slice.buf < TCI_LEN(names) ? names[slice.buf] : "?", slice.block);
    if (slice.more > 0)
        say(text, "-%u", slice.block + slice.more);
}

static void say_what(struct text *text, const struct tci_step *step)
{
    static const char *const names[] = {"FOLD", "COPY", "WIDEN", "ADD", "ROUND"};

    switch (step->kind) {
    case TCI_STEP_SEND:
        say(text, "SEND ");
        say_slice(text, step->src);
        say(text, "%s to %u, step %u", step->wide ? " wide" : "", step->peer, step->match);
        return;
    case TCI_STEP_RECV:
        say(text, "RECV ");
        say_slice(text, step->dst);
        say(text, "%s from %u", step->wide ? " wide" : "", step->peer);
        return;
    case TCI_STEP_RECV_REDUCE:
        say(text, "RECV_REDUCE ");
        say_slice(text, step->dst);
        say(text, " = ");
        say_slice(text, step->src);
        say(text, " op from %u%s", step->peer, step->last ? ", last" : "");
        return;
    default:
        say(text, "%s ", names[step->kind - TCI_STEP_FOLD]);
        say_slice(text, step->dst);
        say(text, " = ");
        say_slice(text, step->src);
        say(text, step->kind == TCI_STEP_FOLD ? " and all slots" : "");
    }
}

void plan_text_step(const struct tci_step *step, char *text, size_t text_max)
{
    struct text to = {text, text_max};

    say_what(&to, step);
    for (int k = 0; k < 2; k++)
        if (step->wait[k] != 0)
            say(&to, "; after -%u", step->wait[k]);
    if (step->fence)
        say(&to, "; after all");
    if (step->answers)
        say(&to, "; answers");
    if (step->pace != 0)
        say(&to, "; paced -%u", step->pace);
}

void plan_text_hosts(const struct tci_hosts *hosts, char *text, size_t text_max)
{
    struct text to = {text, text_max};

    text[0] = '\0';
    if (hosts == NULL)
        return;
    say(&to, ", on hosts");
    for (uint32_t r = 0; r < hosts->size; r++)
        say(&to, " %u", hosts->host[r]);
}

void plan_text_print(FILE *out, const struct tci_plan *plan, const struct tci_shape *shape)
{
    uint32_t steps = plan->steps(shape);
    char text[160];

    fprintf(out, "%s %s: rank %u of %u, root %u, radix %u", tci_coll_name(plan->coll), plan->name,
            shape->rank, shape->size, shape->root, shape->radix);
    if (plan->depth != NULL)
        fprintf(out, ", cuts %u", shape->cuts);
    plan_text_hosts(shape->hosts, text, sizeof text);
    fprintf(out, "%s%s\n", text, shape->in_place ? ", in place" : "");
    for (uint32_t i = 0; i < steps; i++) {
        struct tci_step step;

        plan->step(shape, i, &step);
        plan_text_step(&step, text, sizeof text);
        fprintf(out, "  %3u  %s\n", i, text);
    }
}
