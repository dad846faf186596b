/* tcp_heal.c - a connection that broke while its peer lives is made again, and goes on. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "net/tcp_link.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "core/assert.h"
#include "core/log.h"
#include "core/random.h"
#include "net/sock.h"

/*        UP --broke--> HEALING --HELLO … WELCOME, either way--> UP, from where each other is
 *                         |
 *                         +-- refused, or too long --> DOWN: the peer is lost
 *
 * Both sides notice the end of a connection, or one alone; each dials when it does.  A HELLO of a
 * link that stands says how many bytes of the peer's stream have come, WELCOME says the same the
 * other way, and each sends again from there on: so no byte is lost, and none comes twice.  What
 * was being read goes on where it was.
 *
 * A link has a token that only its two ends know, given when it was first made, and the tries of a
 * side are counted: a stranger cannot take a link over, nor can a recorded try.  Where both dialed
 * it at first, each made a token; and when those connections broke before either was answered, each
 * may have taken the other's.  So both tokens are remembered.
 *
 * A process that has ended listens no more: who is refused a few times in a row gives up at once.
 */
enum { SILENT_MS = 1000 }; /* for a host that has been silent for TCI_SILENCE_MS */
enum { REFUSALS_MAX = 3, BACKOFF_MIN_MS = 5, PATIENCE_MIN_MS = 1000 };

static uint64_t now_ns(const struct tci_link *link)
{
    struct tci_exec *exec = link->tcp->exec;

    return exec->ops->now_ns(exec);
}

/* Of the connection, and not of what this side wanted to send over it. */
static bool is_of_connection(int error)
{
    switch (error) {
    case 0:
    case ECONNRESET:
    case ECONNABORTED:
    case EPIPE:
    case ETIMEDOUT:
    case ENETDOWN:
    case ENETUNREACH:
    case ENETRESET:
    case EHOSTDOWN:
    case EHOSTUNREACH:
    case ENONET:
    case ENOTCONN:
    case ESHUTDOWN:
    case EBADF: /* closed under the library */
        return true;
    default:
        return false;
    }
}

/* Links over descriptors that the application gave have no address. */
static bool may_heal(const struct tci_link *link)
{
    const struct tci_tcp *tcp = link->tcp;

    return link->state == TCI_LINK_UP && tcp->heal_ns > 0 && !tcp->is_ring && !tcp->is_parting &&
           tcp->addrs[link->peer].len != 0 && !tci_link_is_parted(link);
}

static void lose_ended(struct tci_link *link)
{
    tci_link_lose(link, TC_REASON_EXITED,
                  "has closed its connection: it was killed, or ended without tc_dist_finalize");
}

static void lose_now(struct tci_link *link, int error)
{
    if (error == ENOMEM)
        tci_link_starve(link);
    else if (error == EFAULT)
        tci_link_mislead(link);
    else if (error == 0 || error == ECONNRESET || error == EPIPE)
        lose_ended(link);
    else
        tci_link_lose(link, tci_link_errno_reason(error), "cannot be %s any more: %s",
                      link->send_errno != 0 ? "sent to" : "heard", tci_link_errno_text(error));
}

void tci_link_break(struct tci_link *link, int error)
{
    struct tci_tcp *tcp = link->tcp;

    if (link->index != 0 && is_of_connection(error)) {
        tci_side_break(link);
        return;
    }
    if (link->index != 0 || !may_heal(link) || !is_of_connection(error)) {
        lose_now(link, error);
        return;
    }
    if (error == EBADF)
        link->fd = -1; /* whatever has this number now is not ours */
    tci_link_drop_fd(link);
    link->state = TCI_LINK_HEALING;
    link->send_errno = 0;
    link->addr = tcp->addrs[link->peer];
    link->heal.error = error;
    link->heal.since_ns = now_ns(link);
    link->heal.patience_ms = PATIENCE_MIN_MS;
    link->deadline_ns = link->heal.since_ns + tcp->heal_ns;
    if (error == ETIMEDOUT) /* it has been away for long already */
        link->deadline_ns =
            tci_min(link->deadline_ns, link->heal.since_ns + SILENT_MS * TCI_NS_PER_MS);
    link->backoff_ms = BACKOFF_MIN_MS;
    link->refusals = 0;
    link->refusals_max = REFUSALS_MAX;
    link->yields = false;
    tcp->stats.breaks++;
    tci_log(TC_LOG_INFO, "the connection with rank %u broke (%s), and is made again", link->peer,
            error == 0 ? "it was closed" : strerror(error));
    tci_link_dial_once(link);
}

void tci_tcp_disown(struct tci_tcp *tcp, int fd)
{
    struct tci_list *at = tcp->open.next;

    while (at != &tcp->open) {
        struct tci_link *link = tci_container_of(at, struct tci_link, open_link);

        at = at->next;
        if (link->fd != fd)
            continue;
        link->fd = -1;
        tci_link_break(link, EBADF);
        return;
    }
}

void tci_link_on_heal_timer(struct tci_link *link)
{
    uint64_t now = now_ns(link);

    if (now < link->deadline_ns) {
        if (link->fd < 0 && link->knock == NULL)
            tci_link_dial_once(link);
        else if (now >= link->heal.giveup_ns)
            tci_link_dial_failed(link, ETIMEDOUT);
        return;
    }
    if (link->refusals >= REFUSALS_MAX)
        lose_ended(link);
    else if (link->dial_errno == EKEYREJECTED)
        tci_link_lose_denied(link);
    else
        tci_link_lose(link,
                      link->fd >= 0 && link->has_greeted ? TC_REASON_LOOP_STALLED
                      : link->dial_errno == 0            ? TC_REASON_MACHINE_SILENT
                                                         : tci_link_errno_reason(link->dial_errno),
                      "cannot be reached since its connection broke %.1f s ago: %s",
                      (double)(now - link->heal.since_ns) / 1e9,
                      link->dial_errno != 0 ? strerror(link->dial_errno) : "no answer");
}

/* ---- Tokens ---- */

static uint64_t new_token(void)
{
    uint64_t token = 0;

    while (token == 0)
        if (!tci_random(&token, sizeof(token)))
            token = 0;
    return token;
}

void tci_link_give_token(struct tci_link *link)
{
    struct tci_frame frame = {.kind = TCI_FRAME_TOKEN};

    if (!may_heal(link))
        return;
    link->heal.is_given = true;
    if (link->tcp->rank > link->peer)
        return;
    link->heal.token = frame.key.tag = new_token();
    tci_link_control(link, &frame, NULL);
}

void tci_link_take_token(struct tci_link *link, uint64_t token)
{
    if (link->heal.token == 0 && link->heal.is_given)
        link->heal.token = token;
}

bool tci_link_has_token(const struct tci_link *link, uint64_t token)
{
    return token != 0 && (token == link->heal.token || token == link->heal.other_token);
}

/* The link goes by a token of the peer's from here on. */
static void set_token(struct tci_link *link, uint64_t token)
{
    if (token == 0 || token == link->heal.token)
        return;
    link->heal.other_token = link->heal.token;
    link->heal.token = token;
}

/* Whether the other side knows the link; a token that is still on its way is the first frame. */
static bool knows(const struct tci_link *link, const struct tci_hello *hello)
{
    if (hello->token == 0)
        return link->heal.is_given && link->heal.token != 0 && link->log.acked < TCI_HEAD_BYTES &&
               hello->received < TCI_HEAD_BYTES && hello->attempt != 0;
    if (link->heal.token == 0)
        return link->heal.is_given && link->received < TCI_HEAD_BYTES && hello->attempt != 0;
    return tci_link_has_token(link, hello->token);
}

/* ---- Greetings ---- */

void tci_link_hello(struct tci_link *link, struct tci_hello *hello_out)
{
    struct tci_tcp *tcp = link->tcp;

    if (link->index != 0) {
        *hello_out = (struct tci_hello){.from = tcp->rank,
                                        .to = link->peer,
                                        .token = link->main->heal.token,
                                        .index = link->index,
                                        .attempt = link->made};
        memcpy(hello_out->group_id, tcp->group_id, TCI_GROUP_ID);
        return;
    }
    if (link->state == TCI_LINK_HEALING)
        link->heal.tries++;
    else if (link->heal.token == 0)
        link->heal.token = new_token();
    *hello_out = (struct tci_hello){.from = tcp->rank,
                                    .to = link->peer,
                                    .token = link->heal.token,
                                    .received = link->received,
                                    .attempt = link->heal.tries};
    memcpy(hello_out->group_id, tcp->group_id, TCI_GROUP_ID);
}

static void note_healed(struct tci_link *link)
{
    if (link->state != TCI_LINK_HEALING)
        return;
    link->tcp->stats.heals++;
    tci_log(TC_LOG_INFO, "the connection with rank %u stands again after %.1f ms", link->peer,
            (double)(now_ns(link) - link->heal.since_ns) / 1e6);
}

const char *tci_link_resume(struct tci_link *link, const struct tci_hello *hello)
{
    if (hello->index != link->index)
        return "an answer to another greeting";
    if (link->index != 0)
        return hello->attempt == link->made ? NULL : "an answer to another greeting";
    if (hello->attempt != link->heal.tries ||
        (link->heal.token != 0 && hello->token != link->heal.token))
        return "an answer to another greeting";
    if (!tci_log_rewind(&link->log, hello->received))
        return "an acknowledgement of what was never sent";
    set_token(link, hello->token);
    note_healed(link);
    return NULL;
}

enum tci_heal_answer tci_link_judge(const struct tci_link *link, const struct tci_hello *hello,
                                    int fd)
{
    char byte;

    if (link == NULL || link->state == TCI_LINK_NONE || !knows(link, hello))
        return TCI_HEAL_STRAY;
    if (link->state == TCI_LINK_DOWN)
        return TCI_HEAL_GONE;
    if (hello->attempt != 0 ? hello->attempt <= link->heal.seen : link->received != 0)
        return TCI_HEAL_STRAY;
    if (recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0)
        return TCI_HEAL_STRAY; /* given up already */
    if (hello->received < link->log.acked || hello->received > link->log.most)
        return TCI_HEAL_GONE;
    if (link->state != TCI_LINK_UP && link->tcp->rank < hello->from && link->fd >= 0 &&
        link->has_greeted)
        return TCI_HEAL_LATER;
    return TCI_HEAL_TAKE;
}

bool tci_link_take_again(struct tci_link *link, const struct tci_hello *hello, int fd,
                         struct tci_crypt *crypt)
{
    if (link->state == TCI_LINK_UP) {
        tci_link_drop_fd(link);
        link->state = TCI_LINK_HEALING;
        link->heal.since_ns = now_ns(link);
        link->send_errno = 0;
        link->tcp->stats.breaks++;
    } else {
        tci_link_dial_end(link);
    }
    if (hello->attempt != 0)
        link->heal.seen = hello->attempt;
    set_token(link, hello->token);
    TC_ASSERT(link->crypt == NULL);
    link->crypt = crypt;
    if (!tci_log_rewind(&link->log, hello->received))
        return false;
    note_healed(link);
    return tci_link_up(link, fd) == 0;
}
