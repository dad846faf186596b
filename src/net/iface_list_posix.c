/* iface_list_posix.c - the addresses that packets to others leave from. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/iface.h"
#include "net/sock.h"

enum { DISCARD = 9 }; /* a port; nothing is sent there */

/* POSIX has names of interfaces, and no addresses.  But a socket for datagrams that is connected,
 * which sends nothing, has the address that such a packet would leave from: so the two of the
 * default route are known, if not the name of its interface, and loopback's. */
static void tell_source(const char *name, const char *to,
                        void (*fn)(void *, const struct tci_iface *), void *arg)
{
    struct tci_iface iface = {.addr.len = 0};
    struct tci_addr target;
    int fd;

    if (!tci_addr_from_text(to, DISCARD, &target))
        return;
    fd = socket(target.sa.ss_family, SOCK_DGRAM, 0);
    if (fd < 0)
        return;
    if (connect(fd, (const struct sockaddr *)&target.sa, target.len) == 0)
        tci_sock_local(fd, &iface.addr);
    (void)close(fd);
    if (iface.addr.len == 0)
        return;
    tci_addr_set_port(&iface.addr, 0);
    (void)snprintf(iface.name, sizeof iface.name, "%s", name);
    fn(arg, &iface);
}

void tci_iface_each(void (*fn)(void *arg, const struct tci_iface *iface), void *arg)
{
    /* Addresses of documentation (RFC 5737, RFC 3849), which lie beyond the default route. */
    tell_source("default", "192.0.2.1", fn, arg);
    tell_source("default", "2001:db8::1", fn, arg);
    tell_source("lo", "127.0.0.1", fn, arg);
    tell_source("lo", "::1", fn, arg);
}
