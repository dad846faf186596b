/* environment.h - the variables that the library and its tools read. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_ENVIRONMENT_H
#define TCI_ENVIRONMENT_H

#include <stdbool.h>
#include <stddef.h>

/* Every variable that is read, NULL after the last. */
extern const char *const tci_environment[];

/* The variable that was probably meant, or NULL where none is like it. */
const char *tci_environment_nearest(const char *name);

/* Variables that programs of others set and that cannot have an effect here, with the cause; the
 * name of the last is NULL. */
struct tci_environment_idle {
    const char *name, *why;
};
extern const struct tci_environment_idle tci_environment_idle[];

/* Say of each one that is set, at log level info, that it has none.  Any thread. */
void tci_environment_tell_idle(void);

/* Warn in the log of each variable that looks like one of the library's but is none; of the same
 * ones only once in a row.  Any thread. */
void tci_environment_check(void);

#endif
