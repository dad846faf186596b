/* rendezvous.h - the place where the ranks meet: a listening socket that rank 0 inherits. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCRUN_RENDEZVOUS_H
#define TCRUN_RENDEZVOUS_H

enum { RENDEZVOUS_URL_MAX = 64 };

struct rendezvous {
    int fd; /* owned; close-on-exec; -1: rank 0 opens its own */
    char own_url[RENDEZVOUS_URL_MAX];
    const char *url; /* own_url, or borrowed from the options */
};

/* Listens on a free port of the loopback address, or only notes `url` where one is given.
 * Returns 0 or an errno. */
int rendezvous_open(struct rendezvous *rendezvous, const char *url);
void rendezvous_close(struct rendezvous *rendezvous);

#endif
