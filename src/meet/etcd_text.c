/* etcd_text.c - what is said to etcd's HTTP interface, and what it answers, as text. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "meet/etcd_text.h"

#include <stdint.h>
#include <string.h>

#if defined(__has_include)
#if __has_include(<cjson/cJSON.h>)
#define HAS_CJSON 1
#endif
#endif

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

size_t tci_base64_encode(const char *bytes, size_t len, char *text)
{
    size_t out = 0;

    for (size_t k = 0; k < len; k += 3) {
        size_t left = len - k < 3 ? len - k : 3;
        uint32_t bits = 0;

        for (size_t i = 0; i < 3; i++)
            bits = bits << 8 | (i < left ? (unsigned char)bytes[k + i] : 0u);
        for (size_t i = 0; i < 4; i++)
            text[out++] = i <= left ? digits[bits >> (18 - 6 * i) & 63] : '=';
    }
    text[out] = '\0';
    return out;
}

bool tci_base64_decode(const char *text, char *bytes, size_t room)
{
    size_t len = strlen(text), out = 0;
    uint32_t bits = 0;

    while (len > 0 && text[len - 1] == '=')
        len--;
    if (strspn(text, digits) < len || len % 4 == 1 || len / 4 * 3 + len % 4 >= room)
        return false;
    for (size_t k = 0; k < len; k++) {
        bits = bits << 6 | (uint32_t)(strchr(digits, text[k]) - digits);
        if (k % 4 != 0)
            bytes[out++] = (char)(bits >> (6 - 2 * (k % 4)) & 255);
    }
    bytes[out] = '\0';
    return true;
}

#ifdef HAS_CJSON

#include <cjson/cJSON.h>

int tci_etcd_value(const char *answer, char *card, size_t room)
{
    cJSON *root = cJSON_Parse(answer);
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(root, "kvs");
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(cJSON_GetArrayItem(list, 0), "value");
    int result = -1;

    if (cJSON_IsObject(root) && list == NULL &&
        cJSON_GetObjectItemCaseSensitive(root, "header") != NULL)
        result = 0;
    else if (cJSON_IsString(value) && tci_base64_decode(value->valuestring, card, room))
        result = 1;
    cJSON_Delete(root);
    return result;
}

void tci_etcd_reason(const char *answer, char *text, size_t room)
{
    cJSON *root = cJSON_Parse(answer);
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(root, "error");
    size_t len = 0;

    if (!cJSON_IsString(item))
        item = cJSON_GetObjectItemCaseSensitive(root, "message");
    for (; cJSON_IsString(item) && item->valuestring[len] != '\0' && len + 1 < room; len++) {
        char c = item->valuestring[len];

        text[len] = c >= ' ' && c < 0x7f ? c : '?';
    }
    text[len] = '\0';
    cJSON_Delete(root);
}

#else

int tci_etcd_value(const char *answer, char *card, size_t room)
{
    (void)answer;
    (void)card;
    (void)room;
    return -1;
}

void tci_etcd_reason(const char *answer, char *text, size_t room)
{
    (void)answer;
    if (room > 0)
        text[0] = '\0';
}

#endif
