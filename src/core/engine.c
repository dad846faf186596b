/* engine.c - carries any plan out: opens steps as what they wait for ends. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/engine.h"

#include "core/alloc.h"
#include "core/assert.h"
#include "core/base.h"
#include "core/comm.h"
#include "core/reach.h"
#include "core/reduce_wide.h"
#include "core/slice.h"
#include "core/spot.h"
#include "core/trace_op.h"

_Static_assert(TCI_WINDOW == 64, "two words of bits are the window");

static struct tci_step_xfer *get_xfer(struct tci_comm *comm)
{
    struct tci_step_xfer *xfer = comm->xfers_free;

    if (xfer == NULL)
        return tci_alloc(sizeof(*xfer));
    comm->xfers_free = xfer->next_free;
    return xfer;
}

static void put_xfer(struct tci_comm *comm, struct tci_step_xfer *xfer)
{
    xfer->next_free = comm->xfers_free;
    comm->xfers_free = xfer;
}

/* Fill in what a receive that folds needs. */
static void prepare_fold(struct tci_step_xfer *xfer, const struct tci_step *step)
{
    const struct tci_op *op = xfer->lane->op;

    xfer->x.fold = &op->args.fold;
    xfer->x.operand = tci_slice_at(xfer->lane, step->src);
    xfer->x.incoming_first = step->peer < op->args.shape.rank;
    xfer->x.use_many = op->args.plan->canonical; /* two ranks: all there is, in rank order */
    xfer->x.divide = step->last && op->args.call.op == TC_REDUCE_AVG && !op->args.plan->canonical
                         ? op->args.shape.size
                         : 0;
}

/* The transfer of a SEND, RECV or RECV_REDUCE; NULL: no memory. */
static struct tci_step_xfer *make_xfer(struct tci_lane *lane, uint32_t i,
                                       const struct tci_step *step)
{
    struct tci_op *op = lane->op;
    struct tci_step_xfer *xfer = get_xfer(op->comm);
    bool is_send = step->kind == TCI_STEP_SEND;

    if (xfer == NULL)
        return NULL;
    xfer->lane = lane; /* field by field: the whole is four lines of the cache */
    xfer->step = i;
    xfer->x.next = NULL;
    xfer->x.is_late = !is_send && step->dst.buf == TCI_BUF_TMP && lane->tmp == NULL;
    xfer->x.data = xfer->x.is_late ? NULL : tci_slice_at(lane, is_send ? step->src : step->dst);
    xfer->x.len = tci_step_elems(lane, step) *
                  (step->wide ? tci_wide_size(&op->args.fold) : op->args.elem_bytes);
    xfer->x.key = op->key;
    xfer->x.key.lane = lane->index;
    xfer->x.key.step = is_send ? step->match : i;
    xfer->x.call = &op->args.call;
    xfer->x.cq = &op->comm->cq;
    xfer->x.peer = xfer->peer = step->peer;
    xfer->x.priority = (int8_t)op->args.priority;
    xfer->x.is_send = is_send;
    xfer->x.status = TC_PENDING;
    xfer->x.fold = NULL;
    if (step->kind == TCI_STEP_RECV_REDUCE)
        prepare_fold(xfer, step);
    return xfer;
}

/* Hand it to the transport; false without memory.  A SEND that is out when this returns, but for
 * tci_transport_ring(), has ended. */
static bool post(struct tci_lane *lane, uint32_t i, const struct tci_step *step)
{
    struct tci_op *op = lane->op;
    struct tci_comm *comm = op->comm;
    struct tci_step_xfer *xfer = make_xfer(lane, i, step);

    if (xfer == NULL)
        return false;
    op->xfers_live++;
    tci_trace_xfer_post(xfer);
    if (step->kind != TCI_STEP_SEND) {
        comm->transport->ops->post_recv(comm->transport, &xfer->x);
    } else if (tci_transport_put(comm->transport, &xfer->x)) {
        op->xfers_live--;
        lane->ended |= UINT64_C(1) << (i - lane->base);
        if (xfer->x.len >= TCI_TRACE_SLOW_BYTES)
            tci_trace_forget_time(comm);
        tci_trace_xfer_end(xfer, TC_OK);
        put_xfer(comm, xfer);
    }
    return true;
}

static void fail_post(struct tci_op *op)
{
    tci_op_fail_with(op, TC_ERR_ALLOC, op->comm->rank, true,
                     "rank %d has no memory left for a transfer", op->comm->rank);
}

/* Keep what step base + k waits for. */
static void note_waits(struct tci_lane *lane, uint32_t k, const struct tci_step *step)
{
    uint8_t *back = lane->back[(lane->base + k) % TCI_WINDOW];

    back[0] = step->wait[0];
    back[1] = step->wait[1];
    back[2] = step->pace;
    lane->known |= UINT64_C(1) << k;
    if (step->fence)
        lane->fenced |= UINT64_C(1) << k;
}

/* Whether all of that has ended. */
static bool is_ready(const struct tci_lane *lane, uint32_t k)
{
    const uint8_t *back = lane->back[(lane->base + k) % TCI_WINDOW];
    uint64_t before = (UINT64_C(1) << k) - 1;

    if ((lane->fenced >> k & 1) != 0 && (lane->ended & before) != before)
        return false;
    for (size_t w = 0; w < TCI_STEP_WAITS; w++)
        if (back[w] != 0 && back[w] <= k && !(lane->ended >> (k - back[w]) & 1))
            return false;
    return true;
}

/* Begin step base + k; false when that failed the operation. */
static bool open_step(struct tci_lane *lane, uint32_t k, const struct tci_step *step)
{
    uint64_t bit = UINT64_C(1) << k;

    lane->open |= bit;
    switch (step->kind) {
    case TCI_STEP_COPY:
        tci_spot_copy(lane, step);
        lane->ended |= bit;
        return true;
    case TCI_STEP_WIDEN:
    case TCI_STEP_ADD:
    case TCI_STEP_ROUND:
        tci_spot_part(lane, step);
        lane->ended |= bit;
        return true;
    case TCI_STEP_FOLD:
        lane->fold_done = 0;
        lane->fold_step = lane->base + k;
        if (tci_spot_fold(lane, step)) {
            lane->ended |= bit;
        } else {
            lane->is_folding = true;
            tci_list_add(&lane->op->comm->busy, &lane->link_busy);
        }
        return true;
    default:
        if (!post(lane, lane->base + k, step)) {
            fail_post(lane->op);
            return false;
        }
        if ((lane->ended & bit) != 0)
            tci_transport_ring(lane->op->comm->transport);
        return true;
    }
}

/* Open every step that may be; true when a step that needs no transfer ended on the way. */
static bool open_steps(struct tci_lane *lane)
{
    const struct tci_op *op = lane->op;
    uint32_t most = (uint32_t)tci_min(lane->steps - lane->base, op->comm->window);
    uint64_t within = most >= TCI_WINDOW ? ~UINT64_C(0) : (UINT64_C(1) << most) - 1;
    uint64_t ended_before = lane->ended;

    for (uint64_t closed = within & ~lane->open; closed != 0; closed &= closed - 1) {
        uint32_t k = (uint32_t)__builtin_ctzll(closed);
        struct tci_step step = {0};
        if (lane->is_folding)
            break; /* one fold at a time keeps the scratch cursor single */
        bool is_known = (lane->known >> k & 1) != 0;
        if (is_known && !is_ready(lane, k))
            continue;
        lane->plan->step(&op->args.shape, lane->base + k, &step);
        if (!is_known)
            note_waits(lane, k, &step);
        if ((is_known || is_ready(lane, k)) && !open_step(lane, k, &step))
            return false;
    }
    return lane->ended != ended_before;
}

static void advance(struct tci_lane *lane)
{
    while (lane->ended & 1) {
        uint32_t run = (uint32_t)__builtin_ctzll(~lane->ended | (UINT64_C(1) << 63));
        run = run == 0 ? 1 : run;
        lane->base += run;
        lane->open >>= run;
        lane->ended >>= run;
        lane->known >>= run;
        lane->fenced >>= run;
    }
}

/* False when there is none. */
static bool next_segment(struct tci_lane *lane)
{
    struct tci_op *op = lane->op;

    if (lane->plan == op->args.check || op->lanes_next == op->lanes_total)
        return false;
    lane->index = (uint32_t)op->lanes_next++;
    lane->first = lane->index * op->args.lane_elems;
    lane->count = tci_min(op->args.count - lane->first, op->args.lane_elems);
    lane->base = 0;
    lane->open = lane->ended = lane->known = lane->fenced = 0;
    return true;
}

/* Scratch for the segment in the lane; false: there is no memory. */
static bool find_scratch(struct tci_lane *lane)
{
    struct tci_op *op = lane->op;
    const struct tci_plan *plan = op->args.plan;
    size_t old_bytes = lane->slot_bytes, elems, bytes;

    if (op->slots == 0)
        return true;
    if (lane->tmp != NULL && old_bytes > 0) { /* the first segment is the largest */
        if (plan->packed)
            lane->slot_bytes = lane->count * op->args.elem_bytes;
        return true;
    }
    elems = plan->layout == TCI_LAYOUT_CUT ? tci_cut_len(lane->count, op->blocks, 0) : lane->count;
    lane->slot_bytes = elems * (plan->wide ? tci_wide_size(&op->args.fold) : op->args.elem_bytes);
    if (!plan->packed)
        lane->slot_bytes = (lane->slot_bytes + 63) & ~(size_t)63;
    if (tci_array_bytes(lane->slot_bytes, op->slots, &bytes))
        lane->tmp = tci_scratch_get(&op->comm->context->scratch, tci_max(bytes, 64));
    return lane->tmp != NULL;
}

/* The same; false: the operation has failed. */
static bool take_scratch(struct tci_lane *lane)
{
    struct tci_op *op = lane->op;

    if (find_scratch(lane))
        return true;
    tci_op_fail_with(op, TC_ERR_ALLOC, op->comm->rank, true,
                     "rank %d has no memory left for scratch", op->comm->rank);
    return false;
}

/* Bring the next segment into the lane; false when there is none, or no memory for its scratch. */
static bool load_segment(struct tci_lane *lane)
{
    return next_segment(lane) && take_scratch(lane);
}

static void end_lane(struct tci_op *op);

static void pump(struct tci_lane *lane)
{
    struct tci_op *op = lane->op;

    while (op->state == TCI_OP_RUNNING) {
        advance(lane);
        if (lane->base == lane->steps) {
            if (load_segment(lane))
                continue;
            if (op->state == TCI_OP_RUNNING)
                end_lane(op);
            return;
        }
        if (!open_steps(lane))
            return;
    }
}

static struct tci_lane *init_lane(struct tci_op *op, uint32_t l, const struct tci_plan *plan)
{
    struct tci_lane *lane = &op->lanes[l];

    lane->op = op;
    lane->plan = plan;
    lane->steps = plan->steps(&op->args.shape);
    lane->index = lane->base = 0;
    lane->open = lane->ended = lane->known = lane->fenced = 0;
    lane->first = lane->count = 0;
    lane->tmp = NULL;
    lane->slot_bytes = 0;
    lane->round = 0;
    lane->is_folding = false;
    tci_list_init(&lane->link_busy);
    return lane;
}

/* ---- Plans of one round -------------------------------------------------------------------- */

/* All that the messages of a round are waited for by is a step on the spot. */
static void end_of_round(struct tci_lane *lane)
{
    struct tci_step step = {0};

    if (lane->ended != lane->open)
        return;
    lane->base = lane->round;
    lane->round = 0;
    lane->open = lane->ended = 0;
    if (lane->base < lane->steps) {
        lane->plan->step(&lane->op->args.shape, lane->base, &step);
        (void)open_step(lane, 0, &step);
    }
    pump(lane);
}

/* Whether the receive is all that is left, and may fold as its message comes: what is sent may be
 * overwritten by then, and the fold needs no turn of its own. */
static bool folds_at_once(const struct tci_lane *lane, const struct tci_round *round)
{
    return round->folding != NULL &&
           (lane->open & ~lane->ended) == UINT64_C(1) << (round->folding - round->steps);
}

/* Scratch that waits for large messages would leave the caches, where many operations wait: it is
 * taken when the first of them comes. */
bool tci_engine_place(struct tci_xfer *x)
{
    struct tci_step_xfer *xfer = tci_container_of(x, struct tci_step_xfer, x);
    struct tci_lane *lane = xfer->lane;
    struct tci_step step = {0};

    if (lane->tmp == NULL && !find_scratch(lane))
        return false;
    lane->plan->step(&lane->op->args.shape, xfer->step, &step);
    x->data = tci_slice_at(lane, step.dst);
    return true;
}

static bool takes_scratch_late(const struct tci_lane *lane)
{
    return lane->count * lane->op->args.elem_bytes > lane->op->comm->eager_max;
}

static bool post_all(struct tci_lane *lane, bool is_send)
{
    const struct tci_step *steps = lane->op->comm->round.steps;

    for (uint32_t i = 0; i < lane->round; i++) {
        if ((steps[i].kind == TCI_STEP_SEND) != is_send || post(lane, i, &steps[i]))
            continue;
        fail_post(lane->op);
        return false;
    }
    return true;
}

/* All messages at once, what the others wait for first; what waits for them is looked at when the
 * last of them has ended. */
static void open_round(struct tci_lane *lane)
{
    const struct tci_round *round = &lane->op->comm->round;

    (void)next_segment(lane);
    lane->round = round->messages;
    lane->open = (UINT64_C(1) << round->messages) - 1;
    if (!post_all(lane, true))
        return;
    if (folds_at_once(lane, round)) {
        if (!post(lane, (uint32_t)(round->folding - round->steps), &round->folded))
            fail_post(lane->op);
        lane->round = lane->steps;
        return;
    }
    if (!takes_scratch_late(lane) && !take_scratch(lane))
        return;
    if (post_all(lane, false))
        end_of_round(lane); /* nothing but messages that are out */
}

/* While receives are posted what was put becomes visible to the others: that takes as long. */
static void start_round(struct tci_lane *lane)
{
    struct tci_transport *transport = lane->op->comm->transport;

    open_round(lane);
    tci_transport_ring(transport);
}

/* The only segment, and nothing beside it. */
static bool is_round(struct tci_op *op)
{
    return op->lanes_total == 1 && op->args.check == NULL &&
           tci_round_find(&op->comm->round, op->args.plan, &op->args.shape) &&
           op->comm->round.messages <= op->comm->window;
}

/* ---- From the first lane to the last ------------------------------------------------------- */

/* Its messages are empty and carry the call, as all do: whoever meets another one goes no further.
 * So it ends only where every rank has made this call. */
static void start_check(struct tci_op *op)
{
    struct tci_lane *lane = init_lane(op, TCI_LANE_CHECK, op->args.check);

    TC_ASSERT(op->args.check->layout == TCI_LAYOUT_NONE);
    lane->index = UINT32_MAX;
    op->lanes_live++;
    pump(lane);
}

/* A lane has walked through its last segment. */
static void end_lane(struct tci_op *op)
{
    TC_ASSERT(op->lanes_live > 0);
    if (--op->lanes_live > 0)
        return;
    if (op->args.check != NULL && op->lanes[TCI_LANE_CHECK].op == NULL)
        start_check(op);
    else
        tci_op_done(op);
}

void tci_engine_start(struct tci_op *op)
{
    const struct tci_plan *plan = op->args.plan;
    uint32_t lanes;

    op->blocks = plan->layout == TCI_LAYOUT_CUT ? plan->blocks(&op->args.shape) : 1;
    op->slots = plan->slots(&op->args.shape);
    TC_ASSERT(op->args.lane_elems > 0 && op->blocks > 0);
    TC_ASSERT(op->args.blocks.src_counts == NULL || !plan->equal);
    TC_ASSERT(!plan->packed || plan->layout != TCI_LAYOUT_CUT);
    TC_ASSERT(!plan->wide || (plan->canonical && !plan->packed));
    op->lanes_total = 1;
    if (op->args.count > op->args.lane_elems)
        op->lanes_total = (op->args.count + op->args.lane_elems - 1) / op->args.lane_elems;
    lanes = (uint32_t)tci_min(op->lanes_total, TCI_LANES_MAX);
    /* A FOLD has a slot of each other rank. */
    if (op->slots > 0 && op->slots + 1 >= op->args.shape.size) {
        op->inputs = op->args.shape.size <= TCI_OP_FEW
                         ? op->few_inputs
                         : tci_alloc_array(op->args.shape.size, sizeof(*op->inputs));
        if (op->inputs == NULL) {
            tci_op_fail_with(op, TC_ERR_ALLOC, op->comm->rank, true, "rank %d has no memory left",
                             op->comm->rank);
            return;
        }
    }
    /* One lane more than there are, so that an operation that ends at once ends after the loop. */
    op->lanes_live = lanes + 1;
    if (op->args.check != NULL && !op->args.checks_last)
        start_check(op); /* first, for it is not to wait behind the payload */
    for (uint32_t l = 0; l < lanes && op->state == TCI_OP_RUNNING; l++) {
        struct tci_lane *lane = init_lane(op, l, plan);
        if (is_round(op))
            start_round(lane);
        else if (load_segment(lane))
            pump(lane);
        else if (op->state == TCI_OP_RUNNING)
            op->lanes_live--;
    }
    if (op->state == TCI_OP_RUNNING)
        end_lane(op);
}

static void free_lane(struct tci_op *op, struct tci_lane *lane)
{
    if (lane->op == NULL)
        return;
    if (lane->is_folding)
        tci_list_del(&lane->link_busy);
    lane->is_folding = false;
    tci_scratch_put(&op->comm->context->scratch, lane->tmp);
    lane->tmp = NULL;
    lane->op = NULL;
}

void tci_engine_end(struct tci_op *op)
{
    size_t lanes = tci_min(op->lanes_total, TCI_LANES_MAX);

    for (size_t l = 0; l < lanes; l++)
        free_lane(op, &op->lanes[l]);
    if (op->args.check != NULL)
        free_lane(op, &op->lanes[TCI_LANE_CHECK]);
    if (op->inputs != op->few_inputs)
        tci_free(op->inputs);
    op->inputs = NULL;
}

/* The calls agree as far as all ranks know them, but not what goes between two of them.  The peer
 * is the group's number: that of the transfer may be another transport's by now. */
static void fail_by_length(struct tci_op *op, const struct tci_step_xfer *xfer)
{
    tci_op_fail_with(op, TC_ERR_MISMATCH, (int)xfer->peer, true,
                     xfer->x.is_send
                         ? "rank %d sends %zu bytes to rank %u, which expects another "
                           "number: make the counts of the two agree"
                         : "rank %d expects %zu bytes from rank %u, which sends another "
                           "number: make the counts of the two agree",
                     op->comm->rank, xfer->x.len, xfer->peer);
}

static void end_transfer(struct tci_comm *comm, struct tci_step_xfer *xfer)
{
    struct tci_lane *lane = xfer->lane;
    struct tci_op *op = lane->op;
    tc_status_t status = xfer->x.status;
    uint32_t peer = xfer->peer, k = xfer->step - lane->base;

    TC_ASSERT(op->xfers_live > 0);
    op->xfers_live--;
    tci_trace_xfer_end(xfer, status);
    if (status == TC_OK && op->state == TCI_OP_RUNNING) {
        TC_ASSERT(k < TCI_WINDOW && (lane->open >> k & 1) && !(lane->ended >> k & 1));
        lane->ended |= UINT64_C(1) << k;
    }
    put_xfer(comm, xfer);
    if (op->state == TCI_OP_DRAINING) {
        if (op->xfers_live == 0)
            tci_op_drained(op);
    } else if (status == TC_ERR_PEER_LOST && tci_comm_bears_loss(comm)) {
        return;
    } else if (status != TC_OK) {
        if (status == TC_ERR_MISMATCH)
            fail_by_length(op, xfer);
        if (status == TC_ERR_INVALID_ARG)
            tci_reach_failed(op);
        if (status == TC_ERR_ALLOC) /* of this rank's own */
            tci_op_fail_with(op, status, comm->rank, true,
                             "rank %d has no memory left for a transfer with rank %u", comm->rank,
                             peer);
        else
            tci_op_fail_with(op, status, (int)peer, false, "a transfer with rank %u: %s", peer,
                             tc_status_string(status));
    } else if (lane->round > 0) {
        end_of_round(lane);
    } else {
        pump(lane);
    }
}

/* One more piece of a long fold. */
static void go_on_folding(struct tci_lane *lane)
{
    struct tci_op *op = lane->op;
    struct tci_step step = {0};

    op->args.plan->step(&op->args.shape, lane->fold_step, &step);
    if (!tci_spot_fold(lane, &step))
        return;
    lane->is_folding = false;
    tci_list_del(&lane->link_busy);
    lane->ended |= UINT64_C(1) << (lane->fold_step - lane->base);
    pump(lane);
}

void tci_engine_turn(struct tci_comm *comm)
{
    struct tci_list *first = tci_list_first(&comm->busy);
    struct tci_xfer *xfer;

    tci_trace_forget_time(comm);
    while ((xfer = tci_cq_pull(&comm->cq)) != NULL)
        end_transfer(comm, tci_container_of(xfer, struct tci_step_xfer, x));
    if (first != NULL && !tci_list_is_empty(&comm->busy))
        go_on_folding(tci_container_of(tci_list_first(&comm->busy), struct tci_lane, link_busy));
    if (!tci_list_is_empty(&comm->busy) && !comm->cq.is_posted) {
        comm->cq.is_posted = true;
        comm->exec->ops->post(comm->exec, &comm->cq.task);
    }
}
