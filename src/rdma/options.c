/* options.c - "auto", "0", "1,device=mlx5_0,gid=3": settings of RDMA from text. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "rdma/options.h"

#include <stddef.h>
#include <string.h>

#include "core/base.h"

static bool is_word(const char *text, size_t len, const char *word)
{
    return strlen(word) == len && memcmp(text, word, len) == 0;
}

/* Digits alone, up to max. */
static bool read_number(const char *text, size_t len, int max, int *out)
{
    int value = 0;

    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        value = value * 10 + (text[i] - '0');
        if (value > max)
            return false;
    }
    *out = value;
    return len > 0;
}

static bool read_mode(const char *text, size_t len, enum tci_rdma_mode *out)
{
    if (is_word(text, len, "0"))
        *out = TCI_RDMA_OFF;
    else if (is_word(text, len, "1"))
        *out = TCI_RDMA_ON;
    else if (is_word(text, len, "auto"))
        *out = TCI_RDMA_AUTO;
    else
        return false;
    return true;
}

static bool is_mtu(int bytes)
{
    return bytes >= 256 && bytes <= 4096 && (bytes & (bytes - 1)) == 0;
}

static bool read_setting(const char *text, size_t len, struct tci_rdma_options *options)
{
    const struct {
        const char *name;
        int max;
        int *value;
    } numbers[] = {
        {"port", 255, &options->port},      {"gid", 255, &options->gid_index},
        {"mtu", 4096, &options->mtu},       {"traffic_class", 255, &options->traffic_class},
        {"timeout", 31, &options->timeout}, {"retries", 7, &options->retries}};
    const char *equals = memchr(text, '=', len);
    size_t name_len = equals == NULL ? len : (size_t)(equals - text);
    size_t value_len = equals == NULL ? 0 : len - name_len - 1;

    if (value_len == 0)
        return false;
    if (is_word(text, name_len, "device")) {
        if (value_len >= sizeof(options->device))
            return false;
        memcpy(options->device, equals + 1, value_len);
        options->device[value_len] = '\0';
        return true;
    }
    if (is_word(text, name_len, "service")) {
        options->is_uc = is_word(equals + 1, value_len, "uc");
        return options->is_uc || is_word(equals + 1, value_len, "rc");
    }
    for (size_t i = 0; i < TCI_LEN(numbers); i++)
        if (is_word(text, name_len, numbers[i].name))
            return read_number(equals + 1, value_len, numbers[i].max, numbers[i].value);
    return false;
}

bool tci_rdma_options_parse(const char *text, struct tci_rdma_options *options_out)
{
    struct tci_rdma_options options = {.mode = TCI_RDMA_AUTO,
                                       .port = -1,
                                       .gid_index = -1,
                                       .mtu = -1,
                                       .traffic_class = -1,
                                       .timeout = -1,
                                       .retries = -1};
    size_t len;

    if (text != NULL && *text != '\0') {
        len = strcspn(text, ",");
        if (!read_mode(text, len, &options.mode))
            return false;
        while (text[len] == ',') {
            text += len + 1;
            len = strcspn(text, ",");
            if (!read_setting(text, len, &options))
                return false;
        }
    }
    if ((options.mtu != -1 && !is_mtu(options.mtu)) || options.port == 0)
        return false;
    *options_out = options;
    return true;
}
