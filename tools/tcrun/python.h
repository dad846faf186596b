/* python.h - scripts of Python, and what runs them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCRUN_PYTHON_H
#define TCRUN_PYTHON_H

#include <stdbool.h>

#include "options.h"

/* Puts a python in front of the command where --python names one, or where the command is a file
 * .py that cannot be executed itself; false: no memory. */
bool python_take(struct options *options);

/* Prints the path of what would run a script here; false, and says so, where there is none. */
bool python_print(const struct options *options);

#endif
