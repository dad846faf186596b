/* version.c - the version of the library that is loaded. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "tcdist/version.h"

#define TEXT(x)  TEXT_(x)
#define TEXT_(x) #x

const char *tc_version(void)
{
    return TEXT(TC_VERSION_MAJOR) "." TEXT(TC_VERSION_MINOR) "." TEXT(TC_VERSION_PATCH);
}
