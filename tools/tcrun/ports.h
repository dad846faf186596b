/* ports.h - ports of this host that nobody uses. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCRUN_PORTS_H
#define TCRUN_PORTS_H

/* The first of `count` ports in a row that are free now, for programs that are told a port and bind
 * it themselves.  They are not held: tcdist's own meeting point is another matter, and is. */
unsigned ports_find_free(unsigned count);

#endif
