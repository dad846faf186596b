/* keep.h - a process forked from tcrun lets go of what others may wait for the end of. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCRUN_KEEP_H
#define TCRUN_KEEP_H

#include <stddef.h>

/* Closes all descriptors but these, of which -1 is none; sorts them. */
void keep_descriptors(int *fds, size_t count);

/* Puts /dev/null on the three standard descriptors. */
void keep_no_standard(void);

#endif
