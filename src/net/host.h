/* host.h - which host this process runs on. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_HOST_H
#define TCI_HOST_H

#include <stddef.h>
#include <stdint.h>

/* Equal for processes of one boot of one kernel and of one network namespace: they reach each
 * other by loopback.  Where the system does not say, a number of this process alone; and of a
 * system without such things, equal where name and addresses are. */
uint64_t tci_host_id(void);

/* What it is made with: FNV-1a. */
static inline uint64_t tci_host_hash(uint64_t seed, const void *data, size_t len)
{
    const uint8_t *bytes = data;

    for (size_t k = 0; k < len; k++)
        seed = (seed ^ bytes[k]) * 0x100000001b3u;
    return seed;
}

#endif
