/* dtype.h - the element types under tensorcore's name. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCDIST_COMPAT_DTYPE_H
#define TCDIST_COMPAT_DTYPE_H

#include "tcdist/dtype.h"

/* Emulated formats of tensorcore; every call refuses them with TC_ERR_UNSUPPORTED_DTYPE. */
#define TC_DTYPE_SF64 ((tc_dtype_t)6)
#define TC_DTYPE_DF64 ((tc_dtype_t)7)
#define TC_DTYPE_FP24 ((tc_dtype_t)8)
#define TC_DTYPE_FP53 ((tc_dtype_t)9)

#endif
