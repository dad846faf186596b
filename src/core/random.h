/* random.h - bytes that nobody can guess. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_RANDOM_H
#define TCI_RANDOM_H

#include <stdbool.h>
#include <stddef.h>

/* Fill `len` bytes, at most 256, from the system's generator; false, with errno, where it gives
 * none.  Any thread. */
bool tci_random(void *out, size_t len);

#endif
