/* log.h - where log lines go. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCDIST_LOG_H
#define TCDIST_LOG_H

#include "tcdist/export.h"

TC_BEGIN_DECLS

/* How much a line matters. */
typedef enum tc_log_level {
    TC_LOG_ERROR = 0, /* someone must act, and the line says on what */
    TC_LOG_WARN = 1,  /* odd, we go on (default) */
    TC_LOG_INFO = 2,  /* birth and death of groups, choices made */
    TC_LOG_DEBUG = 3  /* a line an object */
} tc_log_level_t;

/* Receives one line without its newline; on whichever thread has something to say. */
typedef void (*tc_log_fn)(tc_log_level_t level, const char *line, void *arg);

/* Send the process's log lines to fn instead of standard error; NULL restores that.
 * Not while contexts exist. */
TC_API void tc_log_set_sink(tc_log_fn fn, void *arg);

/* Most talkative level that is let through, for the whole process.  Any thread. */
TC_API void tc_log_set_level(tc_log_level_t level);

TC_END_DECLS

#endif
