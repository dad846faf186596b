/* view.c - the verbs of a group's view: its ranks become those of the transport below. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/assert.h"
#include "core/base.h"
#include "core/mux.h"

static struct tci_view *view_of(struct tci_transport *self)
{
    TC_ASSERT(self->ops == &tci_view_ops);
    return (struct tci_view *)self;
}

static uint32_t below(const struct tci_view *view, uint32_t rank)
{
    TC_ASSERT(rank < view->size);
    return view->ranks == NULL ? rank : view->ranks[rank];
}

uint32_t tci_view_below(const struct tci_transport *view, uint32_t rank)
{
    TC_ASSERT(view->ops == &tci_view_ops);
    return below((const struct tci_view *)view, rank);
}

struct tci_mux *tci_mux_of(struct tci_transport *view)
{
    return view_of(view)->mux;
}

static void post(struct tci_transport *self, struct tci_xfer *xfer)
{
    xfer->peer = below(view_of(self), xfer->peer);
    tci_transport_post(view_of(self)->mux->below, xfer);
}

static bool put(struct tci_transport *self, struct tci_xfer *xfer)
{
    xfer->peer = below(view_of(self), xfer->peer);
    return tci_transport_put(view_of(self)->mux->below, xfer);
}

static void ring(struct tci_transport *self)
{
    tci_transport_ring(view_of(self)->mux->below);
}

static void abort_tag(struct tci_transport *self, const struct tci_key *key, int peer)
{
    struct tci_transport *lower = view_of(self)->mux->below;

    if (peer != TCI_ALL_PEERS)
        peer = (int)below(view_of(self), (uint32_t)peer);
    lower->ops->abort(lower, key, peer);
}

static void notify(struct tci_transport *self, uint32_t peer, const struct tci_notice *notice,
                   bool may_link)
{
    const struct tci_view *view = view_of(self);
    struct tci_transport *lower = view->mux->below;
    struct tci_notice copy = *notice;

    copy.key.group = view->group;
    lower->ops->notify(lower, below(view, peer), &copy, may_link);
}

struct reviewing {
    const struct tci_view *view;
    tci_review_fn *keep;
    void *arg;
};

static bool is_kept(void *arg, uint32_t peer, const struct tci_key *key,
                    const struct tci_call *call)
{
    const struct reviewing *reviewing = arg;
    uint32_t rank;

    return key->group != reviewing->view->group ||
           (tci_view_rank(reviewing->view, peer, &rank) &&
            reviewing->keep(reviewing->arg, rank, key, call));
}

static void review(struct tci_transport *self, tci_review_fn *keep, void *arg)
{
    struct tci_transport *lower = view_of(self)->mux->below;
    struct reviewing reviewing = {view_of(self), keep, arg};

    lower->ops->review(lower, is_kept, &reviewing);
}

static void caps(const struct tci_transport *self, struct tci_caps *caps_out)
{
    const struct tci_transport *lower = ((const struct tci_view *)self)->mux->below;

    lower->ops->caps(lower, caps_out);
}

/* Of all groups that share the links. */
static void stats(const struct tci_transport *self, struct tci_transport_stats *stats_out)
{
    const struct tci_transport *lower = ((const struct tci_view *)self)->mux->below;

    lower->ops->stats(lower, stats_out);
}

/* ---- Leaving ------------------------------------------------------------------------------ */

static void on_left(struct tci_timer *timer)
{
    struct tci_view *view = tci_container_of(timer, struct tci_view, left);

    view->base.sink->left(view->base.sink);
}

/* The links stay for the others; true when there are none. */
static bool is_last_to_leave(struct tci_view *view)
{
    struct tci_mux *mux = view->mux;

    if (!view->has_left) {
        view->has_left = true;
        mux->standing--;
        if (mux->standing > 0)
            tci_mux_leave_peers(view);
        else
            mux->leaving = view;
    }
    if (mux->leaving == view)
        return true;
    view->left.fn = on_left;
    (void)mux->exec->ops->timer_set(mux->exec, &view->left, mux->exec->ops->now_ns(mux->exec));
    return false;
}

static void leave(struct tci_transport *self)
{
    struct tci_view *view = view_of(self);
    struct tci_transport *lower = view->mux->below;

    if (is_last_to_leave(view))
        lower->ops->leave(lower);
}

static void part(struct tci_transport *self)
{
    struct tci_view *view = view_of(self);
    struct tci_transport *lower = view->mux->below;

    if (is_last_to_leave(view))
        lower->ops->part(lower);
}

static bool has_told(const struct tci_transport *self)
{
    return tci_transport_has_told(((const struct tci_view *)self)->mux->below);
}

static enum tci_bond bond(const struct tci_transport *self, uint32_t peer)
{
    const struct tci_view *view = (const struct tci_view *)self;

    return tci_transport_bond(view->mux->below, below(view, peer));
}

static void look(struct tci_transport *self)
{
    tci_transport_look(view_of(self)->mux->below);
}

static enum tci_hearing hear(const struct tci_transport *self, uint32_t peer, uint64_t since_ns)
{
    const struct tci_view *view = (const struct tci_view *)self;

    return tci_transport_hear(view->mux->below, below(view, peer), since_ns);
}

static void leave_peer(struct tci_transport *self, uint32_t peer)
{
    (void)self, (void)peer; /* other groups may need it: see leave */
}

static bool is_of_another(void *arg, uint32_t peer, const struct tci_key *key,
                          const struct tci_call *call)
{
    (void)peer, (void)call;
    return key->group != ((const struct tci_view *)arg)->group;
}

static void close_view(struct tci_transport *self)
{
    struct tci_view *view = view_of(self);
    struct tci_mux *mux = view->mux;
    struct tci_transport *lower = mux->below;

    mux->exec->ops->timer_clear(mux->exec, &view->left);
    if (mux->leaving == view)
        mux->leaving = NULL;
    if (!view->has_left) {
        mux->standing--;
        if (mux->standing > 0)
            tci_mux_leave_peers(view);
    }
    lower->ops->review(lower, is_of_another, view);
    tci_mux_del(view);
}

const struct tci_transport_ops tci_view_ops = {
    .name = "view",
    .post_send = post,
    .post_recv = post,
    .put = put,
    .ring = ring,
    .abort = abort_tag,
    .notify = notify,
    .review = review,
    .caps = caps,
    .stats = stats,
    .leave = leave,
    .leave_peer = leave_peer,
    .part = part,
    .has_told = has_told,
    .bond = bond,
    .look = look,
    .hear = hear,
    .close = close_view,
};
