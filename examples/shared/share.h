/* share.h - the digits, from rank 0 to all others. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHARED_SHARE_H
#define SHARED_SHARE_H

#include "data.h"
#include "world.h"

/* Rank 0 reads the file; the others get the digits from it, or hear by a count of 0 that there are
 * none.  False after the rank that knows has said what is wrong. */
bool share_data(struct world *world, const char *path, struct data *data);

#endif
