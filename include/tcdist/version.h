/* version.h - the library's version, for the compiler and at run time. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCDIST_VERSION_H
#define TCDIST_VERSION_H

#include "tcdist/export.h"

TC_BEGIN_DECLS

/* Of these headers: a program compiled against another major version has to be compiled anew. */
#define TC_VERSION_MAJOR 0
/* Grows with the interface; as TC_VERSION_MAJOR while that is 0. */
#define TC_VERSION_MINOR 1
/* Grows with every other release. */
#define TC_VERSION_PATCH 0

/* The version of the library that is loaded, "major.minor.patch"; a static string.
 *
 * Compare with the TC_VERSION_ macros to find out that a program was compiled against another
 * release than the one it runs with.  Any thread. */
TC_API const char *tc_version(void);

TC_END_DECLS

#endif
