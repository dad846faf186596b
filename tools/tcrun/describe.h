/* describe.h - what tcrun would run, for a person to read and to run by hand. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCRUN_DESCRIBE_H
#define TCRUN_DESCRIBE_H

#include "options.h"

/* Writes it to standard output; keys are not shown.  False: out of memory. */
bool describe(const struct options *options);

#endif
