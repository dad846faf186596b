/* shm_meet.c - two ranks find out whether they share memory: by sharing some. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   offerer                                       acceptor
 *     makes a region with a token in it
 *     OFFER  its process, descriptors, token  -->   opens the region through /proc, looks for the
 *                                                   token, writes its own beside it
 *     looks for that token           <--  ACCEPT    its process, descriptors, token
 *     the link stands        CONFIRM -->            the link stands
 *
 * Either may answer DECLINE instead, with the reason; then the pair uses the transport below.  All
 * of it travels as notices over that transport, so whoever is let into the group by it is who it
 * says it is.  A token that is seen where it was said to lie proves that both see one memory: equal
 * numbers of hosts, processes or descriptors prove nothing where containers are about.  When both
 * offer at once, the lower rank's counts.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/log.h"
#include "core/random.h"
#include "net/shm_link.h"

enum meet { OFFER, ACCEPT, CONFIRM, DECLINE };

/* What OFFER and ACCEPT tell, as text: they are notices. */
struct card {
    int version;
    long pid;
    int region, bell;
    uint64_t addr; /* where the token lies in its memory, to see whether that can be read */
    uint8_t token[TCI_SHM_TOKEN];
};

static void tell(struct tci_shm *shm, uint32_t peer, enum meet what, const char *text)
{
    struct tci_notice notice = {
        .kind = TCI_NOTICE_NEAR, .culprit = (int32_t)shm->rank, .arg = (uint64_t)what};

    snprintf(notice.text, sizeof(notice.text), "%s", text);
    shm->below->ops->notify(shm->below, peer, &notice, true);
}

static void tell_card(struct tci_shm_link *link, enum meet what)
{
    char text[200], *at = text;

    at += snprintf(at, 120, "%d %ld %d %d %llx ", TCI_SHM_VERSION, (long)getpid(), link->region_fd,
                   link->shm->bell[1], (unsigned long long)(uintptr_t)link->token);
    for (int i = 0; i < TCI_SHM_TOKEN; i++)
        at += snprintf(at, 3, "%02x", link->token[i]);
    tell(link->shm, link->peer, what, text);
}

static bool read_card(const char *text, struct card *card_out)
{
    unsigned long long addr;
    int at = 0;

    if (sscanf(text, "%d %ld %d %d %llx %n", &card_out->version, &card_out->pid, &card_out->region,
               &card_out->bell, &addr, &at) != 5 ||
        at == 0 || card_out->pid <= 0 || strlen(text + at) != 2 * TCI_SHM_TOKEN)
        return false;
    card_out->addr = addr;
    for (int i = 0; i < TCI_SHM_TOKEN; i++) {
        unsigned byte;

        if (sscanf(text + at + 2 * i, "%2x", &byte) != 1)
            return false;
        card_out->token[i] = (uint8_t)byte;
    }
    return true;
}

/* ---- What one holds of the other ---- */

/* Its bell, and whether its memory can be read; the reason when it cannot be reached. */
static const char *reach(struct tci_shm_link *link, const struct card *card)
{
    uint8_t seen[TCI_SHM_TOKEN];

    link->pid = (pid_t)card->pid;
    link->bell = tci_shm_open_bell(link->pid, card->bell);
    if (link->bell < 0)
        return "its bell may not be rung from here";
    link->pidfd = tci_shm_watch_process(link->pid);
    link->alive_ns = 0;
    link->may_read = link->shm->may_read && link->pidfd >= 0 &&
                     tci_shm_read(link->pid, card->addr, seen, sizeof(seen)) == sizeof(seen) &&
                     memcmp(seen, card->token, sizeof(seen)) == 0;
    return NULL;
}

static bool make_token(struct tci_shm_link *link)
{
    return tci_random(link->token, sizeof(link->token));
}

/* ---- Processors ---- */

/* Ranks that are bound to processors of their own do not share them, though each of them has but
 * one: what counts is where all of them together may run. */
static void show_cpus(struct tci_shm_link *link, int side)
{
    struct tci_cpus own = tci_sched_cpus();

    tci_cpus_add(&link->region->cpus[side], &own);
    tci_cpus_add(&link->shm->cpus, &own);
}

static void see_cpus(struct tci_shm_link *link, int side)
{
    struct tci_shm *shm = link->shm;

    tci_cpus_add(&shm->cpus, &link->region->cpus[side]);
    tci_loop_see_cores(shm->loop, tci_cpus_count(&shm->cpus));
}

static void drop_region(struct tci_shm_link *link)
{
    if (link->region != NULL)
        munmap(link->region, tci_shm_region_bytes());
    link->region = NULL;
    if (link->region_fd >= 0)
        close(link->region_fd);
    link->region_fd = -1;
}

static void decline(struct tci_shm_link *link, const char *why)
{
    tell(link->shm, link->peer, DECLINE, why);
    drop_region(link);
    tci_shm_go_below(link, why);
}

static void stand(struct tci_shm_link *link, bool is_maker)
{
    see_cpus(link, is_maker ? 1 : 0);
    if (link->region_fd >= 0) /* the other has it mapped by now */
        close(link->region_fd);
    link->region_fd = -1;
    tci_log(TC_LOG_DEBUG, "rank %u: rank %u is reached over shared memory, %s", link->shm->rank,
            link->peer,
            link->may_read ? "and its memory can be read" : "but its memory cannot be read");
    if (tci_shm_link_up(link, is_maker) != 0)
        tci_shm_link_lose(link, "cannot be linked with: no memory left");
    else
        tci_shm_go_on(link);
}

/* ---- Its parts ---- */

void tci_shm_meet(struct tci_shm_link *link)
{
    const char *why = "no shared memory is to be had here";

    link->state = TCI_SHM_OFFERED;
    if (make_token(link) && tci_shm_bell_open(link->shm) == 0) {
        link->region = tci_shm_region_new(link->token, &link->region_fd);
        if (link->region != NULL) {
            show_cpus(link, 0);
            tell_card(link, OFFER);
            return;
        }
    }
    decline(link, why);
}

static void on_offer(struct tci_shm_link *link, const struct card *card)
{
    const char *why = NULL;
    struct tci_shm_region *region;

    region = tci_shm_map((pid_t)card->pid, card->region, tci_shm_region_bytes(), &why);
    if (region != NULL && !tci_shm_region_is(region, card->token)) {
        munmap(region, tci_shm_region_bytes());
        region = NULL;
        why = "is another one than it says: it runs in another container";
    }
    if (region == NULL) {
        decline(link, why);
        return;
    }
    drop_region(link); /* of an offer of ours */
    link->region = region;
    if (!make_token(link) || tci_shm_bell_open(link->shm) != 0) {
        decline(link, "no shared memory is to be had here");
        return;
    }
    why = reach(link, card);
    if (why != NULL) {
        decline(link, why);
        return;
    }
    show_cpus(link, 1);
    memcpy(region->answer, link->token, sizeof(region->answer));
    link->state = TCI_SHM_ACCEPTED;
    tell_card(link, ACCEPT);
}

static void on_accept(struct tci_shm_link *link, const struct card *card)
{
    const char *why;
    uint8_t answer[TCI_SHM_TOKEN];

    memcpy(answer, link->region->answer, sizeof(answer));
    if (memcmp(answer, card->token, sizeof(answer)) != 0)
        why = "is another one than it says: it runs in another container";
    else
        why = reach(link, card);
    if (why != NULL) {
        decline(link, why);
        return;
    }
    tell(link->shm, link->peer, CONFIRM, "");
    stand(link, true);
}

static bool is_wanted(struct tci_shm *shm, struct tci_shm_link *link)
{
    return shm->is_local != NULL && shm->is_local[link->peer] && !shm->has_left_below &&
           link->state != TCI_SHM_FAR && link->state != TCI_SHM_GONE;
}

void tci_shm_on_meet(struct tci_shm *shm, uint32_t peer, const struct tci_notice *notice)
{
    struct tci_shm_link *link = tci_shm_link_get(shm, peer);
    struct card card;

    if (link == NULL) { /* what was to go to it waits there for an answer */
        if (notice->arg == OFFER)
            tell(shm, peer, DECLINE, "there is no memory left for the link");
        return;
    }
    if (notice->arg == DECLINE) {
        if (link->state == TCI_SHM_OFFERED || link->state == TCI_SHM_ACCEPTED) {
            drop_region(link);
            tci_shm_go_below(link, "it has declined");
        } else if (link->state == TCI_SHM_NEAR) { /* it reads nothing there any more */
            tci_shm_link_lose(link, "sent a refusal of the memory that it has accepted");
        }
        return;
    }
    if (notice->arg == CONFIRM) {
        if (link->state == TCI_SHM_ACCEPTED)
            stand(link, false);
        return;
    }
    if (!read_card(notice->text, &card)) {
        if (link->state < TCI_SHM_NEAR)
            decline(link, "it speaks of shared memory in another way");
    } else if (notice->arg == ACCEPT) {
        if (link->state == TCI_SHM_OFFERED)
            on_accept(link, &card);
    } else if (!is_wanted(shm, link)) {
        tell(shm, peer, DECLINE, "shared memory is switched off there, or leads to another host");
        if (link->state == TCI_SHM_NEW)
            tci_shm_go_below(link, "it is not used here");
    } else if (link->state == TCI_SHM_NEW || (link->state == TCI_SHM_OFFERED && peer < shm->rank)) {
        on_offer(link, &card);
    }
}
