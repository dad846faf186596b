/* meet.c - two ranks find out whether they reach each other over RDMA: by doing so. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   offerer                                       acceptor
 *     makes a queue pair
 *     OFFER  its card                        -->    makes one, and connects it
 *     connects its own                       <--  ACCEPT  its card
 *     hello            over the queue pair   ==>    answers there
 *     has the answer                         <==  hello
 *     the link stands                        <--  CONFIRM, once that has arrived: it stands
 *
 * Either may answer DECLINE instead, with the reason; then the pair uses the transport below.  All
 * but the hellos travels as notices over that one, so whoever is let into the group by it is who it
 * says it is.  Two hellos that were acknowledged prove that packets of that size find their way in
 * both directions.  When both offer at once, the lower rank's counts.
 */
#include <stdio.h>
#include <string.h>

#include "core/log.h"
#include "rdma/link.h"

enum { CARD_VERSION = 4, HELLO_MS = 10000 };

static void tell(struct tci_rdma *rdma, uint32_t peer, enum tci_rdma_meeting what, const char *text)
{
    struct tci_notice notice = {.kind = TCI_NOTICE_RDMA,
                                .culprit = (int32_t)rdma->rank,
                                .arg = (uint64_t)what | (uint64_t)tci_rdma_cable_to(rdma, peer)
                                                            << TCI_RDMA_CABLE_SHIFT};

    snprintf(notice.text, sizeof(notice.text), "%s", text);
    rdma->below->ops->notify(rdma->below, peer, &notice, true);
}

static char *put_hex(char *at, const uint8_t *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        at += snprintf(at, 3, "%02x", bytes[i]);
    return at;
}

static bool read_hex(const char *text, uint8_t *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned byte;

        if (sscanf(text + 2 * i, "%2x", &byte) != 1)
            return false;
        bytes[i] = (uint8_t)byte;
    }
    return true;
}

void tci_rdma_tell_card(struct tci_rdma_link *link, enum tci_rdma_meeting what)
{
    struct tci_rdma_card card;
    char text[240], *at = text;

    tci_rdma_card_fill(link, &card);
    at += snprintf(at, 120, "%d %u %u %u %u %u %u %u %u %u %u %u ", CARD_VERSION, card.slots,
                   card.slot_bytes, card.eager_max, card.mtu, card.lid, card.kind, card.qpn,
                   card.psn, card.cables, card.is_uc, card.ciphers);
    at = put_hex(at, card.gid, sizeof(card.gid));
    if (card.ciphers != 0)
        (void)put_hex(at, card.point, sizeof(card.point));
    tell(link->rdma, link->peer, what, text);
}

static bool read_card(const char *text, struct tci_rdma_card *card_out)
{
    int version, at = 0;
    size_t bytes;

    if (sscanf(text, "%d %u %u %u %u %u %u %u %u %u %u %u %n", &version, &card_out->slots,
               &card_out->slot_bytes, &card_out->eager_max, &card_out->mtu, &card_out->lid,
               &card_out->kind, &card_out->qpn, &card_out->psn, &card_out->cables, &card_out->is_uc,
               &card_out->ciphers, &at) != 12 ||
        card_out->is_uc > 1 || at == 0 || version != CARD_VERSION || card_out->lid > 0xffff ||
        card_out->qpn > 0xffffff || card_out->psn > 0xffffff || card_out->ciphers > TCI_CIPHERS ||
        card_out->cables >> TCI_RDMA_CABLES != 0)
        return false;
    bytes = sizeof(card_out->gid) + (card_out->ciphers != 0 ? sizeof(card_out->point) : 0);
    return strlen(text + at) == 2 * bytes &&
           read_hex(text + at, card_out->gid, sizeof(card_out->gid)) &&
           (card_out->ciphers == 0 || read_hex(text + at + 2 * sizeof(card_out->gid),
                                               card_out->point, sizeof(card_out->point)));
}

void tci_rdma_tell_end(struct tci_rdma_link *link, const char *why)
{
    tell(link->rdma, link->peer, TCI_RDMA_DECLINE, why);
}

void tci_rdma_tell_failed(struct tci_rdma_link *link, const char *cause)
{
    char text[200];

    snprintf(text, sizeof(text), "%u %.150s", link->taken, cause);
    tell(link->rdma, link->peer, TCI_RDMA_FAILED, text);
}

void tci_rdma_tell_connected(struct tci_rdma_link *link)
{
    tell(link->rdma, link->peer, TCI_RDMA_CONFIRM, "");
}

/* ---- Ends of it ---- */

static void give_up(struct tci_rdma_link *link, const char *why)
{
    struct tci_exec *exec = link->rdma->exec;

    exec->ops->timer_clear(exec, &link->timer);
    tci_rdma_qp_close(link);
    link->broken = NULL;
    tci_rdma_go_below(link, why);
}

/* A peer whose hello has come may stand already, and is then told as when a cable has failed. */
void tci_rdma_decline(struct tci_rdma_link *link, const char *why)
{
    if (link->state == TCI_RDMA_GREETING && link->has_greeted)
        tci_rdma_tell_failed(link, why);
    else
        tell(link->rdma, link->peer, TCI_RDMA_DECLINE, why);
    give_up(link, why);
}

void tci_rdma_stand(struct tci_rdma_link *link)
{
    struct tci_rdma *rdma = link->rdma;

    if (link->state != TCI_RDMA_ACCEPTED && link->state != TCI_RDMA_GREETING)
        return;
    if (!link->has_greeted)
        return;
    rdma->exec->ops->timer_clear(rdma->exec, &link->timer);
    tci_log(TC_LOG_DEBUG,
            "rank %u: rank %u is reached over RDMA, device %s, port %u (cables: %d), in packets of "
            "%u bytes%s",
            rdma->rank, link->peer, rdma->choice.info.device, rdma->choice.info.port,
            __builtin_popcount(link->cables), link->mtu, link->is_uc ? ", UC" : "");
    tci_rdma_link_up(link);
    tci_rdma_go_on(link);
}

/* ---- Its parts ---- */

static void start_timer(struct tci_rdma_link *link)
{
    struct tci_exec *exec = link->rdma->exec;

    (void)exec->ops->timer_set(exec, &link->timer,
                               exec->ops->now_ns(exec) + HELLO_MS * TCI_NS_PER_MS);
}

void tci_rdma_meet(struct tci_rdma_link *link)
{
    const char *why;

    link->state = TCI_RDMA_OFFERED;
    why = link->rdma->is_dead ? "the device here has failed" : tci_rdma_qp_open(link, false);
    if (why != NULL)
        tci_rdma_go_below(link, why); /* the peer was told nothing so far */
    else
        tci_rdma_tell_card(link, TCI_RDMA_OFFER);
}

static void on_offer(struct tci_rdma_link *link, const struct tci_rdma_card *card)
{
    const char *why;

    tci_rdma_qp_close(link); /* of an offer of ours */
    link->broken = NULL;
    link->state = TCI_RDMA_ACCEPTED;
    why = link->rdma->is_dead ? "the device there has failed" : tci_rdma_qp_open(link, card->is_uc);
    if (why == NULL && link->is_uc && !card->is_uc) { /* there is no other here: that counts */
        link->state = TCI_RDMA_OFFERED;
        tci_rdma_tell_card(link, TCI_RDMA_OFFER);
        return;
    }
    if (why == NULL)
        why = tci_rdma_crypt_agree(link, card, false);
    if (why == NULL)
        why = tci_rdma_qp_connect(link, card);
    if (why != NULL) {
        tci_rdma_decline(link, why);
        return;
    }
    start_timer(link);
    tci_rdma_tell_card(link, TCI_RDMA_ACCEPT);
}

/* It fills a packet: a switch on the way that takes less is found before anything is lost there. */
static void say_hello(struct tci_rdma_link *link)
{
    static const uint8_t filling[TCI_RDMA_PAYLOAD];
    size_t tag = link->crypt != NULL ? TCI_RECORD_TAG : 0;
    struct tci_rdma_head head = {.kind = TCI_RDMA_HELLO,
                                 .len = (uint32_t)(link->mtu - TCI_RDMA_HEAD - tag)};

    tci_rdma_control(link, &head, filling);
}

static void on_accept(struct tci_rdma_link *link, const struct tci_rdma_card *card)
{
    const char *why = tci_rdma_crypt_agree(link, card, true);

    if (why == NULL)
        why = tci_rdma_qp_connect(link, card);
    if (why != NULL) {
        tci_rdma_decline(link, why);
        return;
    }
    link->state = TCI_RDMA_GREETING;
    start_timer(link);
    say_hello(link);
}

void tci_rdma_on_hello(struct tci_rdma_link *link)
{
    if (link->has_greeted)
        return;
    link->has_greeted = true;
    if (link->state == TCI_RDMA_ACCEPTED)
        say_hello(link);
}

/* The acceptor's has arrived, so the offerer knows all it has to. */
void tci_rdma_on_hello_sent(struct tci_rdma_link *link)
{
    if (link->state != TCI_RDMA_ACCEPTED)
        return;
    tci_rdma_tell_connected(link);
    tci_rdma_stand(link);
}

void tci_rdma_on_link_timer(struct tci_timer *timer)
{
    struct tci_rdma_link *link = tci_container_of(timer, struct tci_rdma_link, timer);

    if (tci_rdma_is_up(link) && link->broken != NULL)
        tci_rdma_end_broken(link->rdma);
    else if (tci_rdma_is_up(link))
        tci_rdma_check_revoking(link);
    else if (link->state == TCI_RDMA_ACCEPTED ||
             (link->state == TCI_RDMA_GREETING && !link->has_greeted))
        tci_rdma_decline(link, "nothing comes over its queue pair: look at switches and firewalls "
                               "(UDP port 4791), and at the MTU");
}

/* Who stood, and has heard our goodbye, may have gone: that is no loss. */
static void on_given_up(struct tci_rdma_link *link, const char *text)
{
    char why[200];

    snprintf(why, sizeof(why), "has given up its queue pair (RDMA): %.150s", text);
    if (tci_rdma_has_parted(link))
        tci_rdma_link_end(link, TC_ERR_PEER_LOST);
    else
        tci_rdma_link_lose(link, why);
}

static void on_decline(struct tci_rdma_link *link, const char *text)
{
    char why[200];

    tci_rdma_take_all(link);
    if (tci_rdma_is_up(link) && link->broken != NULL && link->broken != tci_rdma_flushed)
        return; /* what is known here is nearer to the cause */
    if (tci_rdma_is_up(link) || link->state == TCI_RDMA_STOPPED) {
        on_given_up(link, text);
        return;
    }
    if (link->state == TCI_RDMA_FAR || link->state == TCI_RDMA_GONE)
        return;
    snprintf(why, sizeof(why), "it has declined: %.170s", text);
    give_up(link, why);
}

static const char unused[] = "it is not used there any more";

/* Who stands knows that its peer is about to. */
static void on_failed(struct tci_rdma_link *link, const char *text)
{
    unsigned had;
    int at = 0;

    if (link->state == TCI_RDMA_ACCEPTED)
        (void)tci_rdma_poll_cq(link->rdma, TCI_RDMA_BATCH);
    if (sscanf(text, "%u %n", &had, &at) != 1 || at == 0 || link->state < TCI_RDMA_NEAR ||
        (tci_rdma_is_up(link) && !tci_rdma_may_fail(link) && !tci_rdma_may_heal(link)))
        on_decline(link, text + at);
    else if (link->state == TCI_RDMA_FAR || link->state == TCI_RDMA_GONE)
        tell(link->rdma, link->peer, TCI_RDMA_DECLINE, unused);
    else
        tci_rdma_on_failed(link, had, text + at);
}

/* Of two offers at once: UC comes from who has nothing else, else the lower rank's counts. */
static bool is_before(const struct tci_rdma_link *link, const struct tci_rdma_card *card)
{
    return link->is_uc == card->is_uc ? link->peer < link->rdma->rank : card->is_uc;
}

void tci_rdma_on_meet(struct tci_rdma *rdma, uint32_t peer, const struct tci_notice *notice)
{
    struct tci_rdma_link *link = tci_rdma_link_get(rdma, peer);
    uint64_t what = notice->arg & ((1 << TCI_RDMA_CABLE_SHIFT) - 1);
    struct tci_rdma_card card;

    if (link == NULL) { /* what was to go to it waits there for an answer */
        if (what == TCI_RDMA_OFFER)
            tell(rdma, peer, TCI_RDMA_DECLINE, "there is no memory left for the link");
        return;
    }
    if (what == TCI_RDMA_FAILED) {
        on_failed(link, notice->text);
        return;
    }
    if (what == TCI_RDMA_DECLINE) {
        on_decline(link, notice->text);
        return;
    }
    if (link->state == TCI_RDMA_HEALING) {
        bool is_card = what == TCI_RDMA_OFFER || what == TCI_RDMA_ACCEPT;

        if (is_card && !read_card(notice->text, &card))
            tci_rdma_link_lose(link, "speaks of RDMA in another way");
        else
            tci_rdma_on_heal(link, (enum tci_rdma_meeting)what, &card);
        return;
    }
    if (what == TCI_RDMA_CONFIRM) {
        link->has_greeted = link->has_greeted || link->state == TCI_RDMA_GREETING;
        if (link->state == TCI_RDMA_GREETING) /* its hello may still be on its way */
            tci_rdma_stand(link);
        return;
    }
    if (!read_card(notice->text, &card)) {
        if (link->state < TCI_RDMA_NEAR)
            tci_rdma_decline(link, "it speaks of RDMA in another way");
    } else if (what == TCI_RDMA_ACCEPT) {
        if (link->state == TCI_RDMA_OFFERED)
            on_accept(link, &card);
    } else if (rdma->has_left_below || link->state == TCI_RDMA_FAR ||
               link->state == TCI_RDMA_GONE) {
        tell(rdma, peer, TCI_RDMA_DECLINE, unused);
    } else if (link->state == TCI_RDMA_NEW ||
               (link->state == TCI_RDMA_OFFERED && is_before(link, &card))) {
        on_offer(link, &card);
    }
}
