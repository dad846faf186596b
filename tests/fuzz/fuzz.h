/* fuzz.h - what a fuzz target has, for libFuzzer and for the plain runner. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_FUZZ_H
#define TEST_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* Any bytes; aborts when something is wrong with what was made of them. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Well-formed input number i, to begin with and to be damaged; its length, 0 behind the last. */
size_t fuzz_seed(unsigned i, uint8_t *data, size_t room);

/* The text of number i, for a fuzz_seed that has nothing but texts; NULL behind the last. */
size_t fuzz_seed_text(const char *const *texts, unsigned i, uint8_t *data, size_t room);

/* The input as a string, cut at `room`; gives text. */
char *fuzz_text(const uint8_t *data, size_t size, char *text, size_t room);

#endif
