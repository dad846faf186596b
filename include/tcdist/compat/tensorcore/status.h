/* status.h - the statuses under tensorcore's name. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCDIST_COMPAT_STATUS_H
#define TCDIST_COMPAT_STATUS_H

#include "tcdist/status.h"

#endif
