/* mesh.h - groups of peers that each listen at an URL of their own, with blocking calls. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCDIST_MESH_H
#define TCDIST_MESH_H

#include <stddef.h>
#include <stdint.h>

#include "tcdist/auth.h"
#include "tcdist/context.h"
#include "tcdist/dtype.h"
#include "tcdist/status.h"

TC_BEGIN_DECLS

/* Names, order of arguments and meaning are tensorcore's: docs/tensorcore.md.
 *
 * - Every call blocks until its result is there or the operation has failed, as tc_allreduce()
 *   and its kin do; tc_last_error() explains.  Not from a continuation.  Any thread.
 * - An ordered call takes the group's next number, so such calls come in the same sequence on
 *   every rank; those of one group run one at a time.
 * - A tagged call names its collective by `id`, the same on all ranks; threads enter them in any
 *   order, and they run at the same time.  An id stays reserved until
 *   tc_mesh_collective_release_tag(): a call with a reserved id gives TC_ERR_BUSY at once.  The one
 *   id that is none is TC_TAG_ORDERED (tcdist/collective.h).
 * - Errors besides: those of the asynchronous forms in tcdist/collective.h. */

/* A group of peers, as one of them sees it. */
typedef struct tc_mesh_group tc_mesh_group_t;

/* Element types of the mesh calls; each stands for the tc_dtype_t of its name. */
typedef enum tc_coll_dtype {
    TC_COLL_DTYPE_F32 = 0,
    TC_COLL_DTYPE_F16 = 1,
    TC_COLL_DTYPE_BF16 = 2,
    TC_COLL_DTYPE_F64 = 3,
    TC_COLL_DTYPE_I8 = 4,
    TC_COLL_DTYPE_U8 = 5,
    TC_COLL_DTYPE_I16 = 6,
    TC_COLL_DTYPE_U16 = 7,
    TC_COLL_DTYPE_I32 = 8,
    TC_COLL_DTYPE_U32 = 9,
    TC_COLL_DTYPE_I64 = 10,
    TC_COLL_DTYPE_U64 = 11,
    TC_COLL_DTYPE_F8E4M3 = 12,
    TC_COLL_DTYPE_F8E5M2 = 13,
    TC_COLL_DTYPE_BOOL = 14,
    TC_COLL_DTYPE_C64 = 15
} tc_coll_dtype_t;

/* Form a group of n_peers, of which this is my_rank, and wait until it stands.
 *
 * peer_urls has n_peers entries, "tcp://host:port" with an IPv4 address, a bracketed IPv6 address
 * or a name; they are copied.  Peer r listens at peer_urls[r], exactly there; the peers meet at
 * peer_urls[0], in any order of arrival.  With one peer no socket is opened.
 * TC_MESH_ALLREDUCE_ALGORITHM, one of centralized, all_to_all, auto [auto], is read here; all
 * ranks give the same.  Errors: TC_ERR_INVALID_ARG, TC_ERR_TIMEOUT (names the ranks that did not
 * come, after the context's timeout), TC_ERR_RENDEZVOUS, TC_ERR_TRANSPORT, TC_ERR_ALLOC. */
TC_API tc_status_t tc_mesh_group_init(tc_context *context, int32_t n_peers, int32_t my_rank,
                                      const char *const *peer_urls, tc_mesh_group_t **out);

/* The same among peers that prove who they are, each by a key of its own; docs/security.md.
 *
 * peer_identities has n_peers entries; that of my_rank is auth->local_identity.  They and the keys
 * are copied, and the copy wiped when the group is gone.  A key of the context is not looked at;
 * its `encryption` is.  Errors besides: TC_ERR_AUTH, which names the rank whose proof or identity
 * is not what it should be. */
TC_API tc_status_t tc_mesh_group_init_authenticated(tc_context *context, int32_t n_peers,
                                                    int32_t my_rank, const char *const *peer_urls,
                                                    const char *const *peer_identities,
                                                    const tc_transport_auth_config *auth,
                                                    tc_mesh_group_t **out);

/* Leave in order, as tc_dist_finalize(): waits until every rank has come here, then frees the
 * group.  No call of the group may be running.  NULL is fine. */
TC_API tc_status_t tc_mesh_group_shutdown(tc_mesh_group_t *group);

/* buf = buf[0] op buf[1] op … op buf[n-1] on every rank; `count` elements. */
TC_API tc_status_t tc_mesh_allreduce(tc_mesh_group_t *group, void *buf, size_t count,
                                     tc_coll_dtype_t dtype, tc_reduce_op_t op);

/* buf = buf[root] on every rank; `count` elements. */
TC_API tc_status_t tc_mesh_broadcast(tc_mesh_group_t *group, void *buf, size_t count,
                                     tc_coll_dtype_t dtype, int32_t root);

/* recv = send[0], send[1], …, send[n-1] one after the other; recv holds n * send_count elements.
 * In place: send == recv + my_rank * send_count elements. */
TC_API tc_status_t tc_mesh_allgather(tc_mesh_group_t *group, const void *send, size_t send_count,
                                     void *recv, tc_coll_dtype_t dtype);

/* tc_mesh_allreduce() under an id. */
TC_API tc_status_t tc_mesh_allreduce_tagged(tc_mesh_group_t *group, uint64_t id, void *buf,
                                            size_t count, tc_coll_dtype_t dtype, tc_reduce_op_t op);

/* tc_mesh_broadcast() under an id. */
TC_API tc_status_t tc_mesh_broadcast_tagged(tc_mesh_group_t *group, uint64_t id, void *buf,
                                            size_t count, tc_coll_dtype_t dtype, int32_t root);

/* tc_mesh_allgather() under an id. */
TC_API tc_status_t tc_mesh_allgather_tagged(tc_mesh_group_t *group, uint64_t id, const void *send,
                                            size_t send_count, void *recv, tc_coll_dtype_t dtype);

/* Release an id whose collective has ended here, well or not; it may then be used again, at once:
 * who is ahead of the others waits for them.  TC_ERR_INVALID_ARG for one that is not reserved,
 * TC_ERR_BUSY while its collective runs. */
TC_API tc_status_t tc_mesh_collective_release_tag(tc_mesh_group_t *group, uint64_t id);

/* Collectives of this rank that the group still keeps something of: those under way, and ids not
 * released.  Nothing is kept of an ordered call that has returned, so that without tagged calls it
 * is at most 2, however many rounds.  0 for NULL. */
TC_API size_t tc_mesh_retained_snapshot_count(const tc_mesh_group_t *group);

/* Bytes this rank has sent to and received from its peers so far, payload and headers.  0 for
 * NULL. */
TC_API uint64_t tc_mesh_total_bytes(const tc_mesh_group_t *group);

/* How all-reduces are carried out: "centralized", through rank 0, or "all_to_all", directly
 * between all pairs.  auto is centralized for one and two ranks.  A static string; "" for NULL. */
TC_API const char *tc_mesh_allreduce_algorithm(const tc_mesh_group_t *group);

TC_END_DECLS

#endif
