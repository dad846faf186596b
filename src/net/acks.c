/* acks.c - acknowledgements, as the TCP_INFO of Linux tells of them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "net/acks.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

/* Where <linux/tcp.h>, which does not go together with <netinet/tcp.h>, has the bytes that are
 * acknowledged; kernels before 4.1 do not tell. */
enum { ACKED_AT = 120 };

bool tci_acks_get(int fd, struct tci_acks *out)
{
    uint8_t bytes[ACKED_AT + sizeof(out->bytes_acked)] = {0};
    socklen_t len = sizeof bytes;
    struct tcp_info info;

    *out = (struct tci_acks){.owes = false};
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, bytes, &len) != 0)
        return false;
    memcpy(&info, bytes, sizeof info);
    *out = (struct tci_acks){.owes_data = info.tcpi_unacked > 0,
                             .owes = info.tcpi_unacked > 0 || info.tcpi_probes > 0,
                             .ack_ms = info.tcpi_last_ack_recv,
                             .data_ms = info.tcpi_last_data_recv,
                             .rtt_us = info.tcpi_rtt,
                             .has_bytes = len >= sizeof bytes};
    memcpy(&out->bytes_acked, bytes + ACKED_AT, sizeof out->bytes_acked);
    return true;
}

bool tci_acks_has_all(int fd)
{
    int unsent = 0;

    return ioctl(fd, SIOCOUTQ, &unsent) != 0 || unsent == 0;
}
