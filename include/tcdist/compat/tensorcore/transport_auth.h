/* transport_auth.h - the keys of transports under tensorcore's name. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCDIST_COMPAT_TRANSPORT_AUTH_H
#define TCDIST_COMPAT_TRANSPORT_AUTH_H

#include "tcdist/auth.h"

#endif
