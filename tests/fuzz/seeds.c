/* seeds.c - well-formed input among what a fuzzer thinks up, and texts as input. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/base.h"
#include "fuzz/fuzz.h"

size_t fuzz_seed_text(const char *const *texts, unsigned i, uint8_t *data, size_t room)
{
    size_t len;

    while (i > 0 && *texts != NULL) {
        texts++;
        i--;
    }
    if (*texts == NULL)
        return 0;
    len = tci_min(strlen(*texts), room);
    memcpy(data, *texts, len);
    return len;
}

char *fuzz_text(const uint8_t *data, size_t size, char *text, size_t room)
{
    size_t len = tci_min(size, room - 1);

    if (len > 0)
        memcpy(text, data, len);
    text[len] = '\0';
    return text;
}

/* libFuzzer's own; found there by its name.  Absent from the plain runner. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t size_max) __attribute__((weak));
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t size_max, unsigned seed);

/* Now and then it begins again at well-formed input, so that none has to lie in files, which would
 * grow old with every change of a format. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t size_max, unsigned seed)
{
    static uint8_t made[1 << 16];
    unsigned seeds = 0;

    if (size > 1 && seed % 64 != 0)
        return LLVMFuzzerMutate(data, size, size_max);
    while (fuzz_seed(seeds, made, sizeof(made)) > 0)
        seeds++;
    size = tci_min(fuzz_seed(seed / 64 % seeds, made, sizeof(made)), size_max);
    memcpy(data, made, size);
    return seed / 64 % 2 == 0 ? size : LLVMFuzzerMutate(data, size, size_max);
}
