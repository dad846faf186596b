/* assert.c - the end of a process in which something impossible has happened. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/assert.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void tci_assert_fail(const char *what, const char *file, int line)
{
    char text[512];
    int len = snprintf(text, sizeof(text), "tcdist: %s:%d: does not hold: %s\n", file, line, what);

    if (len >= (int)sizeof(text))
        len = (int)sizeof(text) - 1;
    /* No stream: its lock may be held by whoever failed. */
    if (len > 0 && write(STDERR_FILENO, text, (size_t)len) < 0)
        abort();
    abort();
}
