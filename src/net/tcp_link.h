/* tcp_link.h - what the files of the TCP transport share: the transport, its links, its queues. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_TCP_LINK_H
#define TCI_TCP_LINK_H

#include "core/base.h"
#include "core/context.h"
#include "core/match.h"
#include "core/pool.h"
#include "net/frame.h"
#include "net/greet.h"
#include "net/sock.h"
#include "net/tcp.h"
#include "net/tcp_log.h"

/*   tcp.c       the port's verbs, the source, abort, leave, close
 *   tcp_dial.c  links are made: dialed, greeted
 *   tcp_listen.c  where connections come
 *   tcp_accept.c  and are accepted, answered
 *   tcp_call.c  who cannot be connected to is called back, or reached through a third
 *   tcp_pipe.c  a third rank carries what such ranks say
 *   tcp_link.c  links begin and end; frames of control
 *   tcp_send.c  messages wait, take turns and go out
 *   tcp_probe.c messages whose credit does not come show their call
 *   tcp_recv.c  frames are matched with receives
 *   tcp_look.c  how links stand
 *   tcp_poll.c  the turns of the links
 *   tcp_hear.c  hosts are heard, or found silent
 *   tcp_io.c    bytes are read into frames and to their places
 *   tcp_log.c   what was sent is kept until the peer has it
 *   tcp_heal.c  a connection that broke is made again, and goes on where it was
 *   tcp_side.c  further connections of a link: pieces of large messages go over them too
 */

enum {
    /* Payload of one frame: an urgent message waits for this much at most, 0.15 ms on loopback.
     * 64 MiB take 14.0 ms in such pieces, 14.6 to 15.4 in halves and quarters of them. */
    TCI_TCP_SEGMENT = 1024 * 1024,
    /* As much of a link is written in one turn, and read, so that it stays below a millisecond. */
    TCI_TCP_TURN = 2 * 1024 * 1024,
    /* Both, where small messages have been more urgent than large ones, which wait for the turn
     * that is under way, and for what lies before them where no connection is there for pieces:
     * 4 KiB beside 256 MiB on loopback take 0.02 ms, or 0.03 to 0.1 behind pieces, instead of 1.2,
     * while 4 MiB alone take 1.6 times as long.  So it lasts for so many large ones only. */
    TCI_TCP_SHORT = 64 * 1024,
    TCI_TCP_SHORT_FOR = 256,
    /* Between ranks of one host a large message begins once less than so much is on its way, where
     * several wait: so what they are sent from, lie in and are read to stays in the caches.  Of 64
     * all-reduces of 256 KiB, two ranks: 4.9 ms, 5.1 with twice as much, 5.7 with three times, 6.9
     * without.  On a longer way it would be too little. */
    TCI_TCP_FEW = 256 * 1024,
    /* A receiver tells how far it has come after so much, and behind each message that its sender
     * has not copied. */
    TCI_TCP_ACK_EVERY = 128 * 1024,
    /* Small messages behind the first of a turn are gathered, and so many bytes of them leave in
     * one system call. */
    TCI_TCP_GATHERED = 64 * 1024,
    /* Eager bytes of one link on their way or in the early store of the receiver; at least four
     * of the largest eager messages. */
    TCI_TCP_WINDOW = 4 * 1024 * 1024,
    TCI_TCP_EAGER_MAX = 8 * 1024 * 1024, /* larger agreements are cut to this */
    TCI_TCP_EAGER_COST = TCI_HEAD_BYTES, /* of a message besides its payload: none is free */
    /* Read at once where small messages are expected: the largest is one system call. */
    TCI_TCP_INPUT = TCI_HEAD_BYTES + 64 * 1024,
    TCI_TCP_STAGING = 256 * 1024, /* folded at once: stays in the second-level cache */
    TCI_TCP_EARLY_MAX = 1 << 18,  /* credits and wants that a peer may have us remember */
    TCI_TCP_DRAIN_MAX = 16,       /* reads of a peer's last words before a connection is closed */
    TCI_TCP_HALF_MAX = 64,        /* accepted connections that have not greeted yet */
    TCI_TCP_LISTENERS = 1 + TCI_PATHS_MAX,
    TCI_TCP_SIDES = 8, /* connections of a link besides the main one: what was asked for, and … */
    TCI_TCP_ASIDE = TCI_TCP_SIDES, /* … the last one, for pieces while turns are short */
    TCI_TCP_FIRST_MAX = 16,        /* so many turns in a row are of main connections alone */
    TCI_TCP_PIPES_MAX = 4096,      /* that one rank carries … */
    /* … from one rank to another: it needs one, and a new one when that fails.  So many ends of
     * them wait at the other one, too. */
    TCI_TCP_PIPES_SAME = 8,
    TCI_TCP_GREET_MS = 5000,
    /* As long as a host that is silent in mid-job: either end may be stopped for 10 s. */
    TCI_TCP_DIAL_MS = TCI_SILENCE_MS,
    /* Every rank listens before any knows its address, so who refuses is gone: as many tries take
     * 0.3 s, in case that a name or a route has just been changed. */
    TCI_TCP_REFUSALS_MAX = 7,
    /* Keys do not change while a process runs: so many denials, in 0.6 s, are not one mishap on the
     * way. */
    TCI_TCP_DENIALS_MAX = 8
};
static_assert(TCI_TCP_FEW > TCI_TCP_ACK_EVERY, "who waits for fewer on their way is told");

/* Messages of one tag that may be sent now: sent in order, one after the other, so that equal
 * keys stay in order.  Flows of a link take turns, the most urgent first. */
struct tci_flow {
    struct tci_list link;
    struct tci_xfers xfers;
    int8_t priority; /* of the most urgent of them */
};

enum tci_link_state {
    TCI_LINK_NONE,    /* not needed yet */
    TCI_LINK_DIALING, /* connecting, greeting, or waiting to try again */
    TCI_LINK_UP,
    TCI_LINK_HEALING, /* its connection broke: dialed again, or waited for */
    TCI_LINK_DOWN     /* for good */
};

/* Where the payload of the frame that is being read goes. */
enum tci_rx_mode { TCI_RX_HEAD, TCI_RX_XFER, TCI_RX_EARLY, TCI_RX_NOTICE, TCI_RX_DISCARD };

/* How far a payload has come to its place. */
struct tci_place {
    uint64_t at;       /* in the message */
    uint8_t carry[16]; /* bytes of an element that is not complete yet, where it is folded */
};

struct tci_rx {
    uint8_t mode;
    unsigned have;         /* bytes of the header, or of a notice */
    uint64_t left;         /* bytes of the payload that are still to come */
    struct tci_xfer *xfer; /* with XFER; stays in the table of receives */
    struct tci_place place;
    struct tci_early *early; /* with EARLY; in the table of what came early */
    struct tci_frame frame;
    uint8_t head[TCI_HEAD_BYTES];
    uint8_t notice[TCI_NOTICE_BYTES];
};

struct tci_link {
    struct tci_tcp *tcp;          /* borrowed */
    struct tci_list open_link;    /* in tcp->open while UP */
    struct tci_list sending_link; /* in tcp->sending while something is to be written */
    uint32_t peer;
    uint8_t state;
    bool has_left;   /* the peer has said goodbye */
    bool bye_queued; /* so have we */
    bool is_leaving; /* or will, once what was posted is sent: this link ends alone */
    bool is_near;    /* its connection does not leave this host */
    bool was_silent; /* at the last pulse: see tcp_hear.c */
    struct {
        uint64_t at_ns, acked; /* the peer's host owes since then; had acknowledged so many bytes */
        uint64_t acked_ns;     /* when a look has seen that it had acknowledged more */
    } heard;                   /* at_ns 0: nobody has looked */
    uint64_t sent_pass;        /* the last poll before a message was sent at once */
    int fd;                    /* owned; -1: none */
    int send_errno;            /* sending failed; what can still be read is read first */
    struct tci_watch watch;
    struct tci_addr addr; /* of the other end, for texts */
    /* While it is dialed. */
    struct tci_timer timer; /* tries again, or gives up */
    uint64_t deadline_ns;
    uint32_t backoff_ms;
    unsigned greet_have; /* bytes of the answer */
    uint8_t greeting[TCI_HEAD_BYTES + TCI_HELLO_BYTES];
    struct tci_greet greet; /* of the connection that is dialed */
    bool has_connected, has_greeted;
    bool is_denied_by_peer;
    enum tci_auth_reason denied;   /* the last try: why the keys do not fit */
    int dial_errno;                /* how the last try failed */
    unsigned refusals;             /* tries in a row that were refused */
    unsigned denials;              /* that failed for the keys of the two */
    unsigned refusals_max;         /* so many tell that the peer is gone */
    bool yields;                   /* refused: the peer's own connection will come */
    uint64_t dial_ns;              /* when it was first dialed */
    unsigned attempts;             /* to connect, since then */
    bool has_called;               /* the peer was asked to connect to this rank */
    bool is_called;                /* this rank was asked to connect, and has no need itself */
    uint32_t calls_passed;         /* to it, and not acknowledged … */
    uint64_t calls_end;            /* … where the last one ends in what is said to it */
    bool is_piped;                 /* its connection goes through a third rank, the carrier */
    uint32_t carrier, carrier_due; /* where it does; the next to be asked */
    struct tci_knock *knock;       /* while it is asked for */
    tci_tcp_probe_fn probe_fn;     /* NULL: it is needed, so that to fail is a loss */
    void *probe_arg;               /* borrowed until probe_fn is called */
    /* Once it stands. */
    struct tci_crypt *crypt; /* owned; NULL: what is said is not sealed */
    struct tci_rx rx;
    struct tci_log log;
    struct tci_list flows; /* most urgent first */
    uint64_t bye_end;      /* where our goodbye ends in what is sent */
    uint32_t seq_out, seq_in;
    uint64_t eager_queued;   /* bytes in flows, not in frames yet */
    uint64_t eager_framed;   /* bytes in frames, since the beginning */
    uint64_t eager_acked;    /* of these, known to be consumed */
    uint64_t eager_consumed; /* of the other direction */
    uint64_t eager_told;     /* value of the last ack that was sent */
    uint64_t eager_held;     /* bytes in our early store */
    uint32_t early_held;     /* credits and wants that we remember */
    uint64_t received;       /* bytes of the peer's stream */
    uint64_t received_told;  /* as of the last ack that was sent */
    struct {
        uint64_t token;       /* made at random with the link; 0: none is known yet */
        uint64_t other_token; /* both sides made one, and this is not the last that was said */
        uint64_t since_ns;    /* when the connection broke */
        uint64_t giveup_ns;   /* when this try to make it again has taken too long */
        int error;            /* how it broke; 0: the stream ended */
        bool is_given;        /* the token is in the first frame of the lower rank */
        uint32_t tries;       /* to make it again, in all */
        uint32_t seen;        /* the last of the peer's */
        uint32_t patience_ms;
    } heal;
    /* Connections at the side of the main one, which is the link's first: for pieces alone. */
    struct tci_link *main;                 /* itself, where it is the main one */
    uint32_t index;                        /* 0: the main one */
    struct tci_link *sides[TCI_TCP_SIDES]; /* of the main one: owned; NULL: never made */
    unsigned side_count;
    uint32_t made;        /* of a side: how often it was made, or tried to */
    uint64_t grants;      /* credits that were sent */
    uint32_t live, sends; /* transfers with this peer; of these, sends */
    uint32_t large;       /* receives whose credit has been sent */
};

struct tci_tcp {
    struct tci_transport base; /* first */
    struct tci_source source;
    struct tci_loop *loop; /* borrowed */
    struct tci_exec *exec; /* borrowed: of the loop */
    tc_context *context;   /* borrowed */
    uint32_t rank, size;
    struct tci_addr *addrs;  /* owned, `size` */
    struct tci_link **links; /* owned, `size`; NULL: never needed */
    uint8_t group_id[TCI_GROUP_ID];
    struct tci_keyring *keyring; /* shared; NULL: nobody has to prove anything */
    bool is_quiet;               /* links without transfers are not polled */
    bool is_ring;                /* only neighbours are linked: what is not, stays so */
    struct tci_tcp_listener {
        struct tci_watch watch;
        struct tci_tcp *tcp;
        int fd;                      /* owned; -1: none */
    } listeners[TCI_TCP_LISTENERS];  /* of the address of this rank, and of its further ones */
    struct tci_paths paths;          /* owned */
    struct tci_timer listener_timer; /* goes on accepting after descriptors ran out */
    struct tci_list open, sending;
    struct tci_list halves; /* struct tci_half */
    unsigned half_count;
    struct tci_list knocks; /* struct tci_knock */
    struct tci_list pipes;  /* struct tci_pipe; that this rank carries */
    unsigned pipe_count;
    uint64_t pipe_last; /* number of the last one */
    struct tci_match match;
    struct tci_pool flows, earlies;
    struct tci_timer probe;
    struct tci_timer pulse; /* looks for hosts that acknowledge nothing */
    uint64_t probe_ms;
    size_t eager_max;
    uint64_t window;
    uint32_t connections; /* of a link to a higher rank */
    uint64_t heal_ns;     /* how long a peer may stay away; 0: not at all */
    uint8_t *input;       /* owned, TCI_TCP_INPUT */
    uint8_t *staging;     /* owned, TCI_TCP_STAGING and room for an element */
    uint64_t live;        /* transfers in all */
    struct tci_xfer *put; /* borrowed: posted now; NULL: none, or it has ended well */
    uint64_t passes;      /* polls so far, and one */
    int bulk_priority;    /* of the last large transfer; INT_MAX: none so far */
    uint32_t short_for;   /* large ones for which turns stay short */
    uint32_t first_turns; /* in a row, of main connections alone: see tcp_poll.c */
    bool is_leaving;
    bool is_parting;             /* leaving, without waiting for the others */
    struct tci_timer left_timer; /* tells the sink that everyone has left, not from a verb */
    struct tci_transport_stats stats;
    struct tci_meter meter; /* of these */
};

static inline struct tci_tcp *tci_tcp_of(struct tci_transport *transport)
{
    return (struct tci_tcp *)transport;
}

/* Payload of one frame. */
static inline size_t tci_tcp_piece_bytes(const struct tci_tcp *tcp)
{
    return tcp->short_for > 0 ? TCI_TCP_SHORT : TCI_TCP_SEGMENT;
}

/* What is written of a link in one turn: a piece in one call, where turns are short. */
static inline size_t tci_tcp_turn_bytes(const struct tci_tcp *tcp)
{
    return tcp->short_for > 0 ? TCI_TCP_SHORT + TCI_HEAD_BYTES : TCI_TCP_TURN;
}

/* ---- tcp.c ---- */

/* A transfer is posted: whether turns are to be short follows from what is. */
void tci_tcp_note_urgency(struct tci_tcp *tcp, const struct tci_xfer *xfer);

/* Complete a transfer that is in no list any more. */
void tci_tcp_complete(struct tci_tcp *tcp, struct tci_xfer *xfer, tc_status_t status);
bool tci_tcp_admit(struct tci_tcp *tcp, uint32_t peer, const struct tci_key *key,
                   const struct tci_call *call);
/* In a ring a notice goes by way of the ranks between: on from where it came, or from here by the
 * shorter way of those that stand.  Where none does it ends: a deadline holds without it. */
enum { TCI_FROM_HERE = -1 };
struct tci_way {
    uint32_t from, to;
};
void tci_tcp_pass_on(struct tci_tcp *tcp, const struct tci_way *way, int came_from,
                     const struct tci_notice *notice);
/* What rank 0 says of the end of a call goes both ways around, and all hear it as it passes: before
 * anything else that a rank who knows of it has sent, its goodbye among that. */
bool tci_tcp_is_for_all(const struct tci_way *way, const struct tci_notice *notice);
/* Tell the sink that everyone has left, once that is so. */
void tci_tcp_check_left(struct tci_tcp *tcp);

/* ---- tcp_poll.c ---- */

/* What the loop asks of the source. */
unsigned tci_tcp_poll(struct tci_source *source, unsigned budget);
bool tci_tcp_arm(struct tci_source *source);
bool tci_tcp_expects(struct tci_source *source);

/* ---- tcp_look.c ---- */

enum tci_bond tci_tcp_bond(const struct tci_transport *self, uint32_t peer);
void tci_tcp_look(struct tci_transport *self);

/* ---- tcp_link.c ---- */

/* The link to a peer, made but not dialed when it is new; NULL: no memory. */
struct tci_link *tci_link_get(struct tci_tcp *tcp, uint32_t peer);
void tci_link_init(struct tci_link *link, struct tci_tcp *tcp, uint32_t peer);
/* A connection that stands becomes the link.  -1: the reactor refuses it. */
int tci_link_up(struct tci_link *link, int fd);
/* The link ends since this rank has no memory left, and so is lost itself. */
void tci_link_starve(struct tci_link *link);
/* The same, since the rest of a message that has begun is not there. */
void tci_link_mislead(struct tci_link *link);
/* The end of a link, with a text "rank 2 <text> (tcp 127.0.0.1:4100)". */
__attribute__((format(printf, 3, 4))) void tci_link_lose(struct tci_link *link, tc_reason_t reason,
                                                         const char *fmt, ...);
/* What a failed read or write means, for that text, and of what class it is. */
const char *tci_link_errno_text(int error);
tc_reason_t tci_link_errno_reason(int error);
/* The end without a loss: closed by us. */
void tci_link_fini(struct tci_link *link);
/* Stop to use the connection, and close it. */
void tci_link_drop_fd(struct tci_link *link);
/* Queue a frame of control; fills seq and ack.  Without memory the next poll loses the link. */
void tci_link_control(struct tci_link *link, struct tci_frame *frame, const uint8_t *payload);
void tci_link_say_bye(struct tci_link *link);
/* Both have said goodbye, and the peer has ours. */
bool tci_link_is_parted(const struct tci_link *link);
/* When that is so on a link that ends alone: the end of our stream, which is the end of
 * the link at the peer, whose end of stream ends it here. */
void tci_link_check_parted(struct tci_link *link);
/* Queue an ACK, with all that it tells. */
void tci_link_say_ack(struct tci_link *link);

/* ---- tcp_dial.c ---- */

void tci_link_dial(struct tci_link *link);                   /* NONE to DIALING */
void tci_link_dial_back(struct tci_link *link);              /* likewise; the peer has called */
void tci_link_dial_end(struct tci_link *link);               /* stops what dialing has begun */
void tci_link_end_probe(struct tci_link *link, bool stands); /* harmless when there is none */
/* One try; a failure of it sets the timer of the next. */
void tci_link_dial_once(struct tci_link *link);
void tci_link_dial_failed(struct tci_link *link, int error);
/* Without memory for the timer the link is lost at the next poll. */
void tci_link_wake_at(struct tci_link *link, uint64_t when_ns);
void tci_link_on_dial_timer(struct tci_timer *timer);
/* The words of a new connection; REFUSE says whether there is no hope for a link that is made
 * again. */
enum { TCI_REFUSED_FOR_NOW, TCI_REFUSED_FOR_GOOD };
enum { TCI_GREETING_BYTES = TCI_HEAD_BYTES + TCI_HELLO_BYTES };
bool tci_greeting_send(struct tci_greet *greet, int fd, uint8_t kind, const struct tci_hello *hello,
                       uint64_t refusal);
/* A connection through a carrier stands, and the peer is at its other end. */
void tci_link_piped(struct tci_link *link, int fd);

/* ---- tcp_accept.c ---- */

/* A connection that has come, and says in a moment what it is for; the rank that carries it, or
 * TCI_DIRECT. */
enum { TCI_DIRECT = -1 };
void tci_tcp_take(struct tci_tcp *tcp, int fd, int carrier);
void tci_tcp_drop_halves(struct tci_tcp *tcp);

/* ---- tcp_listen.c ---- */

void tci_tcp_listen_init(struct tci_tcp *tcp);
/* Takes the listeners of the result; 0, or -1 with errno. */
int tci_tcp_listen_start(struct tci_tcp *tcp, struct tci_boot_result *result);
void tci_tcp_listen_end(struct tci_tcp *tcp);
/* Where connection `index` (from 1) of the link to a peer is dialed. */
const struct tci_addr *tci_tcp_path(const struct tci_tcp *tcp, uint32_t peer, uint32_t index);

/* ---- tcp_call.c ---- */

/* A try to connect has failed, or gives no answer: whether from now on it goes through a third. */
bool tci_link_detour_failed(struct tci_link *link);
bool tci_link_detour_late(struct tci_link *link, uint64_t waited_ms);
/* When to ask again, in the time that was waited; 0: not again. */
uint64_t tci_link_detour_next_ms(const struct tci_link *link, uint64_t waited_ms);
/* Ask a carrier for a connection through it: 0, or an errno; tci_link_piped follows, or
 * tci_link_dial_failed. */
int tci_link_knock(struct tci_link *link);
void tci_knock_end(struct tci_knock *knock); /* NULL is fine */
void tci_knocks_end(struct tci_tcp *tcp);
/* CALL came: NULL, or what is wrong with it. */
const char *tci_link_on_call(struct tci_link *link);

/* ---- tcp_pipe.c ---- */

/* A connection is to be one end of a pipe; true: it, and its greeting, are taken. */
bool tci_pipe_take(struct tci_tcp *tcp, const struct tci_hello *hello, int fd,
                   struct tci_greet *greet);
bool tci_pipes_carry(const struct tci_tcp *tcp);
void tci_pipes_end(struct tci_tcp *tcp);

/* ---- tcp_heal.c ---- */

/* The connection has failed, with an errno or, with 0, by the end of its stream: it is made again,
 * or the peer is lost. */
void tci_link_break(struct tci_link *link, int error);
/* The system has given a descriptor that a link takes for its own: somebody has closed it. */
void tci_tcp_disown(struct tci_tcp *tcp, int fd);
/* A link that was made at the meeting point: the lower rank gives it a token. */
void tci_link_give_token(struct tci_link *link);
void tci_link_take_token(struct tci_link *link, uint64_t token);
bool tci_link_has_token(const struct tci_link *link, uint64_t token);
/* What this side says of a link when it dials it, anew or again. */
void tci_link_hello(struct tci_link *link, struct tci_hello *hello_out);
/* The answer to that came, and the connection is the link's again: NULL, or what is wrong. */
const char *tci_link_resume(struct tci_link *link, const struct tci_hello *hello);
/* The time of a try, or of all tries, is over. */
void tci_link_on_heal_timer(struct tci_link *link);
/* What to answer to a peer that has dialed a link again. */
enum tci_heal_answer {
    TCI_HEAL_STRAY, /* nothing: it does not know the link */
    TCI_HEAL_GONE,  /* the link has ended here */
    TCI_HEAL_LATER, /* this rank's own connection is on its way */
    TCI_HEAL_TAKE
};
enum tci_heal_answer tci_link_judge(const struct tci_link *link, const struct tci_hello *hello,
                                    int fd);
/* TAKE: a connection takes the place of the one that broke.  False: it cannot be used. */
bool tci_link_take_again(struct tci_link *link, const struct tci_hello *hello, int fd,
                         struct tci_crypt *crypt);

/* ---- tcp_crypt.c ---- */

/* As sendmsg(2) and readv(2), over the seal where there is one.  What was taken by a seal may not
 * be sent yet: with no parts it goes on with that, and gives 0. */
ssize_t tci_link_writev(struct tci_link *link, struct iovec *iov, int count);
ssize_t tci_link_readv(struct tci_link *link, struct iovec *iov, int count);
static inline bool tci_link_is_flushed(const struct tci_link *link)
{
    return link->crypt == NULL || tci_crypt_is_flushed(link->crypt);
}
/* Whether there is something to be read that no socket will tell of. */
static inline bool tci_link_has_input(const struct tci_link *link)
{
    return link->crypt != NULL && tci_crypt_has_input(link->crypt);
}
/* By what a connection with a peer begins: nothing where there is no key. */
void tci_link_auth_config(const struct tci_tcp *tcp, uint32_t peer, bool is_dialer,
                          struct tci_auth_config *config_out);
/* The time to link is over, and the keys did not fit. */
void tci_link_lose_denied(struct tci_link *link);

/* ---- tcp_cut.c ---- */

/* Sends out of memory that is not there end, with all of their tag; true when the stream can go on
 * without them. */
bool tci_link_cut_missing(struct tci_link *main);

/* ---- tcp_side.c ---- */

/* The main connection stands: the lower rank dials the others. */
void tci_sides_start(struct tci_link *link);
void tci_sides_end(struct tci_link *link);
void tci_sides_free(struct tci_link *link);
/* There are pieces to send. */
void tci_sides_wake(struct tci_link *link);
/* A piece goes over the main connection while turns are short: there is to be another one. */
void tci_sides_want(struct tci_link *main);
/* Whether there is one besides the main one that takes pieces now. */
bool tci_side_carries(const struct tci_link *side);
bool tci_sides_carry(const struct tci_link *main);
/* What is urgent has the main connection for itself. */
static inline bool tci_sides_part(const struct tci_link *main)
{
    return main->tcp->short_for > 0 && tci_sides_carry(main);
}
/* What a side that has ended had sent, and its peer has not got, goes over the main one. */
bool tci_sides_have_rest(const struct tci_link *link);
bool tci_sides_put_rest(struct tci_link *link);
/* A receive ends that may be in the middle of a piece, over any connection. */
void tci_sides_forget(struct tci_link *link, const struct tci_xfer *xfer);
/* It failed while it stood, or while it was dialed. */
void tci_side_break(struct tci_link *side);
void tci_side_dial_failed(struct tci_link *side);
void tci_side_on_timer(struct tci_link *side);
/* The peer says that a side has ended: NULL, or what is wrong with that. */
const char *tci_side_on_told(struct tci_link *link, const struct tci_frame *frame);
/* The peer has dialed a side of a link: which one it is to be; NULL: it may not. */
struct tci_link *tci_side_wanted(struct tci_link *link, const struct tci_hello *hello);

/* ---- tcp_send.c ---- */

/* A piece of a large message into the log of a connection; false: no memory. */
bool tci_link_put_piece(struct tci_link *link, struct tci_xfer *xfer, uint64_t offset,
                        size_t length);

/* Of the log of a link. */
void tci_link_on_release(struct tci_log *log, struct tci_xfer *xfer, uint64_t len);

void tci_tcp_post_send(struct tci_transport *self, struct tci_xfer *xfer);
/* Write what can be written; true when something was. */
bool tci_link_flush(struct tci_link *link);
bool tci_link_has_output(const struct tci_link *link);
/* A credit came. */
void tci_link_on_credit(struct tci_link *link, const struct tci_frame *frame);
void tci_link_end_send(struct tci_link *link, struct tci_xfer *xfer, tc_status_t status);
/* Take out and complete sends of a tag (NULL: all). */
void tci_link_abort_sends(struct tci_link *link, const struct tci_key *key, tc_status_t status);

/* ---- tcp_probe.c ---- */

void tci_tcp_probe_start(struct tci_tcp *tcp);
void tci_tcp_on_probe_timer(struct tci_timer *timer);

/* ---- tcp_recv.c ---- */

/* Among the things that can be wrong with what has come, one that is not the peer's doing. */
extern const char tci_tcp_no_memory[];

void tci_tcp_post_recv(struct tci_transport *self, struct tci_xfer *xfer);
/* A header is complete: sets rx for its payload.  NULL, or what is wrong with it. */
const char *tci_link_on_frame(struct tci_link *link);
/* The payload is complete. */
const char *tci_link_on_payload(struct tci_link *link);
/* Payload in order: copied, or folded. */
void tci_xfer_deliver(struct tci_tcp *tcp, struct tci_xfer *xfer, struct tci_place *place,
                      const uint8_t *from, size_t len);
/* A receive ends: out of the table, completed. */
void tci_link_end_recv(struct tci_link *link, struct tci_xfer *xfer, tc_status_t status);
/* Something early is dropped or used up. */
void tci_link_drop_early(struct tci_link *link, struct tci_early *early);
/* Owed acknowledgements go out once half the window is owed. */
void tci_link_ack(struct tci_link *link);

/* ---- tcp_hear.c ---- */

enum tci_hearing tci_tcp_hear(const struct tci_transport *self, uint32_t peer, uint64_t since_ns);
/* -1 without memory. */
int tci_tcp_pulse_start(struct tci_tcp *tcp);

/* ---- tcp_io.c ---- */

/* Read what is there, within bounds; the amount of work done.  May lose the link. */
unsigned tci_link_read(struct tci_link *link);

#endif
