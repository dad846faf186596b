/* work.h - the library at work: a group, and a collective with a known result. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCDOCTOR_WORK_H
#define TCDOCTOR_WORK_H

#include "facts.h"
#include "tcdist/tcdist.h"

/* Forms the group that the environment describes; NULL, and worked says why. */
tc_dist_ctx *work_form(tc_context *context, struct worked *worked);

/* Runs the collective, with small and large counts. */
void work_try(tc_dist_ctx *group, struct worked *worked);

#endif
