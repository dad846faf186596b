/* differ.h - calls of one tag that differ in one field, and what every rank is to be told. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_DIFFER_H
#define TEST_DIFFER_H

#include "support/coll_case.h"

enum { SMALL = 10, LARGE = 9000, EAGER_BYTES = 8192, OTHER_TAG = 5000, TAG = 6 };

struct sim_world;

/* Where the ranks live: simulated, or in this process over TCP or shared memory. */
struct place {
    int size;
    struct sim_world *sim; /* NULL: real */
    struct world tcp;
    bool is_told; /* real: a rank was done before it heard */
    bool is_full; /* TC_CHECK_FULL: no rank may be done */
};

tc_dist_ctx *group_of(struct place *place, int rank);
tc_status_t wait_for(struct place *place, tc_future *future);

/* COLL_KINDS stands for the barrier. */
enum { KIND_BARRIER = COLL_KINDS, KINDS };

enum field { BY_KIND, BY_DTYPE, BY_OP, BY_COUNT, BY_ROOT, BY_ALGORITHM, BY_NUMERICS, FIELDS };

bool is_rooted(int kind);

struct scene {
    struct place *place;
    enum field field;
    struct coll_case pair[2]; /* the call of the most and that of the odd rank */
    int odd;
    bool is_ordered;
    struct coll_run runs[2]; /* of the most, of the odd one */
    tc_future *futures[WORLD_MAX], *others[WORLD_MAX];
    float values[WORLD_MAX];
};

/* Fill the scene for a case; false: there is no such case. */
bool set_scene(struct scene *scene, struct place *place, int kind, enum field field, bool is_large,
               bool is_ordered);

/* All ranks call; `first` begins: whoever comes last meets what the others have said.  Every rank
 * must be told as it should, another tag goes on, and the same tag is as good as new. */
void differ(struct scene *scene, int first);

/* From rank 1 to rank 0, in several ways: what is received differs in count or type. */
void exchange_each(struct place *place);

/* What the log is to say is tested elsewhere; here it would say it thousands of times. */
void hush_log(void);

#endif
