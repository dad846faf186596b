/* plain.c - runs a fuzz target without libFuzzer: on files, or on well-formed input, damaged. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   fuzz_frame             so many damaged inputs, the same ones each time
 *   fuzz_frame FILE ...    these inputs, each once: what libFuzzer has found
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz.h"

enum { ROOM = 4096, RUNS = FUZZ_RUNS, DAMAGES_MAX = 4 };

static uint64_t next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* One byte becomes another: any, a neighbour, or one with a bit turned. */
static void damage(uint8_t *data, size_t len, uint64_t *state)
{
    uint64_t how = next(state);
    uint8_t *at = &data[next(state) % len];

    switch (how % 4) {
    case 0:
        *at = (uint8_t)next(state);
        break;
    case 1:
        *at = (uint8_t)(*at + 1);
        break;
    case 2:
        *at = how & 64 ? 255 : 0;
        break;
    default:
        *at ^= (uint8_t)(1u << (how >> 8 & 7));
        break;
    }
}

static int run_damaged(void)
{
    static uint8_t data[ROOM];
    uint64_t state = UINT64_C(0x9e3779b97f4a7c15);
    unsigned seeds = 0;

    while (fuzz_seed(seeds, data, sizeof(data)) > 0)
        seeds++;
    if (seeds == 0)
        return 1;
    for (unsigned run = 0; run < RUNS; run++) {
        size_t len = fuzz_seed(run % seeds, data, sizeof(data));

        for (uint64_t left = next(&state) % (DAMAGES_MAX + 1); left > 0; left--)
            damage(data, len, &state);
        if (next(&state) % 8 == 0)
            len = next(&state) % (len + 1);
        (void)LLVMFuzzerTestOneInput(data, len);
    }
    printf("%u inputs made of %u\n", (unsigned)RUNS, seeds);
    return 0;
}

int main(int argc, char **argv)
{
    static uint8_t data[ROOM];

    if (argc < 2)
        return run_damaged();
    for (int i = 1; i < argc; i++) {
        FILE *file = fopen(argv[i], "rb");

        if (file == NULL) {
            perror(argv[i]);
            return 1;
        }
        (void)LLVMFuzzerTestOneInput(data, fread(data, 1, sizeof(data), file));
        fclose(file);
    }
    return 0;
}
