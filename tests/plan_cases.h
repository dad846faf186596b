/* plan_cases.h - the shapes in which a plan is examined. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLAN_CASES_H
#define PLAN_CASES_H

#include "plan_check.h"

/* Is called with each case; false ends the walk. */
typedef bool (*plan_case_fn)(const struct plan_case *subject, void *arg);

/* All shapes of one size: every root where there is one, in place and not where both can be, each
 * radix for which the steps differ from those of radix 2, pipelines in several numbers of pieces,
 * plans that look at hosts with ranks on them in several manners.  Gives false if `each` did.  The
 * cases have the smallest window and look along messages. */
bool plan_cases_each(const struct tci_plan *plan, uint32_t size, plan_case_fn each, void *arg);

/* Hosts in one manner of several; 0: two ranks on each.  The caller has the reference. */
struct tci_hosts *plan_case_hosts(unsigned layout, uint32_t size);

/* The shape of one rank in a case. */
struct tci_shape plan_case_shape(const struct plan_case *subject, uint32_t rank);

/* Steps of all ranks together. */
uint64_t plan_case_steps(const struct plan_case *subject);
/* Blocks that they touch. */
uint64_t plan_case_touches(const struct plan_case *subject);

#endif
