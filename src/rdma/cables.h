/* cables.h - several cables between two ranks, and what becomes of queue pairs that fail. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_RDMA_CABLES_H
#define TCI_RDMA_CABLES_H

#include "core/transport.h"

struct tci_rdma;
struct tci_rdma_card;
struct tci_rdma_link;

/* ---- pair.c ---- */

/* The transport of a cable to a peer; NULL: there is none. */
struct tci_rdma *tci_rdma_cable(struct tci_rdma *rdma, uint32_t peer, int cable);
unsigned tci_rdma_cables(struct tci_rdma *rdma, uint32_t peer); /* a bit each */
/* Of the cable that carries what goes to a peer: the first one that is not known to stay down;
 * NULL: there is none, all goes below. */
struct tci_rdma *tci_rdma_lead(struct tci_rdma *rdma, uint32_t peer);
bool tci_rdma_leads(struct tci_rdma *rdma, uint32_t peer);
/* The links of the same peer over other cables. */
void tci_rdma_end_others(const struct tci_rdma_link *link, tc_status_t status);
/* Of the leading link: nothing is sent over others, or waits for them to come up. */
bool tci_rdma_sides_are_clear(const struct tci_rdma_link *link);
/* Whether the peer has said goodbye, over the cable that leads. */
bool tci_rdma_has_left(const struct tci_rdma_link *link);
bool tci_rdma_has_parted(const struct tci_rdma_link *link); /* whether we have */

/* ---- failover.c ---- */

/* Whether others go on without it. */
bool tci_rdma_may_fail(const struct tci_rdma_link *link);
void tci_rdma_fail(struct tci_rdma_link *link, const char *cause);
/* The peer's end has; it had taken so much. */
void tci_rdma_on_failed(struct tci_rdma_link *link, uint32_t had, const char *cause);

/* What the peer has had is done, as if its completions had come.  False: it has had less than was
 * acknowledged. */
bool tci_rdma_use_count(struct tci_rdma_link *link);

/* ---- heal.c ---- */

bool tci_rdma_may_heal(const struct tci_rdma_link *link);
void tci_rdma_heal_begin(struct tci_rdma_link *link, const char *cause);
void tci_rdma_heal_on(struct tci_rdma_link *link); /* both know what the other one has had */
void tci_rdma_on_heal(struct tci_rdma_link *link, enum tci_rdma_meeting what,
                      const struct tci_rdma_card *card);
void tci_rdma_on_heal_timer(struct tci_timer *timer);
/* A work request has ended well: a queue pair that was made again has shown that it stands. */
void tci_rdma_heal_shown(struct tci_rdma_link *link);

/* ---- stripe.c ---- */

struct tci_rdma_stripe;
extern const size_t tci_rdma_stripe_bytes;
bool tci_rdma_is_striped(const struct tci_rdma_link *link, const struct tci_xfer *xfer);
void tci_rdma_stripe_post(struct tci_rdma_link *link, struct tci_xfer *whole);
/* Of a transfer that has no completion queue: it is a part of a striped one. */
void tci_rdma_part_done(struct tci_xfer *part, tc_status_t status);
void tci_rdma_part_revoked(struct tci_xfer *part); /* one that is sent */
/* One that does not lead, so it may begin in the middle, after a failure. */
bool tci_rdma_is_side_part(const struct tci_key *key);
/* What has not ended over a cable begins anew over the one that leads. */
void tci_rdma_move_parts(struct tci_rdma *rdma, uint32_t peer);
/* Those of which a part has failed; all. */
void tci_rdma_end_stripes(struct tci_rdma *rdma);
void tci_rdma_close_stripes(struct tci_rdma *rdma);

#endif
