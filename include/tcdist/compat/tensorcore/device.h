/* device.h - contexts and buffers under tensorcore's name. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCDIST_COMPAT_DEVICE_H
#define TCDIST_COMPAT_DEVICE_H

#include "tcdist/buffer.h"
#include "tcdist/context.h"

#endif
