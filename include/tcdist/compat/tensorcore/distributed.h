/* distributed.h - tensorcore's groups of ranks and their collectives. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCDIST_COMPAT_DISTRIBUTED_H
#define TCDIST_COMPAT_DISTRIBUTED_H

#include "tcdist/collective.h"
#include "tcdist/compat/tensorcore/device.h"
#include "tcdist/compat/tensorcore/dtype.h"
#include "tcdist/compat/tensorcore/status.h"
#include "tcdist/compat/tensorcore/transport_auth.h"
#include "tcdist/dist.h"

#endif
