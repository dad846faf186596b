/* quote.c - a word as a shell must be given it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "quote.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static int is_plain(char c)
{
    return isalnum((unsigned char)c) || (c != '\0' && strchr("_@%+=:,./-", c) != NULL);
}

char *quote(const char *word)
{
    size_t len = strlen(word), plain = 0;
    char *quoted = malloc(4 * len + 3), *at = quoted;

    if (quoted == NULL)
        return NULL;
    while (is_plain(word[plain]))
        plain++;
    if (len > 0 && plain == len)
        return strcpy(quoted, word); /* NOLINT(clang-analyzer-security.insecureAPI.strcpy): fits */
    *at++ = '\'';
    for (; *word != '\0'; word++) {
        if (*word == '\'') {
            memcpy(at, "'\\''", 4);
            at += 4;
        } else {
            *at++ = *word;
        }
    }
    *at++ = '\'';
    *at = '\0';
    return quoted;
}
