/* variables.h - what the environment tells each rank, as several kinds of programs ask for it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCRUN_VARIABLES_H
#define TCRUN_VARIABLES_H

#include "options.h"
#include "order.h"

/* The environment of a rank over what it inherits, as NAME=VALUE with NULL at its end; `url` is
 * where the ranks meet.  Freed by variables_free(); NULL: out of memory. */
char **variables_make(const struct options *options, unsigned rank, const char *url);
void variables_free(char **variables);

/* The files that ranks find by a variable, into `files`, which are then freed one by one; how many,
 * or -1: out of memory. */
int variables_files(const struct options *options, struct order_file files[ORDER_FILES_MAX]);
void variables_free_files(struct order_file *files, int count);

#endif
