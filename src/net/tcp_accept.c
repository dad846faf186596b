/* tcp_accept.c - links between ranks that did not meet at the start: accepted, and answered. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "net/tcp_link.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/log.h"
#include "net/sock.h"

enum { TOLD_MAX = 16 }; /* strays whose keys did not fit: a flood fills no log */

struct tci_half {
    struct tci_list link; /* in tcp->halves */
    struct tci_tcp *tcp;  /* borrowed */
    struct tci_watch watch;
    struct tci_timer timer;
    int fd;      /* owned */
    int carrier; /* the rank that it goes through, or TCI_DIRECT */
    struct tci_greet greet;
    unsigned have;
    uint8_t greeting[TCI_GREETING_BYTES];
};

static uint64_t now_plus_ms(struct tci_tcp *tcp, uint64_t ms)
{
    return tcp->exec->ops->now_ns(tcp->exec) + ms * TCI_NS_PER_MS;
}

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
    bool is_taken = side != NULL &&
                    tci_greeting_send(&half->greet, fd, TCI_FRAME_WELCOME, &reply, 0) &&
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
    int carrier = half->carrier;
    int fd = half->fd;

    if (answer == TCI_HEAL_LATER || answer == TCI_HEAL_GONE)
        (void)tci_greeting_send(&half->greet, fd, TCI_FRAME_REFUSE, NULL,
                                answer == TCI_HEAL_GONE ? TCI_REFUSED_FOR_GOOD
                                                        : TCI_REFUSED_FOR_NOW);
    if (answer == TCI_HEAL_TAKE) {
        reply.received = link->received;
        if (reply.token == 0)
            reply.token = link->heal.token;
        if (!tci_greeting_send(&half->greet, fd, TCI_FRAME_WELCOME, &reply, 0) ||
            tci_greet_end(&half->greet, &crypt) != 0)
            answer = TCI_HEAL_STRAY;
    }
    half_free(half, answer == TCI_HEAL_TAKE);
    if (answer == TCI_HEAL_TAKE) {
        link->is_piped = carrier != TCI_DIRECT;
        link->carrier = carrier != TCI_DIRECT ? (uint32_t)carrier : 0;
    }
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

/* Whether it is between two other ranks of this group, for this one to carry. */
static bool is_pipe(const struct tci_half *half, const struct tci_hello *hello)
{
    const struct tci_tcp *tcp = half->tcp;

    return half->carrier == TCI_DIRECT &&
           memcmp(hello->group_id, tcp->group_id, TCI_GROUP_ID) == 0 && hello->from < tcp->size &&
           hello->to < tcp->size && hello->from != 0 && hello->to != 0 &&
           hello->from != hello->to && hello->from != tcp->rank && hello->to != tcp->rank &&
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
                            TCI_GREETING_BYTES - half->have);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) {
        half_free(half, false);
        return;
    }
    half->have += (unsigned)got;
    if (half->have < TCI_GREETING_BYTES)
        return;
    if (tci_frame_decode(half->greeting, &frame) != NULL ||
        (frame.kind != TCI_FRAME_HELLO && frame.kind != TCI_FRAME_PIPE) ||
        tci_hello_decode(half->greeting + TCI_HEAD_BYTES, &hello) != NULL ||
        !(frame.kind == TCI_FRAME_PIPE ? is_pipe(half, &hello) : is_true(half, &hello))) {
        half_free(half, false);
        return;
    }
    if (frame.kind == TCI_FRAME_PIPE) {
        tci_watch_del(&half->watch);
        half_free(half, tci_pipe_take(half->tcp, &hello, half->fd, &half->greet));
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

void tci_tcp_take(struct tci_tcp *tcp, int fd, int carrier)
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
    half->carrier = carrier;
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
