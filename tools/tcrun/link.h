/* link.h - tcrun's side of another host: its ranks look as if they ran here. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   tcrun == pipes, sockets == relay == pipes == ssh ~~~~ sshd == agent == guards == ranks
 *        `--- orders -----------'                            (tcrun --agent)
 *
 * The relay is a process of its own.  When tcrun has gone it ends, and ssh with it; the agent sees
 * the end of its input, or hears no beat any more, and takes all that it started along. */
#ifndef TCRUN_LINK_H
#define TCRUN_LINK_H

#include <stdbool.h>
#include <sys/types.h>

#include "launch.h"
#include "options.h"

enum { LINK_TEXT = 480 };

/* What the relay tells tcrun, and tcrun the relay, over a SOCK_SEQPACKET pair. */
enum link_event {
    LINK_READY,     /* the agent is there */
    LINK_LISTENING, /* value: errno; port: where the ranks meet */
    LINK_SAID,      /* text: for people */
    LINK_LOST,      /* text: why; each of its ranks says GUARD_LOST */
    LINK_LISTEN,    /* to the relay; text: an address of the host, where the ranks are to meet */
    LINK_START      /* to the relay; text: the URL of the rendezvous */
};

struct link_message {
    enum link_event event;
    int value;
    unsigned port;
    char text[LINK_TEXT];
};

struct link {
    const struct options *options; /* borrowed, as inherited */
    const struct inherited *inherited;
    const char *traces; /* borrowed; a folder for the traces of the ranks; NULL: none are kept */
    unsigned machine;
    unsigned *ranks; /* owned; those that run there */
    unsigned rank_count;
    pid_t relay;
    int control; /* owned; -1: the relay is gone */
    bool is_ready;
    bool is_told;         /* that it is lost */
    char lost[LINK_TEXT]; /* why; "": it is not */
};

/* Starts the relay of a machine and fills the places of its ranks in `ranks`, which has one for
 * each rank of the world.  Returns 0 or an errno, with nothing started. */
int link_open(struct link *link, struct launched *const *ranks);
void link_close(struct link *link);

/* Tells the relay something. */
void link_tell(const struct link *link, enum link_event event, const char *text);
/* What the relay has to say; false: nothing now, or nothing more (control is -1 then). */
bool link_hear(struct link *link, struct link_message *message);
/* Ends the relay, whatever it does. */
void link_kill(const struct link *link);

/* ---- relay.c --------------------------------------------------------------------------------- */

/* The relay's ends of a rank. */
struct relay_rank {
    int sock; /* -1: the guard is gone, or tcrun is */
    int out, err, in;
    bool is_killed; /* tcrun has closed its side of the socket */
    bool has_ended; /* the rank itself */
};

/* Becomes the relay. */
_Noreturn void relay_run(const struct link *link, int control, struct relay_rank *ranks);

/* The command that runs the agent of a host; remote_free_command(). */
char **relay_command(const struct options *options, const char *host);

#endif
