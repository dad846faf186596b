/* tcp_dial.c - links between ranks that did not meet at the start: dialed, accepted, greeted. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "net/tcp_link.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/assert.h"
#include "core/log.h"
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
enum { GREETING = TCI_HEAD_BYTES + TCI_HELLO_BYTES };
enum { BACKOFF_MIN_MS = 5, BACKOFF_MAX_MS = 500 };
enum { PATIENCE_MAX_MS = 8000 };
enum { TOLD_MAX = 16 }; /* strays whose keys did not fit: a flood fills no log */

struct tci_half {
    struct tci_list link; /* in tcp->halves */
    struct tci_tcp *tcp;  /* borrowed */
    struct tci_watch watch;
    struct tci_timer timer;
    int fd; /* owned */
    struct tci_greet greet;
    unsigned have;
    uint8_t greeting[GREETING];
};

static uint64_t now_plus_ms(struct tci_tcp *tcp, uint64_t ms)
{
    return tcp->exec->ops->now_ns(tcp->exec) + ms * TCI_NS_PER_MS;
}

/* To REFUSE a link that is made again says whether there is no hope for it. */
enum { REFUSED_FOR_NOW, REFUSED_FOR_GOOD };

static bool send_greeting(struct tci_greet *greet, int fd, uint8_t kind,
                          const struct tci_hello *hello, uint64_t refusal)
{
    struct tci_frame frame = {.kind = kind, .total = refusal};
    uint8_t wire[GREETING];

    if (kind != TCI_FRAME_REFUSE) {
        frame.length = TCI_HELLO_BYTES;
        tci_hello_encode(hello, wire + TCI_HEAD_BYTES);
    }
    tci_frame_encode(&frame, wire);
    return tci_greet_send(greet, fd, wire, TCI_HEAD_BYTES + (size_t)frame.length);
}

/* ---- Dialing ---- */

void tci_link_wake_at(struct tci_link *link, uint64_t when_ns)
{
    struct tci_tcp *tcp = link->tcp;

    if (tcp->exec->ops->timer_set(tcp->exec, &link->timer, when_ns) == 0)
        return;
    link->send_errno = ENOMEM;
    if (tci_list_is_empty(&link->sending_link))
        tci_list_add(&tcp->sending, &link->sending_link);
}

void tci_link_dial_failed(struct tci_link *link, int error)
{
    struct tci_tcp *tcp = link->tcp;
    uint64_t next_ns = now_plus_ms(tcp, link->backoff_ms);

    if (link->index != 0) {
        tci_side_dial_failed(link);
        return;
    }
    tci_watch_del(&link->watch);
    if (link->fd >= 0)
        close(link->fd);
    link->fd = -1;
    tci_greet_fini(&link->greet);
    tci_crypt_free(link->crypt);
    link->crypt = NULL;
    link->dial_errno = error;
    link->refusals = error == ECONNREFUSED ? link->refusals + 1 : 0;
    link->backoff_ms = (uint32_t)tci_min(2 * (size_t)link->backoff_ms, BACKOFF_MAX_MS);
    link->denials = error == EKEYREJECTED ? link->denials + 1 : 0;
    if (link->refusals >= link->refusals_max ||
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
        size_t want = (link->greet_have < TCI_HEAD_BYTES ? TCI_HEAD_BYTES : GREETING);

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
            refused(link, frame.total == REFUSED_FOR_GOOD);
            return;
        }
    } while (link->greet_have < GREETING);
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

static void on_dial_ready(struct tci_watch *watch, uint32_t ready)
{
    struct tci_link *link = tci_container_of(watch, struct tci_link, watch);
    bool is_begin = !link->has_connected;
    int error = is_begin ? connected(link) : 0;
    enum tci_greet_state state;
    struct tci_hello hello;

    (void)ready;
    if (link->has_greeted) {
        read_answer(link);
        return;
    }
    if (error != 0) {
        tci_link_dial_failed(link, error);
        return;
    }
    state = prove(link, is_begin);
    if (state == TCI_GREET_MORE)
        return;
    if (state == TCI_GREET_FAILED) {
        tci_link_dial_failed(link, errno);
        return;
    }
    tci_link_hello(link, &hello);
    if (send_greeting(&link->greet, link->fd, TCI_FRAME_HELLO, &hello, 0))
        link->has_greeted = true;
    else
        tci_link_dial_failed(link, ECONNRESET);
}

void tci_link_dial_once(struct tci_link *link)
{
    struct tci_error error = {0};
    bool is_up;

    link->has_connected = link->has_greeted = false;
    link->greet_have = 0;
    if (tci_sock_connect(&link->addr, &link->fd, &is_up, &error) != TC_OK) {
        link->fd = -1;
        tci_link_dial_failed(link, errno != 0 ? errno : ECONNREFUSED);
        return;
    }
    link->watch.fn = on_dial_ready;
    if (tci_watch_add(link->tcp->loop, &link->watch, link->fd, TC_WRITABLE) != 0) {
        tci_link_dial_failed(link, errno);
        return;
    }
    /* A try that hangs is ended by the deadline; when a link is made again, by its own. */
    if (link->state == TCI_LINK_HEALING) {
        link->heal.giveup_ns = now_plus_ms(link->tcp, link->heal.patience_ms);
        link->heal.patience_ms =
            (uint32_t)tci_min(2 * (size_t)link->heal.patience_ms, PATIENCE_MAX_MS);
        tci_link_wake_at(link, link->heal.giveup_ns < link->deadline_ns ? link->heal.giveup_ns
                                                                        : link->deadline_ns);
    } else {
        tci_link_wake_at(link, link->deadline_ns);
    }
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
        if (link->fd < 0 && !link->yields)
            tci_link_dial_once(link);
        return;
    }
    if (link->probe_fn != NULL && link->live == 0 && !tci_link_has_output(link)) {
        tci_link_dial_end(link);
        link->state = TCI_LINK_NONE;
        link->yields = false;
        link->refusals = 0;
        tci_link_end_probe(link, false);
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
                      "cannot be reached: %s",
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
    if (link->addr.len != 0) {
        tci_link_dial_once(link);
        return;
    }
    link->deadline_ns = now_plus_ms(link->tcp, 0); /* there is nothing to dial */
    tci_link_wake_at(link, link->deadline_ns);
}

void tci_link_dial(struct tci_link *link)
{
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
    dial_until(link, deadline_ns);
}

void tci_link_dial_end(struct tci_link *link)
{
    struct tci_exec *exec = link->tcp->exec;

    exec->ops->timer_clear(exec, &link->timer);
    if (link->state != TCI_LINK_DIALING && link->state != TCI_LINK_HEALING)
        return;
    tci_watch_del(&link->watch);
    tci_greet_fini(&link->greet);
    if (link->fd >= 0)
        close(link->fd);
    link->fd = -1;
}

/* ---- Accepting ---- */

/* Forget a half-open connection; its descriptor is closed, unless it became a link. */
static void half_free(struct tci_half *half, bool is_link)
{
    struct tci_tcp *tcp = half->tcp;

    tci_watch_del(&half->watch);
    tcp->exec->ops->timer_clear(tcp->exec, &half->timer);
    tci_list_del(&half->link);
    tcp->half_count--;
    tci_greet_fini(&half->greet);
    if (!is_link) {
        close(half->fd);
        tcp->stats.strays++;
    }
    tci_free(half);
}

/* Whether this side takes a connection that is to be a new link. */
static bool wants(const struct tci_tcp *tcp, const struct tci_link *link)
{
    return link->state == TCI_LINK_NONE ||
           (link->state == TCI_LINK_DIALING &&
            !(tcp->rank < link->peer && link->fd >= 0 && link->has_greeted));
}

/* What becomes of a connection: its greeting was true. */
static enum tci_heal_answer judge(const struct tci_half *half, const struct tci_link *link,
                                  const struct tci_hello *hello)
{
    if (hello->attempt == 0 && wants(half->tcp, link))
        return TCI_HEAL_TAKE;
    if (hello->attempt != 0 || link->state == TCI_LINK_UP || link->state == TCI_LINK_HEALING) {
        enum tci_heal_answer answer = tci_link_judge(link, hello, half->fd);

        if (hello->attempt != 0 || answer == TCI_HEAL_TAKE)
            return answer;
    }
    return TCI_HEAL_LATER;
}

static void half_greeted_beside(struct tci_half *half, const struct tci_hello *hello)
{
    struct tci_link *main = half->tcp->links[hello->from];
    struct tci_link *side = main == NULL ? NULL : tci_side_wanted(main, hello);
    struct tci_hello reply = *hello;
    struct tci_crypt *crypt = NULL;
    int fd = half->fd;
    bool is_taken = side != NULL && send_greeting(&half->greet, fd, TCI_FRAME_WELCOME, &reply, 0) &&
                    tci_greet_end(&half->greet, &crypt) == 0;

    half_free(half, is_taken);
    if (!is_taken)
        return;
    side->crypt = crypt;
    if (tci_link_up(side, fd) == 0)
        return;
    close(fd);
    tci_side_break(side);
}

static void half_greeted(struct tci_half *half, const struct tci_hello *hello)
{
    struct tci_tcp *tcp = half->tcp;
    struct tci_link *link =
        hello->attempt == 0 ? tci_link_get(tcp, hello->from) : tcp->links[hello->from];
    enum tci_heal_answer answer = link == NULL ? TCI_HEAL_STRAY : judge(half, link, hello);
    struct tci_hello reply = *hello;
    struct tci_crypt *crypt = NULL;
    int fd = half->fd;

    if (answer == TCI_HEAL_LATER || answer == TCI_HEAL_GONE)
        (void)send_greeting(&half->greet, fd, TCI_FRAME_REFUSE, NULL,
                            answer == TCI_HEAL_GONE ? REFUSED_FOR_GOOD : REFUSED_FOR_NOW);
    if (answer == TCI_HEAL_TAKE) {
        reply.received = link->received;
        if (reply.token == 0)
            reply.token = link->heal.token;
        if (!send_greeting(&half->greet, fd, TCI_FRAME_WELCOME, &reply, 0) ||
            tci_greet_end(&half->greet, &crypt) != 0)
            answer = TCI_HEAL_STRAY;
    }
    half_free(half, answer == TCI_HEAL_TAKE);
    if (answer != TCI_HEAL_TAKE || tci_link_take_again(link, hello, fd, crypt))
        return;
    close(fd);
    tci_link_lose(link, TC_REASON_NONE, "connected, but cannot be watched: %s", strerror(errno));
}

/* Whether it is from a rank of this group to this one, and from who has proven to be it. */
static bool is_true(const struct tci_half *half, const struct tci_hello *hello)
{
    const struct tci_tcp *tcp = half->tcp;

    return memcmp(hello->group_id, tcp->group_id, TCI_GROUP_ID) == 0 && hello->to == tcp->rank &&
           hello->from < tcp->size && hello->from != tcp->rank &&
           (half->greet.auth == NULL || half->greet.auth->peer == hello->from);
}

/* Whether it may greet; not yet, or no more, where that is false. */
static bool has_proven(struct tci_half *half)
{
    enum tci_greet_state state = tci_greet_go_on(&half->greet, half->fd);
    char text[256];

    if (state != TCI_GREET_FAILED)
        return state == TCI_GREET_READY;
    if (errno == EKEYREJECTED && half->greet.auth->state == TCI_AUTH_FAILED &&
        half->greet.auth->reason != TCI_AUTH_GARBLED)
        tci_log(half->tcp->stats.strays < TOLD_MAX ? TC_LOG_WARN : TC_LOG_DEBUG,
                "rank %u: a connection is refused: %s", half->tcp->rank,
                tci_auth_explain(half->greet.auth, text, sizeof(text)));
    half_free(half, false);
    return false;
}

static void on_half_ready(struct tci_watch *watch, uint32_t ready)
{
    struct tci_half *half = tci_container_of(watch, struct tci_half, watch);
    struct tci_hello hello;
    struct tci_frame frame;
    ssize_t got;

    (void)ready;
    if (!has_proven(half))
        return;
    got = tci_greet_receive(&half->greet, half->fd, half->greeting + half->have,
                            GREETING - half->have);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) {
        half_free(half, false);
        return;
    }
    half->have += (unsigned)got;
    if (half->have < GREETING)
        return;
    if (tci_frame_decode(half->greeting, &frame) != NULL || frame.kind != TCI_FRAME_HELLO ||
        tci_hello_decode(half->greeting + TCI_HEAD_BYTES, &hello) != NULL ||
        !is_true(half, &hello)) {
        half_free(half, false);
        return;
    }
    if (hello.index != 0)
        half_greeted_beside(half, &hello);
    else
        half_greeted(half, &hello);
}

static void on_half_timer(struct tci_timer *timer)
{
    half_free(tci_container_of(timer, struct tci_half, timer), false);
}

void tci_tcp_take(struct tci_tcp *tcp, int fd)
{
    struct tci_half *half = tcp->half_count < TCI_TCP_HALF_MAX ? tci_alloc(sizeof(*half)) : NULL;
    struct tci_auth_config config;

    if (half == NULL) {
        close(fd);
        tcp->stats.strays++;
        return;
    }
    half->tcp = tcp;
    half->fd = fd;
    half->watch.fn = on_half_ready;
    half->timer.fn = on_half_timer;
    tci_list_init(&half->link);
    tci_list_add(&tcp->halves, &half->link);
    tcp->half_count++;
    tci_link_auth_config(tcp, 0, false, &config);
    if (tci_greet_begin(&half->greet, &config, fd) == TCI_GREET_FAILED ||
        tci_watch_add(tcp->loop, &half->watch, fd, TC_READABLE) != 0 ||
        tcp->exec->ops->timer_set(tcp->exec, &half->timer, now_plus_ms(tcp, TCI_TCP_GREET_MS)) != 0)
        half_free(half, false);
}

void tci_tcp_drop_halves(struct tci_tcp *tcp)
{
    struct tci_list *at, *next;

    for (at = tcp->halves.next; at != &tcp->halves; at = next) {
        next = at->next;
        half_free(tci_container_of(at, struct tci_half, link), false);
    }
}
