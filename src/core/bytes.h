/* bytes.h - numbers as bytes, as they are on the wire. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_BYTES_H
#define TCI_BYTES_H

#include <stddef.h>
#include <stdint.h>

/* ---- Of messages: the lowest byte first ---- */

static inline void tci_put16(uint8_t *at, uint16_t value)
{
    at[0] = (uint8_t)value;
    at[1] = (uint8_t)(value >> 8);
}

static inline void tci_put32(uint8_t *at, uint32_t value)
{
    tci_put16(at, (uint16_t)value);
    tci_put16(at + 2, (uint16_t)(value >> 16));
}

static inline void tci_put64(uint8_t *at, uint64_t value)
{
    tci_put32(at, (uint32_t)value);
    tci_put32(at + 4, (uint32_t)(value >> 32));
}

static inline uint32_t tci_get16(const uint8_t *at)
{
    return at[0] | (uint32_t)at[1] << 8;
}

static inline uint32_t tci_get32(const uint8_t *at)
{
    return tci_get16(at) | tci_get16(at + 2) << 16;
}

static inline uint64_t tci_get64(const uint8_t *at)
{
    return tci_get32(at) | (uint64_t)tci_get32(at + 4) << 32;
}

/* ---- Of the rendezvous: in network order, as many bytes as the field has ---- */

static inline void tci_put_number(uint8_t *at, uint64_t value, size_t len)
{
    for (size_t k = 0; k < len; k++)
        at[k] = (uint8_t)(value >> (8 * (len - 1 - k)));
}

static inline uint64_t tci_get_number(const uint8_t *at, size_t len)
{
    uint64_t value = 0;

    for (size_t k = 0; k < len; k++)
        value = value << 8 | at[k];
    return value;
}

#endif
