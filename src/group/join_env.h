/* join_env.h - joining as the environment says. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_JOIN_ENV_H
#define TCI_JOIN_ENV_H

#include "group/group.h"
#include "launch/launch.h"

/* "env://" in place of an URL. */
bool tci_join_is_env(const char *url);
/* Form the group of that size and rank where the environment says that it meets; the environment
 * has to say the same size and rank.  The future of tc_dist_init_async. */
tc_future *tci_join_env(tc_context *context, const tc_dist_options *options, tc_dist_ctx **out);

#endif
