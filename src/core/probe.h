/* probe.h - whether bytes of this process can be read, asked of the system. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_PROBE_H
#define TCI_PROBE_H

#include <stdbool.h>

enum {
    TCI_PROBES_MAX = 64,   /* bytes in one system call */
    TCI_PROBE_EVERY = 4096 /* the smallest page there is */
};

/* All of these bytes can be read; where the system does not say, they can.  Any thread. */
bool tci_probe(const void *const *at, unsigned count);

#endif
