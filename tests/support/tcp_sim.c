/* tcp_sim.c - sockets in virtual time: what they do, call by call, and what goes between them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "support/tcp_sim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "core/assert.h"
#include "core/base.h"
#include "net/sock.h"
#include "tcdist/reactor.h"

/* Numbers of descriptors that no system gives, and that are given once. */
enum { FD_FIRST = 1 << 24, PORT_FIRST = 32768 };

/* A connection that a full listener has not heard asks again after so long, and then twice it. */
#define AGAIN_NS (1000 * TCI_NS_PER_MS)

enum sock_state { SOCK_LISTENS, SOCK_ASKS, SOCK_REFUSED, SOCK_STANDS };

struct sock {
    struct sim_event ready;
    struct sim_tcp_rank *rank;
    enum sock_state state;
    bool is_open, is_noted, has_end;
    struct tci_addr local, there;
    struct sock *peer; /* NULL: there is none yet */
    struct tci_watch *watch;
    size_t on_way;  /* bytes that the peer has not got */
    uint8_t *bytes; /* owned: what has come, from done on */
    size_t len, done;
    struct sock *first, *next; /* of a listener, those that wait; the next of them */
    unsigned waiting, heard;   /* those, and those that are heard and do not stand yet */
};

/*  who connects                      listener's host
 *     | ---- ASK ---------------------> |   heard, or not where too many wait; refused with NONE
 *     | <--- HEARD -------------------- |
 *     | ---- STANDS ------------------> |   now it can be accepted
 *     | ---- BYTES, END --------------> |   both ways; ROOM back
 */
enum packet_kind { ASK, HEARD, NONE, STANDS, BYTES, ROOM, END };

struct packet {
    struct sim_event event;
    enum packet_kind kind;
    struct sock *from; /* who connects, with the first four */
    unsigned tries;
    size_t len;
    uint8_t bytes[];
};

static struct {
    struct sim_tcp_how how;
    struct sim_clock clock;
    struct sim_exec wire; /* on which packets arrive: systems are never busy */
    struct sim_tcp_rank *ranks;
    size_t rank_count;
    struct sock **socks; /* owned, with what they point to; by descriptor */
    size_t count, room;
    uint16_t port;
} net;

/* ---- Ranks ---------------------------------------------------------------------------------- */

static struct sim_tcp_rank *caller(void)
{
    TC_ASSERT(net.clock.turning != NULL && net.clock.turning != &net.wire);
    return tci_container_of(net.clock.turning, struct sim_tcp_rank, exec);
}

/* A call of the rank; gives the time at which it has been made. */
static uint64_t charge(struct sim_tcp_rank *rank)
{
    uint64_t now_ns = tci_max(net.clock.now_ns, rank->exec.stalled_to_ns) + net.how.call_ns;

    rank->calls++;
    if (net.clock.turning == &rank->exec)
        rank->exec.stalled_to_ns = now_ns;
    return now_ns;
}

/* ---- Sockets -------------------------------------------------------------------------------- */

static struct sock *sock_of(int fd)
{
    TC_ASSERT(fd >= FD_FIRST && (size_t)(fd - FD_FIRST) < net.count);
    return net.socks[fd - FD_FIRST];
}

static bool is_simulated(int fd)
{
    return fd >= FD_FIRST;
}

static uint32_t what_is_ready(const struct sock *sock)
{
    uint32_t ready = 0;

    if (sock->first != NULL || sock->len > sock->done || sock->has_end)
        ready |= TC_READABLE;
    if (sock->state == SOCK_REFUSED || (sock->state == SOCK_STANDS && sock->on_way < net.how.room))
        ready |= TC_WRITABLE;
    return ready;
}

/* Level-triggered: what is ready is told until it is not, or nobody watches. */
static void note(struct sock *sock)
{
    if (sock->watch == NULL || sock->is_noted || (what_is_ready(sock) & sock->watch->interest) == 0)
        return;
    sock->is_noted = true;
    sim_clock_add(&net.clock, net.clock.now_ns, &sock->ready);
}

static void on_ready(struct sim_event *event)
{
    struct sock *sock = tci_container_of(event, struct sock, ready);
    uint32_t ready = sock->watch == NULL ? 0 : what_is_ready(sock) & sock->watch->interest;

    sock->is_noted = false;
    if (ready != 0)
        sock->watch->fn(sock->watch, ready);
    note(sock);
}

static int open_sock(struct sim_tcp_rank *rank, enum sock_state state, const struct tci_addr *local)
{
    struct sock *sock = calloc(1, sizeof(*sock));

    if (net.count == net.room) {
        net.room = tci_max(1024, 2 * net.room);
        net.socks = realloc(net.socks, net.room * sizeof(struct sock *));
    }
    TC_ASSERT(sock != NULL && net.socks != NULL);
    *sock = (struct sock){.ready = {.exec = &rank->exec, .fn = on_ready},
                          .rank = rank,
                          .state = state,
                          .is_open = true,
                          .local = *local};
    if (tci_addr_port(local) == 0)
        tci_addr_set_port(&sock->local, net.port++);
    net.socks[net.count] = sock;
    return FD_FIRST + (int)net.count++;
}

static void count_descriptor(struct sim_tcp_rank *rank)
{
    rank->open++;
    rank->open_most = tci_max(rank->open_most, rank->open);
}

static struct sock *find_listener(const struct tci_addr *addr)
{
    for (size_t k = 0; k < net.count; k++)
        if (net.socks[k]->is_open && net.socks[k]->state == SOCK_LISTENS &&
            tci_addr_is_equal(&net.socks[k]->local, addr))
            return net.socks[k];
    return NULL;
}

/* ---- What goes between them ------------------------------------------------------------------ */

static void arrive(struct sim_event *event);

static void go(struct packet *packet, uint64_t at_ns)
{
    packet->event = (struct sim_event){.exec = &net.wire, .fn = arrive};
    sim_clock_add(&net.clock, at_ns, &packet->event);
}

/* From the caller's host, behind all that it has sent before. */
static void send_packet(struct sock *from, enum packet_kind kind, const void *bytes, size_t len)
{
    struct packet *packet = calloc(1, sizeof(*packet) + len);
    struct sim_tcp_rank *rank = from->rank;

    TC_ASSERT(packet != NULL);
    packet->kind = kind;
    packet->from = from;
    packet->len = len;
    if (len > 0)
        memcpy(packet->bytes, bytes, len);
    rank->line_ns = tci_max(rank->line_ns, charge(rank)) + len * 1000 / net.how.bytes_per_us;
    go(packet, rank->line_ns + net.how.hop_ns);
}

/* The same packet on its way again, as an answer or once more; else it is over. */
static bool on_ask(struct packet *packet)
{
    struct sock *listener = find_listener(&packet->from->there);
    uint64_t after_ns = net.how.hop_ns;

    if (listener == NULL)
        packet->kind = NONE;
    else if (listener->waiting + listener->heard >= net.how.backlog)
        after_ns = AGAIN_NS << packet->tries++;
    else {
        listener->heard++;
        packet->kind = HEARD;
    }
    go(packet, net.clock.now_ns + after_ns);
    return true;
}

static bool on_heard(struct packet *packet)
{
    struct sock *listener = find_listener(&packet->from->there);

    if (listener != NULL && !packet->from->is_open)
        listener->heard--;
    if (!packet->from->is_open)
        return false;
    packet->from->state = SOCK_STANDS;
    packet->kind = STANDS;
    go(packet, net.clock.now_ns + net.how.hop_ns); /* before all that is sent from now on */
    note(packet->from);
    return true;
}

static void on_stands(struct sock *from)
{
    struct sock *listener = find_listener(&from->there), *sock, **last;

    if (listener == NULL)
        return;
    listener->heard--;
    sock = sock_of(open_sock(listener->rank, SOCK_STANDS, &listener->local));
    sock->there = from->local;
    sock->peer = from;
    from->peer = sock;
    for (last = &listener->first; *last != NULL; last = &(*last)->next)
        continue;
    *last = sock;
    listener->waiting++;
    listener->rank->waiting_most = tci_max(listener->rank->waiting_most, listener->waiting);
    note(listener);
}

static bool on_bytes(struct packet *packet)
{
    struct sock *to = packet->from->peer;

    if (to == NULL || !to->is_open)
        return false;
    to->bytes = realloc(to->bytes, to->len + packet->len);
    TC_ASSERT(to->bytes != NULL);
    memcpy(to->bytes + to->len, packet->bytes, packet->len);
    to->len += packet->len;
    note(to);
    packet->kind = ROOM;
    go(packet, net.clock.now_ns + net.how.hop_ns);
    return true;
}

static void arrive(struct sim_event *event)
{
    struct packet *packet = tci_container_of(event, struct packet, event);
    struct sock *from = packet->from;
    bool goes_on = false;

    switch (packet->kind) {
    case ASK:
        goes_on = on_ask(packet);
        break;
    case HEARD:
        goes_on = on_heard(packet);
        break;
    case NONE:
        from->state = SOCK_REFUSED;
        note(from);
        break;
    case STANDS:
        on_stands(from);
        break;
    case BYTES:
        goes_on = on_bytes(packet);
        break;
    case ROOM:
        from->on_way -= packet->len;
        note(from);
        break;
    case END:
        if (from->peer != NULL) {
            from->peer->has_end = true;
            note(from->peer);
        }
        break;
    }
    if (!goes_on)
        free(packet);
}

/* ---- In place of net/sock.h ------------------------------------------------------------------ */

/* The linker brings the calls of what is tested here: ld(1), --wrap. */
tc_status_t __wrap_tci_sock_listen(const struct tci_addr *addr, int *fd_out,
                                   struct tci_addr *bound_out, struct tci_error *error);
tc_status_t __wrap_tci_sock_connect(const struct tci_addr *to, int *fd_out, bool *is_up_out,
                                    struct tci_error *error);
int __wrap_tci_sock_connect_result(int fd);
int __wrap_tci_sock_accept(int listener, struct tci_addr *from_out);
bool __wrap_tci_sock_tune(int fd);
void __wrap_tci_sock_local(int fd, struct tci_addr *addr_out);
int __wrap_tci_watch_add(struct tci_loop *loop, struct tci_watch *watch, int fd, uint32_t interest);
int __wrap_tci_watch_change(struct tci_watch *watch, uint32_t interest);
void __wrap_tci_watch_del(struct tci_watch *watch);
struct tci_exec *__wrap_tci_loop_exec(struct tci_loop *loop);
ssize_t __wrap_recv(int fd, void *bytes, size_t len, int flags);
ssize_t __wrap_send(int fd, const void *bytes, size_t len, int flags);
int __wrap_shutdown(int fd, int how);
int __wrap_close(int fd);
int __real_close(int fd);

tc_status_t __wrap_tci_sock_listen(const struct tci_addr *addr, int *fd_out,
                                   struct tci_addr *bound_out, struct tci_error *error)
{
    (void)error;
    (void)charge(caller());
    TC_ASSERT(find_listener(addr) == NULL);
    *fd_out = open_sock(caller(), SOCK_LISTENS, addr);
    *bound_out = sock_of(*fd_out)->local;
    count_descriptor(caller());
    return TC_OK;
}

tc_status_t __wrap_tci_sock_connect(const struct tci_addr *to, int *fd_out, bool *is_up_out,
                                    struct tci_error *error)
{
    struct tci_addr here = *to;

    (void)error;
    tci_addr_set_port(&here, 0);
    *fd_out = open_sock(caller(), SOCK_ASKS, &here);
    *is_up_out = false;
    sock_of(*fd_out)->there = *to;
    count_descriptor(caller());
    caller()->dials++;
    send_packet(sock_of(*fd_out), ASK, NULL, 0);
    return TC_OK;
}

int __wrap_tci_sock_connect_result(int fd)
{
    (void)charge(caller());
    return sock_of(fd)->state == SOCK_REFUSED ? ECONNREFUSED : 0;
}

int __wrap_tci_sock_accept(int listener, struct tci_addr *from_out)
{
    struct sock *at = sock_of(listener), *first = at->first;

    (void)charge(caller());
    if (first == NULL) {
        errno = EAGAIN;
        return -1;
    }
    at->first = first->next;
    at->waiting--;
    *from_out = first->there;
    count_descriptor(caller());
    for (size_t k = net.count; k-- > 0;)
        if (net.socks[k] == first)
            return FD_FIRST + (int)k;
    TC_UNREACHABLE();
}

bool __wrap_tci_sock_tune(int fd)
{
    (void)fd;
    (void)charge(caller());
    return true;
}

void __wrap_tci_sock_local(int fd, struct tci_addr *addr_out)
{
    *addr_out = sock_of(fd)->local;
}

/* ---- In place of loop/loop.h ----------------------------------------------------------------- */

struct tci_exec *__wrap_tci_loop_exec(struct tci_loop *loop)
{
    return (struct tci_exec *)loop;
}

int __wrap_tci_watch_add(struct tci_loop *loop, struct tci_watch *watch, int fd, uint32_t interest)
{
    struct sock *sock = sock_of(fd);

    TC_ASSERT(watch->loop == NULL && sock->watch == NULL && sock->is_open);
    watch->fd = fd;
    watch->interest = interest;
    watch->loop = loop;
    sock->watch = watch;
    note(sock);
    return 0;
}

int __wrap_tci_watch_change(struct tci_watch *watch, uint32_t interest)
{
    watch->interest = interest;
    note(sock_of(watch->fd));
    return 0;
}

void __wrap_tci_watch_del(struct tci_watch *watch)
{
    if (watch->loop == NULL)
        return;
    sock_of(watch->fd)->watch = NULL;
    watch->loop = NULL;
}

/* ---- In place of the system's calls ---------------------------------------------------------- */

ssize_t __wrap_recv(int fd, void *bytes, size_t len, int flags)
{
    struct sock *sock = sock_of(fd);
    size_t got = tci_min(len, sock->len - sock->done);

    (void)flags;
    (void)charge(caller());
    if (got == 0 && !sock->has_end) {
        errno = EAGAIN;
        return -1;
    }
    if (got > 0)
        memcpy(bytes, sock->bytes + sock->done, got);
    sock->done += got;
    sock->rank->bytes_in += got;
    return (ssize_t)got;
}

ssize_t __wrap_send(int fd, const void *bytes, size_t len, int flags)
{
    struct sock *sock = sock_of(fd);
    size_t room = net.how.room - tci_min(net.how.room, sock->on_way);

    (void)flags;
    TC_ASSERT(sock->state == SOCK_STANDS);
    if (room == 0) {
        errno = EAGAIN;
        return -1;
    }
    len = tci_min(len, room);
    sock->on_way += len;
    sock->rank->sends++;
    sock->rank->bytes_out += len;
    send_packet(sock, BYTES, bytes, len);
    return (ssize_t)len;
}

int __wrap_shutdown(int fd, int how)
{
    (void)how;
    send_packet(sock_of(fd), END, NULL, 0);
    return 0;
}

int __wrap_close(int fd)
{
    struct sock *sock;

    if (!is_simulated(fd))
        return __real_close(fd);
    sock = sock_of(fd);
    TC_ASSERT(sock->is_open && sock->watch == NULL);
    sock->is_open = false;
    sock->rank->open--;
    if (sock->state == SOCK_STANDS)
        send_packet(sock, END, NULL, 0);
    return 0;
}

/* ---- The whole ------------------------------------------------------------------------------- */

void sim_tcp_open(const struct sim_tcp_how *how, size_t count)
{
    TC_ASSERT(net.ranks == NULL);
    net.how = *how;
    net.port = PORT_FIRST;
    net.rank_count = count;
    net.ranks = calloc(count, sizeof(*net.ranks));
    TC_ASSERT(net.ranks != NULL);
    sim_clock_init(&net.clock);
    sim_exec_init(&net.wire, &net.clock);
    for (size_t k = 0; k < count; k++)
        sim_exec_init(&net.ranks[k].exec, &net.clock);
}

void sim_tcp_close(void)
{
    /* What is still on its way arrives, where nobody is. */
    while (sim_clock_step(&net.clock, TCI_NEVER))
        continue;
    for (size_t k = 0; k < net.count; k++) {
        TC_ASSERT(!net.socks[k]->is_open || net.socks[k]->state == SOCK_STANDS);
        free(net.socks[k]->bytes);
        free(net.socks[k]);
    }
    for (size_t k = 0; k < net.rank_count; k++) {
        TC_ASSERT(net.ranks[k].open == 0);
        sim_exec_fini(&net.ranks[k].exec);
    }
    sim_exec_fini(&net.wire);
    sim_clock_fini(&net.clock);
    free(net.socks);
    free(net.ranks);
    memset(&net, 0, sizeof(net));
}

struct sim_clock *sim_tcp_clock(void)
{
    return &net.clock;
}

struct sim_tcp_rank *sim_tcp_rank(size_t rank)
{
    TC_ASSERT(rank < net.rank_count);
    return &net.ranks[rank];
}

struct tci_loop *sim_tcp_loop(size_t rank)
{
    return (struct tci_loop *)(void *)sim_tcp_rank(rank);
}
