/* tensorcore.h - what tcdist has of tensorcore's interface, under its name. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCDIST_COMPAT_TENSORCORE_H
#define TCDIST_COMPAT_TENSORCORE_H

#include "tcdist/compat/tensorcore/distributed.h"
#include "tcdist/version.h"

#endif
