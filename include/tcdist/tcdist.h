/* tcdist.h - all of the library's public headers. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCDIST_TCDIST_H
#define TCDIST_TCDIST_H

#include "tcdist/auth.h"
#include "tcdist/buffer.h"
#include "tcdist/collective.h"
#include "tcdist/compress.h"
#include "tcdist/context.h"
#include "tcdist/dist.h"
#include "tcdist/dtype.h"
#include "tcdist/export.h"
#include "tcdist/future.h"
#include "tcdist/log.h"
#include "tcdist/mesh.h"
#include "tcdist/reactor.h"
#include "tcdist/status.h"
#include "tcdist/trace.h"
#include "tcdist/tune.h"
#include "tcdist/version.h"

#endif
