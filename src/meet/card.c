/* card.c - the word that rank 0 leaves for the others: where it listens, and who it is. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "meet/card.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base.h"

/*   tcdist1/<job>/<host>.<space>.<pid>.<born>/<size>/<address>/<address>...
 *
 * Numbers are hexadecimal, without zeros in front but in the job. */
#define MAGIC "tcdist1/"
#define HEX   "0123456789abcdef"

/* Characters of an address and its port. */
#define ADDR_CHARS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._:[]%"

enum { SIZE_LIMIT = 1 << 20 };

/* ---- Processes ----------------------------------------------------------------------------- */

/* When a process began, in ticks since the host did; 0: it is not there, or does not say. */
static uint64_t began_at(uint64_t pid)
{
    char path[64], text[1024];
    const char *at;
    FILE *file;
    size_t len;

    (void)snprintf(path, sizeof(path), "/proc/%" PRIu64 "/stat", pid);
    file = fopen(path, "re");
    if (file == NULL)
        return 0;
    len = fread(text, 1, sizeof(text) - 1, file);
    (void)fclose(file);
    text[len] = '\0';
    /* The name, in parentheses, may hold anything; the 22nd field is the 20th behind it. */
    at = strrchr(text, ')');
    for (int field = 0; at != NULL && field < 20; field++)
        at = strchr(at + 1, ' ');
    return at == NULL ? 0 : strtoull(at + 1, NULL, 10);
}

static uint64_t own_space(void)
{
    struct stat space;

    return stat("/proc/self/ns/pid", &space) == 0 ? space.st_ino : 0;
}

void tci_card_init(struct tci_card *card, uint64_t host, int size)
{
    *card = (struct tci_card){.host = host,
                              .space = own_space(),
                              .pid = (uint64_t)getpid(),
                              .born = began_at((uint64_t)getpid()),
                              .size = size};
}

bool tci_card_is_own(const struct tci_card *card, uint64_t host)
{
    return card->host == host && card->space == own_space() && card->pid == (uint64_t)getpid();
}

bool tci_card_is_dead(const struct tci_card *card, uint64_t host)
{
    if (card->host != host || card->space != own_space() || card->pid > INT32_MAX)
        return false;
    if (kill((pid_t)card->pid, 0) != 0 && errno == ESRCH)
        return true;
    return card->born != 0 && began_at(card->pid) != card->born;
}

/* ---- Text ---------------------------------------------------------------------------------- */

bool tci_card_add(struct tci_card *card, const char *addr)
{
    size_t len = strlen(addr), used = 160;

    for (size_t k = 0; k < card->count; k++)
        used += strlen(card->addrs[k]) + 1;
    if (card->count == TCI_CARD_ADDRS || len == 0 || len >= TCI_CARD_ADDR ||
        used + len + 1 > TCI_CARD_TEXT)
        return false;
    memcpy(card->addrs[card->count++], addr, len + 1);
    return true;
}

void tci_card_print(const struct tci_card *card, char *text)
{
    int len = snprintf(text, TCI_CARD_TEXT, MAGIC);

    for (size_t k = 0; k < sizeof(card->job); k++)
        len += snprintf(text + len, TCI_CARD_TEXT - (size_t)len, "%02x", card->job[k]);
    len += snprintf(text + len, TCI_CARD_TEXT - (size_t)len,
                    "/%" PRIx64 ".%" PRIx64 ".%" PRIx64 ".%" PRIx64 "/%x", card->host, card->space,
                    card->pid, card->born, (unsigned)card->size);
    for (size_t k = 0; k < card->count; k++)
        len += snprintf(text + len, TCI_CARD_TEXT - (size_t)len, "/%s", card->addrs[k]);
}

/* 1 to 16 digits, and what ends them. */
static bool read_hex(const char **at, uint64_t *out, char end)
{
    size_t digits = strspn(*at, HEX);

    if (digits == 0 || digits > 16 || (*at)[digits] != end)
        return false;
    *out = strtoull(*at, NULL, 16);
    *at += digits + 1;
    return true;
}

static bool read_job(const char **at, uint8_t job[TCI_CARD_JOB])
{
    if (strspn(*at, HEX) != 2 * TCI_CARD_JOB || (*at)[2 * TCI_CARD_JOB] != '/')
        return false;
    for (size_t k = 0; k < TCI_CARD_JOB; k++) {
        const char byte[3] = {(*at)[2 * k], (*at)[2 * k + 1], '\0'};

        job[k] = (uint8_t)strtoul(byte, NULL, 16);
    }
    *at += 2 * TCI_CARD_JOB + 1;
    return true;
}

bool tci_card_parse(const char *text, struct tci_card *card)
{
    struct tci_card read = {.count = 0};
    uint64_t size;

    if (strnlen(text, TCI_CARD_TEXT) == TCI_CARD_TEXT || strncmp(text, MAGIC, strlen(MAGIC)) != 0)
        return false;
    text += strlen(MAGIC);
    if (!read_job(&text, read.job) || !read_hex(&text, &read.host, '.') ||
        !read_hex(&text, &read.space, '.') || !read_hex(&text, &read.pid, '.') ||
        !read_hex(&text, &read.born, '/') || !read_hex(&text, &size, '/') || size < 2 ||
        size > SIZE_LIMIT)
        return false;
    read.size = (int)size;
    for (size_t len; *text != '\0'; text += len + (text[len] == '/')) {
        len = strspn(text, ADDR_CHARS);
        if (len == 0 || len >= TCI_CARD_ADDR || (text[len] != '/' && text[len] != '\0') ||
            read.count == TCI_CARD_ADDRS)
            return false;
        memcpy(read.addrs[read.count], text, len);
        read.addrs[read.count++][len] = '\0';
    }
    if (read.count == 0)
        return false;
    *card = read;
    return true;
}
