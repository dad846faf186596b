/* key.c - the key of a job: made for it, or read from a file. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "key.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum { RANDOM = 32 };

const char *key_make(char key[KEY_ROOM])
{
    static const char digits[] = "0123456789abcdef";
    unsigned char bytes[RANDOM];

    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        return strerror(errno);
    for (size_t k = 0; k < sizeof bytes; k++) {
        key[2 * k] = digits[bytes[k] >> 4];
        key[2 * k + 1] = digits[bytes[k] & 15];
    }
    key[2 * sizeof bytes] = '\0';
    explicit_bzero(bytes, sizeof bytes);
    return NULL;
}

const char *key_read(const char *path, char key[KEY_ROOM])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? -1 : read(fd, key, KEY_ROOM - 1);
    const char *why = len < 0 ? strerror(errno) : NULL;

    if (fd >= 0)
        close(fd);
    if (why != NULL)
        return why;
    key[len] = '\0';
    key[strcspn(key, "\r\n")] = '\0';
    if (strlen(key) == KEY_ROOM - 1)
        return "its first line is too long for a key";
    if (strlen(key) < KEY_CHARACTERS_MIN)
        return "its first line is shorter than the 16 characters of a key";
    return NULL;
}
