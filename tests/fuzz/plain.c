/* plain.c - runs a fuzz target without libFuzzer: on files, and on well-formed input, damaged. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   fuzz_frame                       200,000 damaged inputs, the same ones each time
 *   fuzz_frame -runs=500 FOLDER      each input of the folder once, then 500 damaged ones
 *   fuzz_frame FILE ...              these inputs, each once: what libFuzzer has found
 *
 * Other options of libFuzzer mean nothing here.
 */
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fuzz/fuzz.h"

enum { ROOM = 1 << 16, RUNS = 200000, DAMAGES_MAX = 4 };

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

/* What a sanitizer looks at ends where the input does. */
static void run_one(const uint8_t *data, size_t len)
{
    uint8_t *exact = malloc(len > 0 ? len : 1);

    if (exact == NULL)
        abort();
    memcpy(exact, data, len);
    (void)LLVMFuzzerTestOneInput(exact, len);
    free(exact);
}

static int run_damaged(unsigned runs)
{
    static uint8_t data[ROOM];
    uint64_t state = UINT64_C(0x9e3779b97f4a7c15);
    unsigned seeds = 0;

    while (fuzz_seed(seeds, data, sizeof(data)) > 0)
        seeds++;
    if (seeds == 0)
        return 1;
    for (unsigned run = 0; run < runs; run++) {
        size_t len = fuzz_seed(run % seeds, data, sizeof(data));

        for (uint64_t left = next(&state) % (DAMAGES_MAX + 1); left > 0; left--)
            damage(data, len, &state);
        if (next(&state) % 8 == 0)
            len = next(&state) % (len + 1);
        run_one(data, len);
    }
    printf("%u inputs made of %u\n", runs, seeds);
    return 0;
}

static int run_file(const char *path)
{
    static uint8_t data[ROOM];
    FILE *file = fopen(path, "rb");

    if (file == NULL) {
        perror(path);
        return 1;
    }
    run_one(data, fread(data, 1, sizeof(data), file));
    fclose(file);
    return 0;
}

static int run_folder(const char *path)
{
    DIR *dir = opendir(path);
    const struct dirent *entry;
    int failed = dir == NULL;

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        char file[512];

        if (entry->d_name[0] == '.')
            continue;
        (void)snprintf(file, sizeof(file), "%.200s/%.255s", path, entry->d_name);
        failed += run_file(file);
    }
    if (dir != NULL)
        closedir(dir);
    return failed;
}

int main(int argc, char **argv)
{
    unsigned runs = RUNS;
    bool is_told = false;
    int failed = 0;

    for (int i = 1; i < argc; i++) {
        struct stat info;

        if (strncmp(argv[i], "-runs=", 6) == 0) {
            runs = (unsigned)strtoul(argv[i] + 6, NULL, 10);
            is_told = true;
        } else if (argv[i][0] != '-') {
            bool is_folder = stat(argv[i], &info) == 0 && S_ISDIR(info.st_mode);

            failed += is_folder ? run_folder(argv[i]) : run_file(argv[i]);
            if (!is_told)
                runs = 0;
        }
    }
    if (runs > 0)
        failed += run_damaged(runs);
    return failed > 0;
}
