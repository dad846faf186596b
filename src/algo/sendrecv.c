/* sendrecv.c - the public send and receive: one rank to another, matched by tag. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "algo/algo.h"
#include "algo/coll.h"
#include "core/base.h"

/* The tag of a pair of ranks: up goes from the lower rank to the higher, or to itself. */
static uint32_t space_of(int from, int to, bool is_ordered)
{
    bool is_up = from <= to;

    if (is_ordered)
        return is_up ? TCI_SPACE_P2P_ORDERED_UP : TCI_SPACE_P2P_ORDERED_DOWN;
    return is_up ? TCI_SPACE_P2P_UP : TCI_SPACE_P2P_DOWN;
}

static void fill(struct tci_comm *comm, const struct tci_request *request, int peer, bool is_send,
                 struct tci_op_args *args)
{
    bool is_ordered = request->tag == TC_TAG_ORDERED;

    *args = (struct tci_op_args){
        .name = request->name,
        .plan = is_send ? &tci_p2p_send : &tci_p2p_recv,
        .shape = {.rank = (uint32_t)comm->rank,
                  .size = (uint32_t)comm->size,
                  .root = (uint32_t)peer,
                  .in_place = true},
        /* The same at both ends. */
        .call = {.count = request->count,
                 .root = -1,
                 .coll = TCI_COLL_P2P,
                 .dtype = (uint8_t)request->dtype,
                 .op = 255},
        .send = request->send,
        .recv = request->recv,
        .count = request->count,
        .elem_bytes = tc_dtype_size(request->dtype),
        .tag = request->tag,
        .space = is_send ? space_of(comm->rank, peer, is_ordered)
                         : space_of(peer, comm->rank, is_ordered),
        .peer = peer,
        .is_canonical = true,
        .is_from_self = !is_send && peer == comm->rank,
    };
    if (comm->check == TC_CHECK_FULL && peer != comm->rank)
        args->check = is_send ? &tci_p2p_answered : &tci_p2p_answer;
    args->lane_elems = tci_max(1, comm->segment_bytes / args->elem_bytes);
    tci_apply_options(comm, request->options, args);
    args->auto_release = true; /* the tag of a pair has no other release */
}

static tc_future *start(tc_dist_ctx *group, const struct tci_request *request, int peer,
                        bool is_send)
{
    struct tci_comm *comm = tci_comm_of(group);
    struct tci_error error = {0};
    struct tci_op_args args;

    if (group == NULL) {
        tci_error_set(&error, TC_ERR_INVALID_ARG, -1, 0, request->name, "%s: the group is NULL",
                      request->name);
        return tci_future_failed(NULL, &error);
    }
    if (tci_context_is_foreign(comm->context))
        return tci_refuse_arg(group, request->name, "of another process");
    if (!tci_check_options(request->options, comm->context, &error, request->name) ||
        !tci_check_payload(request, 1, &error))
        return tci_refuse(comm, &error);
    if (peer < 0 || peer >= comm->size) {
        tci_error_set(&error, TC_ERR_INVALID_ARG, -1, request->tag, request->name,
                      "%s: peer %d is not in 0 … %d", request->name, peer, comm->size - 1);
        return tci_refuse(comm, &error);
    }
    if (comm->is_ring && peer != comm->rank && (peer + 1) % comm->size != comm->rank &&
        (comm->rank + 1) % comm->size != peer) {
        tci_error_set(
            &error, TC_ERR_UNSUPPORTED, -1, request->tag, request->name,
            "%s: this group was given links between neighbours alone, and rank %d is none "
            "of rank %d",
            request->name, peer, comm->rank);
        return tci_refuse(comm, &error);
    }
    fill(comm, request, peer, is_send, &args);
    if (request->tag == TC_TAG_ORDERED && !tci_comm_number_p2p(comm, peer, is_send, &args.tag)) {
        tci_error_set(&error, TC_ERR_ALLOC, comm->rank, request->tag, request->name,
                      "%s: no memory for the numbers of ordered calls", request->name);
        return tci_refuse(comm, &error);
    }
    return tci_op_start(comm, &args);
}

tc_future *tc_send_async(tc_dist_ctx *group, uint64_t tag, const void *buf, size_t count,
                         tc_dtype_t dtype, int peer, const tc_options *options)
{
    return start(group,
                 &(struct tci_request){.name = "send",
                                       .tag = tag,
                                       .send = buf,
                                       .recv = (void *)buf, /* not written: the plan only sends */
                                       .count = count,
                                       .is_typed = true,
                                       .dtype = dtype,
                                       .op = -1,
                                       .options = options},
                 peer, true);
}

tc_future *tc_recv_async(tc_dist_ctx *group, uint64_t tag, void *buf, size_t count,
                         tc_dtype_t dtype, int peer, const tc_options *options)
{
    return start(group,
                 &(struct tci_request){.name = "recv",
                                       .tag = tag,
                                       .send = buf,
                                       .recv = buf,
                                       .count = count,
                                       .is_typed = true,
                                       .dtype = dtype,
                                       .op = -1,
                                       .options = options},
                 peer, false);
}
