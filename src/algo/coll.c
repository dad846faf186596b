/* coll.c - what every collective passes on its way in: checks, a plan, the start. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "algo/coll.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "algo/algo.h"
#include "algo/select.h"
#include "core/base.h"

void tc_options_default(tc_options *options)
{
    if (options == NULL)
        return;
    memset(options, 0, sizeof(*options));
    options->abi_version = TC_OPTIONS_ABI_VERSION;
    options->auto_release = true;
}

tc_future *tci_refuse(const struct tci_comm *comm, const struct tci_error *error)
{
    return tci_future_failed(comm->context, error);
}

/* ---- checks ------------------------------------------------------------------------------- */

bool tci_bad_arg(struct tci_error *error, const char *name, const char *fmt, ...)
{
    char text[256];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    tci_error_set(error, TC_ERR_INVALID_ARG, -1, 0, name, "%s: %s", name, text);
    return false;
}

tc_future *tci_refuse_arg(const tc_dist_ctx *group, const char *name, const char *fmt, ...)
{
    struct tci_error error = {0};
    char text[256];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    tci_bad_arg(&error, name, "%s", text);
    return tci_future_failed(group == NULL ? NULL : tci_comm_of((tc_dist_ctx *)group)->context,
                             &error);
}

static bool check_after(const tc_options *options, const tc_context *context,
                        struct tci_error *error, const char *name)
{
    if (options->n_after > 0 && options->after == NULL)
        return tci_bad_arg(error, name, "after is NULL, n_after %zu", options->n_after);
    for (size_t i = 0; i < options->n_after; i++) {
        if (options->after[i] == NULL)
            return tci_bad_arg(error, name, "after[%zu] is NULL", i);
        if (tci_future_context(options->after[i]) != context)
            return tci_bad_arg(error, name, "after[%zu] belongs to another context", i);
    }
    return true;
}

bool tci_check_options(const tc_options *options, const tc_context *context,
                       struct tci_error *error, const char *name)
{
    if (options == NULL)
        return true;
    if (options->abi_version != TC_OPTIONS_ABI_VERSION) {
        tci_error_set(error, TC_ERR_ABI_MISMATCH, -1, 0, name,
                      "%s: options of version %u, the library has %d: fill them with "
                      "tc_options_default",
                      name, options->abi_version, TC_OPTIONS_ABI_VERSION);
        return false;
    }
    if (options->priority < -128 || options->priority > 127)
        return tci_bad_arg(error, name, "priority %d is not in -128 … 127", options->priority);
    if (options->timeout_ms < -1)
        return tci_bad_arg(error, name, "timeout_ms %d is negative", options->timeout_ms);
    if (options->numerics < TC_NUMERICS_DEFAULT || options->numerics > TC_NUMERICS_EXACT)
        return tci_bad_arg(error, name,
                           "numerics %d is no tc_numerics_t: canonical is 1, fast 2, exact 3",
                           options->numerics);
    return check_after(options, context, error, name);
}

static bool check_dtype(const struct tci_request *request, struct tci_error *error)
{
    tc_status_t status = TC_OK;

    if (request->op >= 0)
        status = tc_reduce_supported(request->dtype, (tc_reduce_op_t)request->op);
    else if (tc_dtype_size(request->dtype) == 0)
        status = TC_ERR_UNSUPPORTED_DTYPE;
    if (status == TC_OK)
        return true;
    if (status == TC_ERR_UNSUPPORTED_DTYPE)
        tci_error_set(error, status, -1, request->tag, request->name,
                      "%s: element type %d is not carried", request->name, (int)request->dtype);
    else
        tci_error_set(error, status, -1, request->tag, request->name,
                      "%s: operator %s (%d) is not defined for %s", request->name,
                      tc_reduce_op_name((tc_reduce_op_t)request->op), request->op,
                      tc_dtype_name(request->dtype));
    return false;
}

bool tci_check_payload(const struct tci_request *request, size_t blocks, struct tci_error *error)
{
    bool lacks_send, lacks_recv;
    size_t bytes;

    if (!check_dtype(request, error))
        return false;
    if (!tci_array_bytes(request->count, tc_dtype_size(request->dtype), &bytes) ||
        !tci_array_bytes(bytes, blocks, &bytes) || bytes > TCI_MEMORY_MAX)
        return tci_bad_arg(error, request->name, "count %zu is more than memory can hold",
                           request->count);
    lacks_send = request->send == NULL && !request->lacks_send;
    lacks_recv = request->recv == NULL && !request->lacks_recv;
    if (request->count > 0 && (lacks_send || lacks_recv))
        return tci_bad_arg(error, request->name, "%s NULL, the count is %zu",
                           lacks_send && lacks_recv ? "the buffer is"
                           : lacks_send             ? "send is"
                                                    : "recv is",
                           request->count);
    return true;
}

/* The end of every block has to lie in memory. */
static bool check_blocks(const struct tci_request *request, const size_t *counts,
                         const size_t *offsets, size_t n, struct tci_error *error)
{
    size_t size = tc_dtype_size(request->dtype);

    for (size_t r = 0; r < n; r++)
        if (counts[r] > TCI_MEMORY_MAX / size || offsets[r] > TCI_MEMORY_MAX / size - counts[r])
            return tci_bad_arg(error, request->name,
                               "block %zu: %zu elements from %zu on are more than "
                               "memory can hold",
                               r, counts[r], offsets[r]);
    return true;
}

/* ---- start -------------------------------------------------------------------------------- */

void tci_apply_options(const struct tci_comm *comm, const tc_options *options,
                       struct tci_op_args *args)
{
    tc_options defaults;

    tc_options_default(&defaults);
    if (options == NULL)
        options = &defaults;
    args->priority = options->priority;
    args->timeout_ms =
        options->timeout_ms != 0 ? options->timeout_ms : comm->context->config.timeout_ms;
    args->after = options->after;
    args->n_after = options->n_after;
    args->auto_release = options->auto_release;
    args->plan_name = tci_plan_name;
}

/* Where all ranks give the same counts they compare a hash of them, in the place of a root. */
static int32_t mark_of(const struct tci_comm *comm, const struct tci_request *request)
{
    uint32_t hash = 2166136261u;

    if (request->coll != TCI_COLL_ALLGATHERV && request->coll != TCI_COLL_REDUCE_SCATTERV)
        return request->root;
    for (int r = 0; r < comm->size; r++)
        for (size_t left = request->blocks.src_counts[r], i = 0; i < sizeof(left); i++, left >>= 8)
            hash = (hash ^ (left & 255)) * 16777619u;
    return -2 - (int32_t)(hash & 0x3fffffff);
}

static void fill(const struct tci_comm *comm, const struct tci_request *request,
                 struct tci_op_args *args)
{
    *args = (struct tci_op_args){
        .name = request->name,
        .shape = {.rank = (uint32_t)comm->rank,
                  .size = (uint32_t)comm->size,
                  .root = request->root < 0 ? 0 : (uint32_t)request->root,
                  .hosts = comm->hosts,
                  .in_place = request->in_place},
        .call = {.count = request->blocks.src_counts != NULL ? request->total : request->count,
                 .root = mark_of(comm, request),
                 .coll = (uint8_t)request->coll,
                 .dtype = request->is_typed ? (uint8_t)request->dtype : 255,
                 .op = request->op < 0 ? 255 : (uint8_t)request->op},
        .send = request->send,
        .recv = request->recv,
        .count = request->count,
        .blocks = request->blocks,
        .elem_bytes = request->is_typed ? tc_dtype_size(request->dtype) : 0,
        .tag = request->tag,
        .space = TCI_SPACE_TAGGED,
        .peer = TCI_ALL_PEERS,
    };
    tci_apply_options(comm, request->options, args);
}

static bool check_request(const struct tci_comm *comm, const struct tci_request *request,
                          struct tci_error *error)
{
    const struct tci_blocks *blocks = &request->blocks;
    size_t n = blocks->src_counts == NULL ? (size_t)comm->size : 1;

    if (request->is_rooted && (request->root < 0 || request->root >= comm->size))
        return tci_bad_arg(error, request->name, "root %d is not in 0 … %d", request->root,
                           comm->size - 1);
    if (!tci_check_payload(request, n, error))
        return false;
    if (blocks->src_counts == NULL)
        return true;
    n = (size_t)comm->size;
    return check_blocks(request, blocks->src_counts, blocks->src_offsets, n, error) &&
           check_blocks(request, blocks->dst_counts, blocks->dst_offsets, n, error);
}

/* What the caller names, or what the roof advises instead of nothing. */
static const char *name_algorithm(struct tci_comm *comm, const struct tci_op_args *args,
                                  const tc_options *options, struct tci_error *error)
{
    int numerics = options != NULL ? options->numerics : TC_NUMERICS_DEFAULT;
    struct tci_advice advice = {.name = args->name,
                                .tag = args->tag,
                                .call = &args->call,
                                .numerics =
                                    numerics == TC_NUMERICS_DEFAULT ? comm->numerics : numerics,
                                .named = options != NULL ? options->algorithm : NULL};

    return comm->advise == NULL ? advice.named : comm->advise(comm, &advice, error);
}

tc_status_t tci_coll_choose(struct tci_comm *comm, struct tci_op_args *args,
                            const tc_options *options, struct tci_error *error)
{
    enum tci_coll coll = (enum tci_coll)args->call.coll;
    const char *algorithm = name_algorithm(comm, args, options, error);

    if (error->pub.status != TC_OK)
        return error->pub.status;
    if (args->call.op != 255)
        tci_fold_init(&args->fold, (tc_dtype_t)args->call.dtype, (tc_reduce_op_t)args->call.op);
    return tci_select(comm, args, coll, options != NULL ? options->numerics : TC_NUMERICS_DEFAULT,
                      algorithm, error);
}

/* Where a plan brings every rank news of every other one nothing is to be added: only equal calls
 * let it end.  The counts of an all-to-all-v are not in the call; who meets one that differs does
 * so while the plan runs. */
static void add_check(const struct tci_comm *comm, struct tci_op_args *args)
{
    if (comm->check != TC_CHECK_FULL || comm->size == 1)
        return;
    switch (args->call.coll) {
    case TCI_COLL_BROADCAST:
    case TCI_COLL_REDUCE:
    case TCI_COLL_GATHER:
    case TCI_COLL_SCATTER:
    case TCI_COLL_ALLTOALLV:
        args->check = comm->is_ring ? &tci_ring_barrier : &tci_dissemination_barrier;
        args->checks_last = args->call.coll == TCI_COLL_ALLTOALLV;
        break;
    default:
        break;
    }
}

/* ---- a call like the one before ------------------------------------------------------------ */

/* Whether all that is checked and chosen follows from what is_same compares. */
static bool is_plain(const struct tci_comm *comm, const struct tci_request *request)
{
    bool has_send = request->send != NULL || request->lacks_send;
    bool has_recv = request->recv != NULL || request->lacks_recv;

    return request->options == NULL && request->is_typed && has_send && has_recv &&
           request->blocks.src_counts == NULL && comm->advise == NULL &&
           comm->numerics != TC_NUMERICS_FAST;
}

static bool is_same(const struct tci_request *request, const struct tci_op_args *args)
{
    return args->name == request->name && args->call.coll == request->coll &&
           args->call.count == request->count && args->call.dtype == (int)request->dtype &&
           args->call.op == (request->op < 0 ? 255 : request->op) &&
           args->call.root == request->root && args->shape.in_place == request->in_place;
}

/* Whether what was chosen for a call is the choice for this one, too.  Ordered calls have their
 * plan from their number, whatever it was before; all others have that of the group. */
static bool is_as_chosen(const struct tci_comm *comm, const struct tci_request *request,
                         const struct tci_op_args *args)
{
    return args->version == atomic_load(&comm->tuning.version) &&
           (!args->is_of_number || request->tag == TC_TAG_ORDERED);
}

/* The operation of the last call, if this one is like it, with what differs filled in; NULL: it is
 * another one, or under way. */
static struct tci_op *recall(struct tci_comm *comm, const struct tci_request *request)
{
    struct tci_op *op;

    if (!is_plain(comm, request) || atomic_load(&comm->tuning.is_changing))
        return NULL;
    op = tci_op_take_recent(comm);
    if (op == NULL)
        return NULL;
    if (!is_as_chosen(comm, request, &op->args) || !is_same(request, &op->args)) {
        tci_op_drop_recent(comm, op);
        return NULL;
    }
    op->args.send = request->send;
    op->args.recv = request->recv;
    op->args.tag = request->tag;
    op->args.space = TCI_SPACE_TAGGED;
    return op;
}

/* Check and choose; NULL, or a future that says what is wrong. */
static tc_future *prepare(struct tci_comm *comm, const struct tci_request *request,
                          struct tci_op_args *args)
{
    unsigned version = atomic_load(&comm->tuning.version);
    struct tci_error error = {0};

    if (!tci_check_options(request->options, comm->context, &error, request->name) ||
        (request->is_typed && !check_request(comm, request, &error)))
        return tci_refuse(comm, &error);
    fill(comm, request, args);
    if (tci_coll_choose(comm, args, request->options, &error) != TC_OK)
        return tci_refuse(comm, &error);
    args->is_plain = is_plain(comm, request) && args->stages == NULL;
    args->version = version;
    return NULL;
}

tc_future *tci_coll_start(tc_dist_ctx *group, const struct tci_request *request)
{
    struct tci_comm *comm = tci_comm_of(group);
    struct tci_op_args fresh, *args = &fresh;
    struct tci_op *op;
    tc_future *refused;

    if (group == NULL)
        return tci_refuse_arg(NULL, request->name, "the group is NULL");
    if (tci_context_is_foreign(comm->context))
        return tci_refuse_arg(group, request->name, "of another process");
    op = recall(comm, request);
    if (op != NULL) {
        args = &op->args;
    } else {
        refused = prepare(comm, request, &fresh);
        if (refused != NULL)
            return refused;
        add_check(comm, &fresh);
    }
    if (args->tag == TC_TAG_ORDERED) {
        args->space = TCI_SPACE_ORDERED;
        args->tag = atomic_fetch_add_explicit(&comm->ordered_next, 1, memory_order_relaxed);
        args->auto_release = true;
    }
    if (comm->on_start != NULL)
        comm->on_start(comm, &args->call, args->plan->name);
    return op != NULL ? tci_op_start_again(op) : tci_op_start(comm, &fresh);
}

tc_status_t tc_tag_release(tc_dist_ctx *group, uint64_t tag)
{
    struct tci_tag_name name = {.tag = tag, .peer = TCI_ALL_PEERS, .space = TCI_SPACE_TAGGED};
    tc_status_t status;

    if (group == NULL)
        return tci_fail(TC_ERR_INVALID_ARG, "tag_release", "tag_release: the group is NULL");
    if (tci_context_is_foreign(tci_comm_of(group)->context))
        return tci_context_refuse(tci_comm_of(group)->context, "tag_release");
    status = tci_tags_release(&tci_comm_of(group)->tags, &name);
    if (status == TC_ERR_BUSY)
        return tci_fail(status, "tag_release",
                        "tag_release: the operation of tag %llu is still running: wait for it",
                        (unsigned long long)tag);
    if (status != TC_OK)
        return tci_fail(status, "tag_release", "tag_release: tag %llu is not reserved",
                        (unsigned long long)tag);
    return TC_OK;
}
