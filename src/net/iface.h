/* iface.h - the network interfaces of this host, and which of them ranks may be reached by. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_IFACE_H
#define TCI_IFACE_H

#include <net/if.h>
#include <stddef.h>

#include "net/addr.h"

/* A choice is a list of names, "eth0,^docker*,^lo": "*" stands for any characters; "^" before a
 * name leaves out what it fits.  With names that are not left out, those alone, the first of them
 * before the next; else every interface but what is left out.  NULL, or "": every interface but
 * loopback. */
enum { TCI_IFACE_CHOICE_MAX = 255 };
extern const char tci_iface_allowed[]; /* what a choice must be, for errors */
bool tci_iface_is_choice(const char *text);
/* The place of an interface in a choice, from 0; -1: it is left out. */
int tci_iface_rank(const char *choice, const char *name);

struct tci_iface {
    char name[IF_NAMESIZE];
    struct tci_addr addr; /* port 0 */
};

/* Call fn(arg, interface) for each address that the system tells of, in its order. */
void tci_iface_each(void (*fn)(void *arg, const struct tci_iface *iface), void *arg);
/* The addresses of this host that a choice leaves, the best first: in the order of the choice, IPv4
 * and IPv6 before addresses that need a scope.  At most `max`; gives their number.  Any thread. */
size_t tci_iface_list(const char *choice, struct tci_iface *list, size_t max);
/* Whether an address is of this host, and of an interface that the choice leaves. */
bool tci_iface_has(const char *choice, const struct tci_addr *addr);
/* "eth0 10.0.0.7, eth1 fd00::7": the addresses of this host for an error, as many as fit. */
const char *tci_iface_print(const char *choice, char *text, size_t room);

#endif
