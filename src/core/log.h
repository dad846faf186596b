/* log.h - log lines: level, format, one call a line. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_LOG_H
#define TCI_LOG_H

#include "tcdist/log.h"

/* Any thread. */
__attribute__((format(printf, 2, 3))) void tci_log(tc_log_level_t level, const char *fmt, ...);

#endif
