/* fuzz_trace.c - feeds bytes to the reader of traces. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "core/trace_read.h"
#include "fuzz/fuzz.h"

/* Least of all: a ring of four. */
enum { EVENTS = 4, ROOM = 4096 };

static void check_text(const char *text, size_t room)
{
    size_t len = strnlen(text, room);

    if (len == room)
        abort();
    for (size_t i = 0; i < len; i++)
        if (text[i] < ' ' || text[i] > '~')
            abort();
}

static void read_tables(const struct tci_trace_view *view)
{
    struct tci_trace_seen_group group;
    struct tci_trace_seen_link link;
    struct tci_trace_seen_live live;
    char text[TCI_TRACE_NAME_TEXT];

    for (uint32_t i = 0; i < view->tables[TCI_TRACE_NAMES].count; i++)
        check_text(tci_trace_view_name(view, i, text), sizeof(text));
    for (uint32_t i = 0; i < view->tables[TCI_TRACE_GROUPS].count; i++)
        if (tci_trace_view_group(view, i, &group)) {
            check_text(group.reason, sizeof(group.reason));
            if (group.rank >= group.size)
                abort();
        }
    for (uint32_t i = 0; i < view->tables[TCI_TRACE_LINKS].count; i++)
        (void)tci_trace_view_link(view, i, &link);
    for (uint32_t i = 0; i < view->tables[TCI_TRACE_LIVE].count; i++)
        if (tci_trace_view_live(view, i, &live) && live.waits_count > TCI_TRACE_CELLS)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tci_trace_view view;
    struct tci_trace_seen event;
    char text[TCI_TRACE_NAME_TEXT];
    /* Exactly so long, so that a sanitizer sees what is read behind it. */
    uint8_t *bytes = malloc(size + 1);

    if (bytes == NULL)
        return 0;
    memcpy(bytes, data, size);
    if (tci_trace_view_open(&view, bytes, size) == NULL) {
        check_text(view.host, sizeof(view.host));
        read_tables(&view);
        for (uint64_t n = tci_trace_view_first(&view), i = 0;
             i < view.tables[TCI_TRACE_SLOTS].count; i++)
            if (tci_trace_view_event(&view, n + i, &event)) {
                (void)tci_trace_view_name(&view, event.name, text);
                if (event.kind >= TCI_TRACE_KINDS || event.end_ns < event.begin_ns)
                    abort();
            }
    }
    free(bytes);
    return 0;
}

size_t fuzz_seed(unsigned i, uint8_t *data, size_t room)
{
    size_t bytes = tci_trace_bytes(EVENTS);
    _Alignas(8) static uint8_t image[ROOM];
    struct tci_trace *trace;

    if (i > 0 || bytes > room || bytes > sizeof(image))
        return 0;
    memset(image, 0, sizeof(image));
    trace = tci_trace_new_in(EVENTS, image);
    if (trace == NULL)
        return 0;
    for (uint64_t n = 0; n < EVENTS + 2; n++)
        tci_trace_add(trace, &(struct tci_trace_record){.kind = TCI_TRACE_APP,
                                                        .rank = -1,
                                                        .peer = -1,
                                                        .name = "forward",
                                                        .begin_ns = n,
                                                        .end_ns = n + 1});
    tci_trace_group_set(trace, &(struct tci_trace_group_facts){.number = 1, .size = 2});
    tci_trace_link_set(trace, 1, 1, TCI_TRACE_LINK_UP);
    tci_trace_free(trace);
    memcpy(data, image, bytes);
    return bytes;
}
