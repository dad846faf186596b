/* boot_away.c - rank 0 is not there, or cannot be reached: in words, soon and at the deadline. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "net/boot_away.h"

#include "core/assert.h"
#include "net/boot_meet.h"
#include "net/boot_silent.h"

/* A listener of the poorest of systems keeps so many connections waiting for a rank 0 that is busy
 * with something else: of more ranks some are not answered (net.core.somaxconn before 5.4). */
enum { QUEUE_MIN = 128 };

/* Why rank 0 is not reached. */
enum cause {
    CAUSE_LATE,    /* it may come */
    CAUSE_NO_NAME, /* seldom mended by waiting, from here on */
    CAUSE_NO_WAY,
    CAUSE_NO_PLACE,
    CAUSE_FOREIGN, /* something else has its address */
    CAUSE_LOST     /* it has listened, and does not where it is dialed */
};

/* Whether a socket of rank 0 was there before it was dialed. */
static bool has_listened(const struct tci_member *member)
{
    return member->boot.meeting.is_up || (member->meet != NULL && tci_meet_exchanges(member->meet));
}

static enum cause find_cause(const struct tci_member *member, bool counts_silence)
{
    const struct tci_dial *dial = member->dial;
    bool is_alone = member->stranger[0] == '\0';

    if (member->state == TCI_MEMBER_DIALING && dial == NULL && member->meet != NULL &&
        tci_meet_is_nowhere(member->meet))
        return CAUSE_NO_PLACE;
    if (member->state != TCI_MEMBER_DIALING || dial == NULL)
        return CAUSE_LATE;
    if (is_alone && tci_dial_is_stuck(dial))
        return tci_dial_is_nameless(dial) ? CAUSE_NO_NAME : CAUSE_NO_WAY;
    if (member->is_foreign && tci_dial_count(dial) == 1)
        return CAUSE_FOREIGN;
    if (is_alone && has_listened(member) && tci_dial_has_failed(dial) &&
        (tci_dial_is_answered(dial) ||
         (counts_silence && !tci_dial_is_nameless(dial) && member->boot.result.size <= QUEUE_MIN)))
        return CAUSE_LOST;
    return CAUSE_LATE;
}

/* Rank 0's card is another way to it: a newer one may have an address that can be reached. */
static bool is_hopeless(const struct tci_member *member, bool counts_silence)
{
    enum cause cause = find_cause(member, counts_silence);

    if (member->boot.is_patient || cause == CAUSE_LATE)
        return false;
    return member->meet == NULL || cause == CAUSE_LOST || cause == CAUSE_NO_PLACE;
}

/* What to do about it. */
static const char *advise(const struct tci_member *member)
{
    const struct tci_dial *dial = member->dial;

    switch (find_cause(member, true)) {
    case CAUSE_NO_NAME:
        return "no such name is known here: see DNS and /etc/hosts";
    case CAUSE_NO_WAY:
        return "this host has no way there: see its interfaces and routes";
    case CAUSE_FOREIGN:
        return "something else has that port: choose another";
    case CAUSE_LOST:
        return "rank 0 has listened there since before: it has ended, or a firewall or another "
               "host is in between";
    case CAUSE_NO_PLACE: /* said by what was met there */
    case CAUSE_LATE:
        break;
    }
    if (dial == NULL)
        return "start rank 0";
    if (tci_dial_is_nameless(dial) && tci_dial_last(member->dial)[0] != '\0')
        return "see the name servers of this host";
    if (!tci_boot_is_local(&member->boot) && tci_dial_is_loopback(dial))
        return "that name means this host itself here: see /etc/hosts";
    if (!tci_boot_is_local(&member->boot) && tci_dial_is_here(dial))
        return "that is an address of this host itself: start rank 0 here, or name its host by "
               "another";
    return "start rank 0, or check that this address leads to it";
}

static void blame_way(const struct tci_member *member, const char *time, struct tci_error *error)
{
    const struct tci_boot *boot = &member->boot;
    const char *last = member->dial != NULL ? tci_dial_last(member->dial) : "";
    unsigned attempts = member->dial != NULL ? tci_dial_attempts(member->dial) : 0;

    tci_error_blame(error, TC_ERR_TIMEOUT, 0, TC_REASON_NEVER_STARTED, "dist_init",
                    "rank %d has not reached rank 0 at %.80s within %s (%u attempt%s, the last: "
                    "%s): %s",
                    boot->result.rank, boot->text, time, attempts, attempts == 1 ? "" : "s",
                    member->stranger[0] != '\0' ? member->stranger
                    : last[0] != '\0'           ? last
                                                : "no answer yet",
                    advise(member));
}

void tci_member_blame_away(const struct tci_member *member, const char *time,
                           struct tci_error *error)
{
    const struct tci_boot *boot = &member->boot;

    switch (member->state) {
    case TCI_MEMBER_NAMING:
        tci_error_set(error, TC_ERR_TIMEOUT, boot->result.rank, 0, "dist_init",
                      "rank %d has found no address for %.80s within %s: the name server is silent",
                      boot->result.rank, boot->place.text, time);
        return;
    case TCI_MEMBER_DIALING:
        if (member->meet != NULL && member->dial == NULL)
            tci_member_blame_place(member, time, error);
        else
            blame_way(member, time, error);
        return;
    case TCI_MEMBER_PROVING:
    case TCI_MEMBER_JOINING:
        tci_member_blame_root(member, time, error);
        return;
    case TCI_MEMBER_WAITING:
    case TCI_MEMBER_HOLDING:
        return;
    case TCI_MEMBER_ENDED:
        break;
    }
    TC_UNREACHABLE();
}

static void give_up(struct tci_member *member, const struct tci_error *error)
{
    struct tci_boot *boot = &member->boot;

    tci_error_set(&boot->error, TC_ERR_RENDEZVOUS, boot->result.rank, 0, "dist_init",
                  "%.400s; TCDIST_START_TIMEOUT=SECONDS waits for it", error->text);
    tci_member_fail(member);
}

void tci_member_say(struct tci_boot *boot, const char *time)
{
    struct tci_member *member = tci_container_of(boot, struct tci_member, boot);
    struct tci_error error = {.pub = {.status = TC_OK}};

    tci_member_blame_away(member, time, &error);
    if (error.pub.status == TC_OK)
        return;
    if (is_hopeless(member, false))
        give_up(member, &error);
    else
        tci_boot_tell(boot, &error);
}

void tci_member_judge(struct tci_member *member)
{
    struct tci_error error = {.pub = {.status = TC_OK}};
    uint64_t due_ns = member->judge_ns;
    char time[32];

    member->judge_ns = TCI_NEVER;
    if (!is_hopeless(member, true))
        return;
    tci_member_blame_away(member, tci_boot_time_to(&member->boot, due_ns, time), &error);
    give_up(member, &error);
}
