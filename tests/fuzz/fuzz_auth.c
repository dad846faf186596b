/* fuzz_auth.c - feeds bytes to the proof of a key, and changes what two honest sides say. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz.h"
#include "net/auth.h"

enum { MESSAGES = 4, CHANGE_BYTES = 4, MESSAGE_MAX = TCI_BOOT_HEAD + TCI_BOOT_ANSWER_LEN };

static struct tci_keyring *keyring;
static struct tci_auth_config configs[2];

static void init_once(void)
{
    if (keyring != NULL)
        return;
    keyring = tci_keyring_shared("0123456789abcdef", 16, "fedcba9876543210", 16);
    if (keyring == NULL)
        abort();
    for (int k = 0; k < 2; k++)
        configs[k] = (struct tci_auth_config){.keyring = keyring,
                                              .place = TCI_AUTH_AT_LINK,
                                              .is_dialer = k == 0,
                                              .self = (uint32_t)k,
                                              .peer = 1 - (uint32_t)k,
                                              .size = 2};
}

static void feed(struct tci_auth *auth, const uint8_t *bytes, size_t len)
{
    while (len > 0) {
        size_t part = tci_auth_wants(auth);

        if (part == 0)
            return;
        if (part > len)
            part = len;
        tci_auth_feed(auth, bytes, part);
        if (auth->out != NULL && auth->out_len == 0)
            abort();
        bytes += part;
        len -= part;
    }
}

static void explain(struct tci_auth *auth)
{
    char text[300];

    if (auth->state == TCI_AUTH_FAILED && strlen(tci_auth_explain(auth, text, sizeof text)) == 0)
        abort();
    tci_auth_fini(auth);
}

/* Whoever does not know the key is never believed. */
static void as_stranger(const uint8_t *data, size_t size)
{
    for (int k = 0; k < 2; k++) {
        struct tci_auth auth;

        tci_auth_init(&auth, &configs[k]);
        feed(&auth, data, size);
        if (auth.state == TCI_AUTH_PROVEN)
            abort();
        explain(&auth);
    }
}

/* Each change: which message, where (two bytes), what bits. */
static bool change(uint8_t *wire, size_t len, unsigned message, const uint8_t *data, size_t size)
{
    uint8_t before[MESSAGE_MAX];

    memcpy(before, wire, len);
    for (; size >= CHANGE_BYTES; data += CHANGE_BYTES, size -= CHANGE_BYTES)
        if (data[0] % MESSAGES == message)
            wire[(data[1] << 8 | data[2]) % len] ^= data[3];
    return memcmp(before, wire, len) != 0;
}

static void in_the_middle(const uint8_t *data, size_t size)
{
    struct tci_auth auth[2];
    bool is_changed = false;

    tci_auth_init(&auth[0], &configs[0]);
    tci_auth_init(&auth[1], &configs[1]);
    for (unsigned message = 0; message < MESSAGES; message++) {
        struct tci_auth *from = &auth[message % 2], *to = &auth[1 - message % 2];
        uint8_t wire[MESSAGE_MAX];
        size_t len = from->out_len;

        if (from->out == NULL)
            break;
        memcpy(wire, from->out, len);
        from->out = NULL;
        is_changed |= change(wire, len, message, data, size);
        feed(to, wire, len);
        if (is_changed && to->state == TCI_AUTH_PROVEN)
            abort();
    }
    if (!is_changed && auth[0].state != TCI_AUTH_PROVEN)
        abort();
    explain(&auth[0]);
    explain(&auth[1]);
}

/* The first byte says which of the two. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    init_once();
    if (size == 0)
        return 0;
    if (data[0] % 2 == 0)
        as_stranger(data + 1, size - 1);
    else
        in_the_middle(data + 1, size - 1);
    return 0;
}

size_t fuzz_seed(unsigned i, uint8_t *data, size_t room)
{
    struct tci_auth auth[2];
    size_t len;

    init_once();
    if (i > 3 || room < 1 + 2 * MESSAGE_MAX)
        return 0;
    if (i == 3) {
        memcpy(data, "\1\0\0\0\0\1\0\1\0\2\1\0\0", 13);
        return 13;
    }
    tci_auth_init(&auth[0], &configs[0]);
    tci_auth_init(&auth[1], &configs[1]);
    for (unsigned k = 0; k < i; k++)
        feed(&auth[1 - k % 2], auth[k % 2].out, auth[k % 2].out_len);
    data[0] = 0;
    len = auth[i % 2].out_len;
    memcpy(data + 1, auth[i % 2].out, len);
    tci_auth_fini(&auth[0]);
    tci_auth_fini(&auth[1]);
    return 1 + len;
}
