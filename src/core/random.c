/* random.c - random bytes by getrandom(2). */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/random.h"

#include <sys/random.h>

bool tci_random(void *out, size_t len)
{
    return getrandom(out, len, 0) == (ssize_t)len;
}
