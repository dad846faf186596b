/* dist.h - groups of ranks: to form one, to ask it, to end it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCDIST_DIST_H
#define TCDIST_DIST_H

#include "tcdist/auth.h"
#include "tcdist/context.h"

TC_BEGIN_DECLS

/* A group of ranks, as one of them sees it. */
typedef struct tc_dist_ctx tc_dist_ctx;

/* What carries the group.  Numbers are tensorcore's. */
typedef enum tc_dist_backend {
    TC_DIST_SINGLE = 0, /* this process alone */
    TC_DIST_RING = 1,   /* TCP, or descriptors of the caller */
    TC_DIST_GLOO = 2,   /* TCP, with the variables TC_GLOO_…: docs/tensorcore.md */
    TC_DIST_ANY = 16
} tc_dist_backend_t;

#define TC_DIST_OPTIONS_ABI_VERSION 1 /* of tc_dist_options, in this header */

/* An all-gather that the caller has already: `bytes` of each rank, at recv in the order of ranks.
 * 0: done; else it has failed, and so has the group. */
typedef int (*tc_dist_side_fn)(void *arg, const void *send, void *recv, size_t bytes);

/* How to form a group; fill with tc_dist_options_default(), then change. */
typedef struct tc_dist_options {
    uint32_t abi_version;       /* TC_DIST_OPTIONS_ABI_VERSION; checked */
    int backend;                /* tc_dist_backend_t [TC_DIST_ANY] */
    int world_size;             /* [1] */
    int rank;                   /* [0] */
    const char *rendezvous_url; /* as for tc_dist_init() */
    int timeout_ms;             /* to form the group; 0: of the context; -1: none */
    int listen_fd;          /* rank 0: a listening socket for the URL, taken over; -1: make one */
    const char *listen_url; /* other ranks: "tcp://host:port" to listen at, exactly; rank 0 listens
                             * at the rendezvous.  NULL: a free port of the address by which this
                             * rank reached rank 0 */
    const char *identity;   /* what this rank is called, whatever its number: tc_dist_identity();
                             * NULL: nothing.  All ranks have one, each its own, or none has */
    const char *advertise;  /* other ranks: the host by which this one is reached, of this host or
                             * of something in front of it that leads here, to the same port.  NULL:
                             * TCDIST_ADVERTISE, a host or one a rank ("10.0.0.1,10.0.0.2"); else
                             * the address by which this rank reached rank 0 */
    const char *interfaces; /* those that this rank may be reached by: "eth0,^docker*,^lo", where *
                             * fits any characters and ^ leaves out.  NULL: TCDIST_INTERFACE; else
                             * all */
    const char *rdma_devices; /* which RDMA devices lead from each rank to each other: a matrix, or
                               * the path of its file, as MLX's JACCL has it (docs/rdma.md):
                               * "[[null, "rdma_en5"], ["rdma_en3", null]]".  NULL: the one that
                               * tc_config.rdma chooses leads to all */
    int rdma_ring;            /* 1: where the matrix is a mesh and a ring, it is a ring [0] */
    tc_dist_side_fn side_allgather; /* on all ranks or none: instead of rendezvous_url, which is
                                     * NULL then, this tells all where rank 0 is.  Called once, on
                                     * a thread of the library; it may block, and the group fails
                                     * at its timeout all the same.  It and side_arg must be good
                                     * until it has returned [NULL] */
    void *side_arg;
} tc_dist_options;

/* options = the defaults in brackets above; NULL is fine.  Any thread. */
TC_API void tc_dist_options_default(tc_dist_options *options);

/* Form a group of world_size ranks and wait until it stands.
 *
 * rendezvous_url: "single://", "tcp://host:port", "rdma://host:port", which is the same and asks
 * for RDMA between ranks, also over software devices, "gloo+tcp://host:port", or
 * "tb5://host/cluster", where ranks of that cluster find each other at one of a few ports.  The
 * host is an IPv4 address, a bracketed IPv6 address with an optional scope ("[fe80::1%25eth0]",
 * "[::1]"), or a name.  Rank 0 binds exactly that address, and another rank the address of its own
 * from which it reached rank 0.  A name may stand for several addresses of rank 0's host, or there
 * for loopback (127.0.1.1): such a rank 0, and ranks beside it that reached it by loopback, bind
 * all addresses, so that ranks of other hosts can come.  With world_size 1 the URL may be NULL and
 * no socket is
 * opened.
 *
 * Or descriptors of connected stream sockets (socket pairs, say, that ranks have inherited), which
 * then belong to the library, whatever comes but TC_ERR_INVALID_ARG; nothing is listened to:
 * "fd://5,-,6,7" has one for each rank and "-" in this one's place; "fd://3,4" has those to the
 * ranks before and after this one (of two ranks, one will do).  With four ranks and more such a
 * ring carries what goes along it: all-reduce, broadcast, all-gather, barrier, send and receive
 * between neighbours, reduce-scatter with fast numerics; else TC_ERR_UNSUPPORTED.  A key of
 * the context is proven over them, as over any connection.
 *
 * Or a place where rank 0 leaves word of its addresses, of all interfaces, and the others look for
 * it: "file:///path/of/a/file" that all hosts see; "redis://host:6379/key", "etcd://host:2379/key";
 * "pmi://", "pmix://" of the launcher; a path or key of its own for each job.  What an earlier job
 * has left there does no harm.  Or "env://": where the environment says, tc_dist_init_env().
 *
 * Errors: TC_ERR_INVALID_ARG, TC_ERR_UNSUPPORTED_FAMILY, TC_ERR_TIMEOUT (names the ranks that
 * did not come), TC_ERR_AUTH (a key that is not that of the others, where keys are given, names the
 * rank), TC_ERR_RENDEZVOUS, TC_ERR_TRANSPORT.  Not from a continuation. */
TC_API tc_status_t tc_dist_init(tc_context *context, tc_dist_backend_t backend, int world_size,
                                int rank, const char *rendezvous_url, tc_dist_ctx **out);

/* The same among ranks that prove who they are, each by a key of its own; docs/security.md.
 *
 * rank_identities has rank_identity_count entries, one a rank; that of `rank` is
 * auth->local_identity.  They and the keys are copied, and the copy wiped when the group is gone.
 * A key of the context is not looked at; its `encryption` is.  Errors besides: TC_ERR_AUTH, which
 * names the rank whose proof or identity is not what it should be.  Any thread; not from a
 * continuation. */
TC_API tc_status_t tc_dist_init_authenticated(tc_context *context, tc_dist_backend_t backend,
                                              int world_size, int rank, const char *rendezvous_url,
                                              const char *const *rank_identities,
                                              size_t rank_identity_count,
                                              const tc_transport_auth_config *auth,
                                              tc_dist_ctx **out);

/* As tc_dist_init() without waiting: *out is set when the future has settled TC_OK, and must stay
 * writable until then.  options are copied.  Any thread. */
TC_API tc_future *tc_dist_init_async(tc_context *context, const tc_dist_options *options,
                                     tc_dist_ctx **out);

/* Form the group that the launcher describes in the environment: tcrun, mlx.launch, torchrun,
 * mpirun of Open MPI, a process manager with PMI (mpiexec.hydra), one with PMIx (prun), srun of
 * Slurm, asked for in this order; docs/launchers.md has their variables.  Without any a group of
 * this process alone.
 *
 * TCDIST_RENDEZVOUS, an URL as above, counts before the launcher's own place, and TCDIST_BACKEND
 * says what is to carry the group: tc_dist_available().  What was chosen, by which variables, is
 * said in the log at level info.  A second call gives the same group, which then has one owner
 * more.  Errors: as tc_dist_init(); TC_ERR_INVALID_ARG names a variable that is missing or wrong;
 * TC_ERR_UNSUPPORTED: what the launcher offers cannot be used here.  Not from a continuation. */
TC_API tc_status_t tc_dist_init_env(tc_context *context, tc_dist_ctx **out);

/* What the environment says of this process's job. */
typedef struct tc_dist_env {
    int rank, world_size;       /* 0 and 1 without a launcher */
    int local_rank, local_size; /* among the ranks of this host; -1: not said */
    char launcher[16];          /* "tcdist", "mlx", "torchrun", "openmpi", "pmi", "pmix", … */
    char variables[256];        /* that were read, with commas between them */
    char others[256];           /* launchers whose variables are there too, and not used; "" */
    char rendezvous[512];       /* the URL where the ranks meet; "" for a group of one */
    char backend[16];           /* of TCDIST_BACKEND, or the launcher's */
} tc_dist_env;

/* Read the environment as tc_dist_init_env() does, and form nothing.  TC_OK, or its errors of
 * variables that are missing or wrong; *out is written on success alone.  A process manager that
 * gives ranks by PMI_PORT is asked, which takes as long as it takes to answer.  Any thread. */
TC_API tc_status_t tc_dist_env_read(tc_dist_env *out);

/* Whether groups can be carried by a backend here: "any", "ring", "tcp", "shm", "rdma", "jaccl" (by
 * RDMA, too), "gloo", "single"; NULL is any.  TC_OK; TC_ERR_UNSUPPORTED, and tc_last_error() says
 * what is missing; TC_ERR_INVALID_ARG for another name, and the error lists these.  Any thread. */
TC_API tc_status_t tc_dist_available(const char *backend);

/* Split a group: the ranks that give the same color form a group of their own, in which they are
 * numbered by their keys, and by their ranks in `group` where these are equal.
 *
 * Every rank of `group` takes part, in the same order of such calls where there are several.
 * With color < 0 a rank takes part and gets *out = NULL.  The new group shares the connections of
 * `group` and opens none that `group` would not; it has tags, ordered calls, errors and an end of
 * its own, and may be split in turn.  Ranks in its errors and tc_dist_health() are its own numbers.
 * Groups that share connections are used, finalized and closed one by one, from any thread: a
 * connection stays until the last group over it has been left on both sides.  tc_dist_finalize()
 * waits for the others: calls for several groups come in the same order on every rank, those of
 * tc_dist_finalize_async() in any.  The loss of a rank breaks the groups that it belongs to, and no
 * others.  Settings (segment size, numerics, algorithm) are those of `group`.
 * Errors: TC_ERR_INVALID_ARG, TC_ERR_ALLOC, TC_ERR_UNSUPPORTED where the group was given links
 * between neighbours alone, and those of the operations of `group`: TC_ERR_TIMEOUT names a rank
 * that did not take part.  Not from a continuation. */
TC_API tc_status_t tc_dist_split(tc_dist_ctx *group, int color, int key, tc_dist_ctx **out);

/* The same without waiting: *out is set when the future has settled TC_OK, and must stay writable
 * until then.  Cancelling it cancels the call on every rank that has not finished it.  Any thread,
 * also inside a continuation. */
TC_API tc_future *tc_dist_split_async(tc_dist_ctx *group, int color, int key, tc_dist_ctx **out);

/* Form the group of those that are left of one: after a loss its survivors, else all.
 *
 * Every rank that is to go on calls it; they agree on who they are, also when more of them end
 * meanwhile.  The new group has their ranks in order, without gaps, over the links that there are,
 * and settings as `group` has; a message of `group` that is still on its way reaches nobody in it.
 * `group` stays as it is, broken or whole: close or finalize it before that or later.  The new one
 * may be shrunk in turn, and so may a sub-group.
 *
 * A rank that ends, or leaves `group`, is not waited for.  One that does not come is left out when
 * the timeout of the lowest rank that has come is over, and gets TC_ERR_PEER_LOST with its own rank
 * if it still comes; so does the higher of two ranks whose link is gone, and a rank that has come
 * back to find that the others went on without it.  Where the network has fallen apart there may be
 * a group on each side: compare world sizes where only the larger one may go on.
 * A rank that ends just when all is decided may be a member of the new group, which then is broken
 * from the beginning, for all: shrink that one.
 *
 * Errors: TC_ERR_INVALID_ARG, TC_ERR_ALLOC, TC_ERR_BUSY (another call of it runs for `group`),
 * TC_ERR_CLOSED, TC_ERR_PEER_LOST (this rank is left out), TC_ERR_TIMEOUT (not agreed within twice
 * the context's timeout and a second), TC_ERR_UNSUPPORTED as for tc_dist_split().  Not from a
 * continuation. */
TC_API tc_status_t tc_dist_shrink(tc_dist_ctx *group, tc_dist_ctx **out);

/* The same without waiting: *out is set when the future has settled TC_OK, and must stay writable
 * until then.  Any thread, also inside a continuation. */
TC_API tc_future *tc_dist_shrink_async(tc_dist_ctx *group, tc_dist_ctx **out);

/* Leave a group in order: waits until every rank has come here and everything begun is done,
 * then frees the group; of several groups in the same order on every rank.  After a failure it
 * frees it at once and gives the group's first error: call it then too, before the program ends.
 * It waits no longer than the context's timeout for the others, and as long for own operations
 * that have no deadline: the end then is TC_ERR_TIMEOUT, and the group is freed all the same.
 * TC_ERR_MISMATCH: it has left in order, but see tc_dist_health().  NULL is fine.  Not from a
 * continuation. */
TC_API tc_status_t tc_dist_finalize(tc_dist_ctx *group);

/* The same without waiting, for several ranks on one thread: the handle is dead from the call on,
 * unless the future fails with TC_ERR_ALLOC; the future settles when the group is freed, and can't
 * be cancelled.  A shutdown of the context meanwhile ends it with TC_ERR_CLOSED.  Any thread, also
 * inside a continuation. */
TC_API tc_future *tc_dist_finalize_async(tc_dist_ctx *group);

/* Leave a group at once: pending operations fail with TC_ERR_CLOSED here, and with
 * TC_ERR_PEER_LOST, naming this rank, elsewhere.  The group is freed when its last operation has
 * settled; the handle is dead when this returns, which it does within a second, whatever the peers
 * and the loop do: what a continuation keeps from being done is done when that returns.  NULL is
 * fine. */
TC_API tc_status_t tc_dist_close(tc_dist_ctx *group);

/* Check every connection without sending anything: a process that has ended shows at once, also
 * where nothing is going on, and where nobody turns the loop.  (Where a connection has just broken,
 * that takes a moment, up to 0.3 s, in which it shows whether its peer lives; where user code holds
 * the loop for half a second, what is known must do.)
 *
 * TC_OK, or the first error of the group; *lost_rank (may be NULL) is then the rank at fault,
 * else -1.  TC_ERR_MISMATCH: a call that ended here with TC_OK, since this rank only had to send,
 * differed from another rank's; the group is as good as before.  Any thread, also inside a
 * continuation. */
TC_API tc_status_t tc_dist_health(tc_dist_ctx *group, int *lost_rank);

/* Number of ranks; 0 for NULL.  Any thread. */
TC_API int tc_dist_world_size(const tc_dist_ctx *group);

/* This process's place among the ranks, from 0; -1 for NULL.  Any thread. */
TC_API int tc_dist_rank(const tc_dist_ctx *group);

/* What a rank was called by tc_dist_options.identity when the first group was formed: 1 to 127
 * printable ASCII characters.  Sub-groups, and what survivors form, keep it, so that who is who can
 * be told when numbers have changed.  "" where no identities were given; NULL for a rank that is
 * not in the group.  Lives as long as the group.  Any thread. */
TC_API const char *tc_dist_identity(const tc_dist_ctx *group, int rank);

TC_END_DECLS

#endif
