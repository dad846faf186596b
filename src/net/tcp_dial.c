/* tcp_dial.c - links between ranks that did not meet at the start: dialed, and greeted. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "net/tcp_link.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/assert.h"
#include "core/log.h"
#include "net/acks.h"
#include "net/sock.h"

/*   dialer                        acceptor
 *   connect  ------------------>  accept: a half-open connection, limited in number and time
 *   (with a key: the proof of it, both ways; greet.h)
 *   HELLO (group, from, to)  -->  checked
 *            <------------------  WELCOME: the link stands; or REFUSE; or, to a stray, nothing
 *
 * When two ranks dial each other, the connection of the lower one is used if it has got as far as
 * its HELLO: it then refuses the other, and the higher one takes what the lower one dialed.  If it
 * has not, it may never get there, and takes what the higher one dialed.
 */
enum { BACKOFF_MIN_MS = 5, BACKOFF_MAX_MS = 500 };
enum { PATIENCE_MAX_MS = 8000 };

static uint64_t now_plus_ms(struct tci_tcp *tcp, uint64_t ms)
{
    return tcp->exec->ops->now_ns(tcp->exec) + ms * TCI_NS_PER_MS;
}

bool tci_greeting_send(struct tci_greet *greet, int fd, uint8_t kind, const struct tci_hello *hello,
                       uint64_t refusal)
{
    struct tci_frame frame = {.kind = kind, .total = refusal};
    uint8_t wire[TCI_GREETING_BYTES];

    if (kind != TCI_FRAME_REFUSE) {
        frame.length = TCI_HELLO_BYTES;
        tci_hello_encode(hello, wire + TCI_HEAD_BYTES);
    }
    tci_frame_encode(&frame, wire);
    return tci_greet_send(greet, fd, wire, TCI_HEAD_BYTES + (size_t)frame.length);
}

void tci_link_wake_at(struct tci_link *link, uint64_t when_ns)
{
    struct tci_tcp *tcp = link->tcp;

    if (tcp->exec->ops->timer_set(tcp->exec, &link->timer, when_ns) == 0)
        return;
    link->send_errno = ENOMEM;
    if (tci_list_is_empty(&link->sending_link))
        tci_list_add(&tcp->sending, &link->sending_link);
}

/* The connection that is tried is given up. */
static void end_try(struct tci_link *link)
{
    tci_knock_end(link->knock);
    tci_watch_del(&link->watch);
    if (link->fd >= 0)
        close(link->fd);
    link->fd = -1;
    tci_greet_fini(&link->greet);
    tci_crypt_free(link->crypt);
    link->crypt = NULL;
}

void tci_link_dial_failed(struct tci_link *link, int error)
{
    struct tci_tcp *tcp = link->tcp;
    uint64_t next_ns = now_plus_ms(tcp, link->backoff_ms);

    if (link->index != 0) {
        tci_side_dial_failed(link);
        return;
    }
    end_try(link);
    link->dial_errno = error;
    link->refusals = error == ECONNREFUSED ? link->refusals + 1 : 0;
    link->backoff_ms = (uint32_t)tci_min(2 * (size_t)link->backoff_ms, BACKOFF_MAX_MS);
    link->denials = error == EKEYREJECTED ? link->denials + 1 : 0;
    if (tci_link_detour_failed(link))
        next_ns = now_plus_ms(tcp, 0); /* at once, another way */
    else if (link->refusals >= link->refusals_max ||
             (link->denials >= TCI_TCP_DENIALS_MAX && link->state == TCI_LINK_DIALING))
        link->deadline_ns = now_plus_ms(tcp, 0);
    if (link->yields || next_ns > link->deadline_ns)
        next_ns = link->deadline_ns;
    tci_link_wake_at(link, next_ns);
}

static void link_stands(struct tci_link *link)
{
    struct tci_tcp *tcp = link->tcp;
    int fd = link->fd;

    tcp->exec->ops->timer_clear(tcp->exec, &link->timer);
    tci_watch_del(&link->watch);
    link->fd = -1;
    if (tci_greet_end(&link->greet, &link->crypt) == 0 && tci_link_up(link, fd) == 0)
        return;
    link->fd = fd;
    tci_link_dial_failed(link, errno);
}

static void refused(struct tci_link *link, bool is_for_good)
{
    if (link->state == TCI_LINK_HEALING && is_for_good) {
        tci_link_lose(link, TC_REASON_LINK_DEAD,
                      "has given up the link after its connection broke");
        return;
    }
    link->yields = link->state == TCI_LINK_DIALING;
    tci_link_dial_failed(link, link->yields ? ETIMEDOUT : EAGAIN);
}

/* The answer, read no further than it goes. */
static void read_answer(struct tci_link *link)
{
    struct tci_tcp *tcp = link->tcp;
    uint8_t *wire = link->greeting;
    struct tci_hello hello;
    struct tci_frame frame;
    ssize_t got;

    do {
        size_t want = (link->greet_have < TCI_HEAD_BYTES ? TCI_HEAD_BYTES : TCI_GREETING_BYTES);

        got = tci_greet_receive(&link->greet, link->fd, wire + link->greet_have,
                                want - link->greet_have);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (got <= 0) {
            tci_link_dial_failed(link, got == 0 ? ECONNRESET : errno);
            return;
        }
        link->greet_have += (unsigned)got;
        if (link->greet_have < TCI_HEAD_BYTES)
            return;
        if (tci_frame_decode(wire, &frame) != NULL) {
            tci_link_dial_failed(link, EPROTO);
            return;
        }
        if (frame.kind == TCI_FRAME_REFUSE) {
            refused(link, frame.total == TCI_REFUSED_FOR_GOOD);
            return;
        }
    } while (link->greet_have < TCI_GREETING_BYTES);
    if (frame.kind != TCI_FRAME_WELCOME ||
        tci_hello_decode(wire + TCI_HEAD_BYTES, &hello) != NULL || hello.from != tcp->rank ||
        hello.to != link->peer || memcmp(hello.group_id, tcp->group_id, TCI_GROUP_ID) != 0 ||
        tci_link_resume(link, &hello) != NULL) {
        tci_link_dial_failed(link, EPROTO);
        return;
    }
    link_stands(link);
}

/* It stands; 0, or the errno that it has failed with. */
static int connected(struct tci_link *link)
{
    int error = tci_sock_connect_result(link->fd);

    if (error == 0 && tci_watch_change(&link->watch, TC_READABLE) != 0)
        error = errno;
    link->has_connected = error == 0;
    return error;
}

static enum tci_greet_state prove(struct tci_link *link, bool is_begin)
{
    struct tci_auth_config config;
    enum tci_greet_state state;

    tci_link_auth_config(link->tcp, link->peer, true, &config);
    state = is_begin ? tci_greet_begin(&link->greet, &config, link->fd)
                     : tci_greet_go_on(&link->greet, link->fd);
    if (state == TCI_GREET_FAILED && errno == EKEYREJECTED) {
        link->denied = link->greet.auth->reason;
        link->is_denied_by_peer = link->greet.auth->by_peer;
    }
    return state;
}

/* Greet, as soon as both have proven their key. */
static void say_hello(struct tci_link *link, bool is_begin)
{
    enum tci_greet_state state;
    struct tci_hello hello;

    state = prove(link, is_begin);
    if (state == TCI_GREET_MORE)
        return;
    if (state == TCI_GREET_FAILED) {
        tci_link_dial_failed(link, errno);
        return;
    }
    tci_link_hello(link, &hello);
    if (tci_greeting_send(&link->greet, link->fd, TCI_FRAME_HELLO, &hello, 0))
        link->has_greeted = true;
    else
        tci_link_dial_failed(link, ECONNRESET);
}

static void on_dial_ready(struct tci_watch *watch, uint32_t ready)
{
    struct tci_link *link = tci_container_of(watch, struct tci_link, watch);
    bool is_begin = !link->has_connected;
    int error = is_begin ? connected(link) : 0;

    (void)ready;
    if (link->has_greeted)
        read_answer(link);
    else if (error != 0)
        tci_link_dial_failed(link, error);
    else
        say_hello(link, is_begin);
}

void tci_link_piped(struct tci_link *link, int fd)
{
    TC_ASSERT(link->fd < 0 && link->knock == NULL);
    link->fd = fd;
    link->has_connected = true;
    link->watch.fn = on_dial_ready;
    if (tci_watch_add(link->tcp->loop, &link->watch, fd, TC_READABLE) != 0)
        tci_link_dial_failed(link, errno);
    else
        say_hello(link, true);
}

/* 0, or an errno. */
static int connect_link(struct tci_link *link)
{
    struct tci_error error = {0};
    bool is_up;

    if (tci_sock_connect(&link->addr, &link->fd, &is_up, &error) != TC_OK) {
        link->fd = -1;
        return errno != 0 ? errno : ECONNREFUSED;
    }
    tci_tcp_disown(link->tcp, link->fd);
    link->watch.fn = on_dial_ready;
    return tci_watch_add(link->tcp->loop, &link->watch, link->fd, TC_WRITABLE) == 0 ? 0 : errno;
}

static uint64_t waited_ms(const struct tci_link *link)
{
    return (now_plus_ms(link->tcp, 0) - link->dial_ns) / TCI_NS_PER_MS;
}

/* A try that hangs is ended by the deadline, and made otherwise before that. */
static void wake_dialing(struct tci_link *link)
{
    uint64_t next_ms = tci_link_detour_next_ms(link, waited_ms(link));
    uint64_t next_ns = next_ms == 0 ? TCI_NEVER : link->dial_ns + next_ms * TCI_NS_PER_MS;

    tci_link_wake_at(link, next_ns < link->deadline_ns ? next_ns : link->deadline_ns);
}

void tci_link_dial_once(struct tci_link *link)
{
    int error;

    link->has_connected = link->has_greeted = false;
    link->greet_have = 0;
    link->attempts++;
    error = link->is_piped ? tci_link_knock(link) : connect_link(link);
    if (error != 0) {
        tci_link_dial_failed(link, error);
        return;
    }
    if (link->state == TCI_LINK_HEALING) {
        link->heal.giveup_ns = now_plus_ms(link->tcp, link->heal.patience_ms);
        link->heal.patience_ms =
            (uint32_t)tci_min(2 * (size_t)link->heal.patience_ms, PATIENCE_MAX_MS);
        tci_link_wake_at(link, link->heal.giveup_ns < link->deadline_ns ? link->heal.giveup_ns
                                                                        : link->deadline_ns);
    } else {
        wake_dialing(link);
    }
}

/* The peer's host has accepted the connection and has all that was said on it: the process does not
 * answer, as one that is stopped.  It is waited for as it is over a link that stands: whatever
 * waits has a deadline of its own, and names it rightly then. */
static bool is_host_there(const struct tci_link *link)
{
    struct tci_acks acks;

    return link->fd >= 0 && link->has_connected && !link->is_piped &&
           tci_acks_get(link->fd, &acks) && !acks.owes;
}

void tci_link_on_dial_timer(struct tci_timer *timer)
{
    struct tci_link *link = tci_container_of(timer, struct tci_link, timer);

    if (link->index != 0) {
        tci_side_on_timer(link);
        return;
    }
    if (link->state == TCI_LINK_HEALING) {
        tci_link_on_heal_timer(link);
        return;
    }
    TC_ASSERT(link->state == TCI_LINK_DIALING);
    if (now_plus_ms(link->tcp, 0) < link->deadline_ns) {
        if (link->fd >= 0 && tci_link_detour_late(link, waited_ms(link)))
            end_try(link);
        if (link->fd < 0 && link->knock == NULL && !link->yields)
            tci_link_dial_once(link);
        else
            wake_dialing(link);
        return;
    }
    if ((link->probe_fn != NULL || link->is_called) && link->live == 0 &&
        !tci_link_has_output(link)) {
        tci_link_dial_end(link);
        link->state = TCI_LINK_NONE;
        link->yields = false;
        link->refusals = 0;
        tci_link_end_probe(link, false);
        return;
    }
    if (is_host_there(link)) {
        link->deadline_ns = now_plus_ms(link->tcp, TCI_TCP_DIAL_MS);
        wake_dialing(link);
        return;
    }
    if (link->addr.len == 0)
        tci_link_lose(link, TC_REASON_NONE, "is not linked with this rank, and has no address");
    else if (link->yields)
        tci_link_lose(link, TC_REASON_LINK_DEAD, "announced a connection that did not come");
    else if (link->refusals >= TCI_TCP_REFUSALS_MAX)
        tci_link_lose(link, TC_REASON_EXITED, "refuses connections: it exited or was killed");
    else if (link->dial_errno == EKEYREJECTED)
        tci_link_lose_denied(link);
    else
        tci_link_lose(link,
                      link->dial_errno != 0 ? tci_link_errno_reason(link->dial_errno)
                                            : TC_REASON_MACHINE_SILENT,
                      "cannot be reached from rank %u in %u attempt%s: %s", link->tcp->rank,
                      link->attempts, link->attempts == 1 ? "" : "s",
                      link->dial_errno != 0 ? strerror(link->dial_errno) : "no answer");
}

static void dial_until(struct tci_link *link, uint64_t deadline_ns)
{
    TC_ASSERT(link->state == TCI_LINK_NONE);
    link->state = TCI_LINK_DIALING;
    link->deadline_ns = deadline_ns;
    link->backoff_ms = BACKOFF_MIN_MS;
    link->refusals_max = TCI_TCP_REFUSALS_MAX;
    link->denials = 0;
    link->dial_ns = now_plus_ms(link->tcp, 0);
    link->attempts = 0;
    link->dial_errno = 0;
    link->has_called = link->is_piped = false;
    link->carrier_due = 0;
    if (link->addr.len != 0) {
        tci_link_dial_once(link);
        return;
    }
    link->deadline_ns = now_plus_ms(link->tcp, 0); /* there is nothing to dial */
    tci_link_wake_at(link, link->deadline_ns);
}

void tci_link_dial(struct tci_link *link)
{
    link->is_called = false;
    dial_until(link, now_plus_ms(link->tcp, TCI_TCP_DIAL_MS));
}

void tci_link_dial_back(struct tci_link *link)
{
    link->is_called = true;
    dial_until(link, now_plus_ms(link->tcp, TCI_TCP_DIAL_MS));
}

void tci_link_end_probe(struct tci_link *link, bool stands)
{
    tci_tcp_probe_fn fn = link->probe_fn;

    link->probe_fn = NULL;
    if (fn != NULL)
        fn(link->probe_arg, stands);
}

void tci_tcp_probe(struct tci_transport *self, uint32_t peer, uint64_t deadline_ns,
                   tci_tcp_probe_fn fn, void *arg)
{
    struct tci_link *link = tci_link_get(tci_tcp_of(self), peer);

    if (link == NULL || link->state == TCI_LINK_UP || link->state == TCI_LINK_DOWN) {
        fn(arg, link != NULL && link->state == TCI_LINK_UP);
        return;
    }
    TC_ASSERT(link->state == TCI_LINK_NONE && link->probe_fn == NULL);
    link->probe_fn = fn;
    link->probe_arg = arg;
    link->is_called = false;
    dial_until(link, deadline_ns);
}

void tci_link_dial_end(struct tci_link *link)
{
    struct tci_exec *exec = link->tcp->exec;

    exec->ops->timer_clear(exec, &link->timer);
    if (link->state != TCI_LINK_DIALING && link->state != TCI_LINK_HEALING)
        return;
    tci_knock_end(link->knock);
    tci_watch_del(&link->watch);
    tci_greet_fini(&link->greet);
    if (link->fd >= 0)
        close(link->fd);
    link->fd = -1;
}
