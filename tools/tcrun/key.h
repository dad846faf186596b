/* key.h - the key of a job: made for it, or read from a file. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCRUN_KEY_H
#define TCRUN_KEY_H

#include <stddef.h>

enum { KEY_ROOM = 1025, KEY_CHARACTERS_MIN = 16 };

/* 64 digits at random; for "auto".  NULL, or why there are none. */
const char *key_make(char key[KEY_ROOM]);
/* The first line of a file.  NULL, or what is wrong with it. */
const char *key_read(const char *path, char key[KEY_ROOM]);

#endif
