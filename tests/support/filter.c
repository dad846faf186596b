/* filter.c - CMOCKA_TEST_FILTER picks the cases of a test program by a pattern of their names. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

/* cmocka has a filter, but reads no variable for it.  Linked into every test program, as an object,
 * so that none has to call it. */
__attribute__((constructor)) static void take_filter(void)
{
    const char *pattern = getenv("CMOCKA_TEST_FILTER");

    if (pattern != NULL && pattern[0] != 0)
        cmocka_set_test_filter(pattern);
}
