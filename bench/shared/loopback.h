/* loopback.h - where ranks of one process meet. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_SHARED_LOOPBACK_H
#define BENCH_SHARED_LOOPBACK_H

#include <stddef.h>

/* A socket that listens on a free port of loopback, and the URL of it; -1 with errno set where that
 * fails. */
int listen_on_loopback(int ranks, char *url, size_t url_bytes);

#endif
