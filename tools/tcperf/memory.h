/* memory.h - how much memory there is for buffers. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCPERF_MEMORY_H
#define TCPERF_MEMORY_H

#include <stddef.h>

/* Bytes that processes of this host can still take before one of them is killed; SIZE_MAX where the
 * system does not say. */
size_t memory_available(void);

#endif
