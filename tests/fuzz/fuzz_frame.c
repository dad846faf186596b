/* fuzz_frame.c - feeds bytes to the decoders of frames, notices and greetings. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What decodes must encode to the same bytes. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t wire[TCI_HEAD_BYTES + TCI_NOTICE_BYTES] = {0}, again[TCI_HEAD_BYTES];
    struct tci_frame frame;
    struct tci_notice notice;
    struct tci_hello hello;

    memcpy(wire, data, size < sizeof(wire) ? size : sizeof(wire));
    (void)tci_hello_decode(wire, &hello);
    if (tci_frame_decode(wire, &frame) != NULL)
        return 0;
    tci_frame_encode(&frame, again);
    if (memcmp(wire, again, sizeof(again)) != 0)
        abort();
    if (tci_notice_decode(&frame, wire + TCI_HEAD_BYTES, &notice) == NULL &&
        (notice.kind >= TCI_NOTICE_KINDS || memchr(notice.text, 0, sizeof(notice.text)) == NULL))
        abort();
    return 0;
}

#ifndef TCDIST_LIBFUZZER
/* Without libFuzzer: the files that are named, one after the other. */
int main(int argc, char **argv)
{
    static uint8_t data[4096];

    for (int i = 1; i < argc; i++) {
        FILE *file = fopen(argv[i], "rb");

        if (file == NULL)
            return 1;
        LLVMFuzzerTestOneInput(data, fread(data, 1, sizeof(data), file));
        fclose(file);
    }
    return 0;
}
#endif
