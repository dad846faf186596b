/* rendezvous.h - the place where the ranks meet: a listening socket that rank 0 inherits. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCRUN_RENDEZVOUS_H
#define TCRUN_RENDEZVOUS_H

enum { RENDEZVOUS_URL_MAX = 320 };

struct rendezvous {
    int fd; /* owned; close-on-exec; -1: rank 0 opens its own */
    char own_url[RENDEZVOUS_URL_MAX];
    const char *url; /* own_url, or borrowed from the options; NULL: not known yet */
};

/* Listens on a free port of an address of this host.  Returns 0 or an errno. */
int rendezvous_listen(struct rendezvous *rendezvous, const char *address, unsigned *port_out);

/* The URL of a port that somebody listens at. */
void rendezvous_set(struct rendezvous *rendezvous, const char *address, unsigned port);

void rendezvous_close(struct rendezvous *rendezvous);

#endif
