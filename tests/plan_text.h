/* plan_text.h - a plan as text: for failures and for drawings. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLAN_TEXT_H
#define PLAN_TEXT_H

#include <stdio.h>

#include "core/plan.h"

/* One step in one line: "RECV_REDUCE dst 2 = src 2 op from 3, after 1". */
void plan_text_step(const struct tci_step *step, char *text, size_t text_max);

/* ", on hosts 0 0 1 1"; nothing where they are NULL. */
void plan_text_hosts(const struct tci_hosts *hosts, char *text, size_t text_max);

/* All steps of one rank, a line each. */
void plan_text_print(FILE *out, const struct tci_plan *plan, const struct tci_shape *shape);

#endif
