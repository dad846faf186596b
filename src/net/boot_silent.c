/* boot_silent.c - silence in a rendezvous is told apart: of a host, of a process, of neither. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "net/boot_silent.h"

enum { PINGS_MAX = 16 }; /* rank 0 says it once by itself, and once in answer */

/* ---- Rank 0 --------------------------------------------------------------------------------- */

/* What it has said last it reads, and nothing it says may come behind a READY. */
static bool is_awaited(const struct tci_guest *guest)
{
    return guest != NULL && (guest->state == TCI_GUEST_JOINED || guest->state == TCI_GUEST_TOLD);
}

void tci_root_ping(struct tci_boot *boot)
{
    struct tci_root *root = tci_container_of(boot, struct tci_root, boot);

    for (int rank = 1; rank < boot->result.size && root->guests != NULL; rank++)
        if (is_awaited(root->guests[rank]))
            tci_boot_conn_ping(&root->guests[rank]->conn);
}

void tci_root_pinged(struct tci_guest *guest)
{
    tci_boot_conn_ping(&guest->conn);
}

int tci_root_find_silent(const struct tci_root *root)
{
    int size = root->boot.result.size, first = -1, joined = 0, silent = 0;

    for (int rank = 1; rank < size && root->guests != NULL; rank++) {
        const struct tci_guest *guest = root->guests[rank];

        joined += guest != NULL;
        if (guest == NULL || !tci_boot_conn_is_silent(&guest->conn))
            continue;
        silent++;
        if (first < 0)
            first = rank;
    }
    return first >= 0 && silent == joined && size > 2 ? 0 : first;
}

void tci_root_blame_silent(struct tci_root *root, int rank, const char *time)
{
    struct tci_boot *boot = &root->boot;

    if (rank == 0)
        tci_error_blame(&boot->error, TC_ERR_TIMEOUT, 0, TC_REASON_MACHINE_SILENT, "dist_init",
                        "rank 0 at %.80s hears the hosts of those that have joined no more, and "
                        "nobody else has come within %s: its own network is down",
                        boot->text, time);
    else
        tci_error_blame(&boot->error, TC_ERR_TIMEOUT, rank, TC_REASON_MACHINE_SILENT, "dist_init",
                        "rank %d of %d joined at %.80s, but its host has acknowledged nothing "
                        "since; waited %s: it is off, asleep, or cut off",
                        rank, boot->result.size, boot->text, time);
}

/* ---- The others ------------------------------------------------------------------------------ */

void tci_member_ping(struct tci_boot *boot)
{
    struct tci_member *member = tci_container_of(boot, struct tci_member, boot);

    if (member->state == TCI_MEMBER_JOINING || member->state == TCI_MEMBER_WAITING)
        tci_boot_conn_ping(&member->conn);
}

bool tci_member_pinged(struct tci_member *member)
{
    return ++member->pings <= PINGS_MAX;
}

void tci_member_blame_root(const struct tci_member *member, const char *time,
                           struct tci_error *error)
{
    const struct tci_boot *boot = &member->boot;
    bool is_known = member->state == TCI_MEMBER_WAITING || member->state == TCI_MEMBER_HOLDING;
    char where[TCI_ADDR_TEXT];

    (void)tci_addr_print(&member->conn.peer, where);
    if (tci_boot_conn_is_silent(&member->conn))
        tci_error_blame(error, TC_ERR_TIMEOUT, 0, TC_REASON_MACHINE_SILENT, "dist_init",
                        "rank 0 at %s is silent: within %s its host has not acknowledged what rank "
                        "%d said to it; it is off, asleep, or cut off",
                        where, time, boot->result.rank);
    else if (!is_known)
        tci_error_blame(error, TC_ERR_TIMEOUT, 0, TC_REASON_LOOP_STALLED, "dist_init",
                        "rank %d is connected to %s for %.80s, but rank 0 has not answered there "
                        "within %s: see whether it runs",
                        boot->result.rank, where, boot->text, time);
    else if (member->pings == 0)
        tci_error_blame(error, TC_ERR_TIMEOUT, 0, TC_REASON_LOOP_STALLED, "dist_init",
                        "rank 0 at %s knows rank %d, but says nothing any more; waited %s: see "
                        "whether it is stopped, or its loop does not turn",
                        where, boot->result.rank, time);
    else
        tci_error_set(error, TC_ERR_TIMEOUT, 0, 0, "dist_init",
                      "rank 0 at %s knows rank %d, but the group does not stand within %s: other "
                      "ranks are missing, and rank 0 says which",
                      where, boot->result.rank, time);
}
