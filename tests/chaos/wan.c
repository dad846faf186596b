/* wan.c - a long line: packets between two devices arrive late, and some not at all. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "chaos/lab.h"

enum { PACKET_BYTES = 2048, QUEUE = 4096, BATCH = 64, NS_PER_S = 1000000000 };

struct packet {
    uint64_t due_ns;
    int len;
    char bytes[PACKET_BYTES];
};

/* One direction; packets leave in the order in which they came. */
struct line {
    struct packet *queue; /* a ring of QUEUE */
    unsigned head, tail;
};

static uint64_t now_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

/* The same packets are lost in every run. */
static bool is_lost(unsigned loss_ppm)
{
    static uint64_t random = 42;

    random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (random >> 33) % 1000000 < loss_ppm;
}

static void take_in(struct line *line, int device, uint64_t delay_ns, unsigned loss_ppm)
{
    for (int i = 0; i < BATCH && line->tail - line->head < QUEUE; i++) {
        struct packet *packet = &line->queue[line->tail % QUEUE];

        packet->len = (int)read(device, packet->bytes, sizeof(packet->bytes));
        if (packet->len <= 0)
            return;
        if (is_lost(loss_ppm))
            continue;
        packet->due_ns = now_ns() + delay_ns;
        line->tail++;
    }
}

/* Gives when the next packet is due. */
static uint64_t give_out(struct line *line, int device)
{
    while (line->head != line->tail) {
        struct packet *packet = &line->queue[line->head % QUEUE];

        if (packet->due_ns > now_ns())
            return packet->due_ns;
        if (write(device, packet->bytes, (size_t)packet->len) < 0 && errno == EAGAIN)
            return now_ns() + NS_PER_S / 1000;
        line->head++;
    }
    return UINT64_MAX;
}

void wan_carry(const int devices[2], unsigned delay_us, unsigned loss_ppm)
{
    struct line lines[2] = {{0}};

    for (int i = 0; i < 2; i++) {
        lines[i].queue = calloc(QUEUE, sizeof(*lines[i].queue));
        if (lines[i].queue == NULL)
            _exit(1);
    }
    for (;;) {
        struct pollfd polled[2] = {{.fd = devices[0], .events = POLLIN},
                                   {.fd = devices[1], .events = POLLIN}};
        uint64_t next = UINT64_MAX, now;
        struct timespec nap = {.tv_sec = 1};

        for (int i = 0; i < 2; i++) {
            uint64_t due;

            take_in(&lines[i], devices[i], delay_us * UINT64_C(1000), loss_ppm);
            due = give_out(&lines[i], devices[1 - i]);
            next = due < next ? due : next;
        }
        now = now_ns();
        if (next < now + NS_PER_S)
            nap = (struct timespec){.tv_nsec = (long)(next > now ? next - now : 0)};
        (void)ppoll(polled, 2, &nap, NULL);
    }
}
