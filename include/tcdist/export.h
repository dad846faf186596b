/* export.h - visibility and C linkage of public names. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCDIST_EXPORT_H
#define TCDIST_EXPORT_H

#if defined(__GNUC__)
#define TC_API __attribute__((visibility("default")))
#else
#define TC_API
#endif

#ifdef __cplusplus
#define TC_BEGIN_DECLS extern "C" {
#define TC_END_DECLS   }
#else
#define TC_BEGIN_DECLS
#define TC_END_DECLS
#endif

#endif
