/* host.h - which host this process runs on. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_HOST_H
#define TCI_HOST_H

#include <stdint.h>

/* Equal for processes of one boot of one kernel and of one network namespace: they reach each
 * other by loopback.  Where the system does not say, a number of this process alone; and of a
 * system without such things, equal where name and addresses are. */
uint64_t tci_host_id(void);

#endif
