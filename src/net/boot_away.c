/* boot_away.c - rank 0 is not there, or cannot be reached: in words, soon and at the deadline. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "net/boot_away.h"

#include "core/assert.h"
#include "net/boot_meet.h"
#include "net/boot_silent.h"

/* What to do about it. */
static const char *advise(const struct tci_member *member)
{
    const struct tci_boot *boot = &member->boot;

    if (member->dial == NULL)
        return "start rank 0";
    if (tci_dial_is_stuck(member->dial) && member->stranger[0] == '\0')
        return tci_dial_is_nameless(member->dial)
                   ? "no such name is known here: see DNS and /etc/hosts"
                   : "this host has no way there: see its interfaces and routes";
    if (tci_dial_is_nameless(member->dial) && tci_dial_last(member->dial)[0] != '\0')
        return "see the name servers of this host";
    if (!tci_boot_is_local(boot) && tci_dial_is_loopback(member->dial))
        return "that name means this host itself here: see /etc/hosts";
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

/* Rank 0's card is another way to it: a newer one may have an address that can be reached. */
static bool is_stuck(const struct tci_member *member)
{
    return member->state == TCI_MEMBER_DIALING && member->meet == NULL && member->dial != NULL &&
           member->stranger[0] == '\0' && tci_dial_is_stuck(member->dial);
}

void tci_member_say(struct tci_boot *boot, const char *time)
{
    struct tci_member *member = tci_container_of(boot, struct tci_member, boot);
    struct tci_error error = {.pub = {.status = TC_OK}};

    tci_member_blame_away(member, time, &error);
    if (error.pub.status == TC_OK)
        return;
    if (boot->is_patient || !is_stuck(member)) {
        tci_boot_tell(boot, &error);
        return;
    }
    tci_error_set(&boot->error, TC_ERR_RENDEZVOUS, boot->result.rank, 0, "dist_init",
                  "%.400s; TCDIST_START_TIMEOUT=SECONDS waits for it", error.text);
    tci_member_fail(member);
}
