/* collect.h - the traces of all ranks come together, and become a timeline. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCRUN_COLLECT_H
#define TCRUN_COLLECT_H

#include <stdbool.h>
#include <stddef.h>

/* The variable by which the library is told to keep traces, and where. */
#define ENV_TRACE_DIR "TCDIST_TRACE_DIR"

/* A new folder for traces, under $TMPDIR or /tmp, which the caller frees; NULL: errno says why. */
char *collect_open(void);
bool collect_is_empty(const char *folder);
/* Removes the folder and the files in it. */
void collect_remove(const char *folder);

/* Appends to a file of the folder, as an agent sends them: a name, a zero byte, bytes.  `machine`
 * keeps files of one name apart.  False: no such name is allowed. */
bool collect_append(const char *folder, unsigned machine, const char *bytes, size_t len);

/* Whether a timeline can be written there, as far as can be seen before; errno says why not.  What
 * is there stays as it is. */
bool collect_can_write(const char *timeline);

/* Lets tcdump make a timeline of the folder; NULL, or what went wrong. */
const char *collect_write(const char *folder, const char *timeline, char *why, size_t room);

#endif
