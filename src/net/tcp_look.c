/* tcp_look.c - how the links of the TCP transport stand, asked without sending anything. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "net/tcp_link.h"

/* Reads of one link; each takes what is there, within the bounds of a turn. */
enum { READS_MAX = 16 };

enum tci_bond tci_tcp_bond(const struct tci_transport *self, uint32_t peer)
{
    const struct tci_link *link = ((const struct tci_tcp *)self)->links[peer];

    if (link != NULL && link->has_left)
        return TCI_BOND_LEFT;
    if (link == NULL || link->state == TCI_LINK_NONE || link->state == TCI_LINK_DIALING)
        return TCI_BOND_NONE;
    if (link->state == TCI_LINK_HEALING)
        return TCI_BOND_MENDING;
    return link->state == TCI_LINK_UP ? TCI_BOND_STANDS : TCI_BOND_LOST;
}

void tci_tcp_look(struct tci_transport *self)
{
    struct tci_tcp *tcp = tci_tcp_of(self);
    struct tci_list *at, *next;

    for (at = tcp->open.next; at != &tcp->open; at = next) {
        struct tci_link *link = tci_container_of(at, struct tci_link, open_link);

        next = at->next;
        for (int i = 0; i < READS_MAX && link->state == TCI_LINK_UP; i++)
            if (tci_link_read(link) == 0)
                break;
        if (tci_list_is_empty(next))
            break; /* it has ended with the link that was read */
    }
}
