/* tags.c - a hash table of tags, with a bounded memory of idle ones. */
/* SPDX-License-Identifier: Apache-2.0 */
#define HASH_NONFATAL_OOM            1
#define HASH_FUNCTION(key, len, out) ((out) = hash_of(key))
#include "core/tags.h"

#include <string.h>

#include "core/alloc.h"
#include "core/assert.h"
#include "core/base.h"

_Static_assert(sizeof(struct tci_tag_name) == 16, "the key of the table has no padding");

/* Of the table's keys; uthash takes the lowest bits. */
static unsigned hash_of(const struct tci_tag_name *name)
{
    uint64_t hash = name->tag * UINT64_C(0x9e3779b97f4a7c15);

    hash ^= ((uint64_t)(uint32_t)name->peer << 32 | name->space) * UINT64_C(0xc2b2ae3d27d4eb4f);
    return (unsigned)(hash ^ hash >> 32);
}

struct tci_ordered_done {
    struct tci_tag_name name;
    struct tci_done done;
};

bool tci_space_is_ordered(uint32_t space)
{
    return space == TCI_SPACE_ORDERED || space == TCI_SPACE_INTERNAL ||
           space >= TCI_SPACE_P2P_ORDERED_UP;
}

void tci_tags_init(struct tci_tags *tags)
{
    pthread_mutex_init(&tags->lock, NULL);
    tags->ordered = NULL;
    tags->table = NULL;
    memset(tags->near, 0, sizeof(tags->near));
    tci_list_init(&tags->idle);
    tags->idle_count = 0;
    tci_list_init(&tags->released);
    tci_uses_init(&tags->past);
    tags->has_forgotten = false;
    tags->anchor = tags->spare = tags->far_spare = NULL;
    tags->far_count = 0;
    tci_list_init(&tags->failed);
    tags->failed_count = 0;
    atomic_init(&tags->calls, 0);
}

/* ---- Finding them --------------------------------------------------------------------------- */

/* Of the anchor. */
static const struct tci_tag_name no_name = {.peer = INT32_MIN, .space = UINT32_MAX};

/* NULL: it is no call of a sequence. */
static struct tci_tag **near_place(struct tci_tags *tags, const struct tci_tag_name *name)
{
    bool is_near = tci_space_is_ordered(name->space) && name->space != no_name.space;

    return is_near ? &tags->near[name->tag % TCI_TAGS_NEAR] : NULL;
}

static bool is_named(const struct tci_tag *tag, const struct tci_tag_name *name)
{
    return tag != NULL && tag->name.tag == name->tag && tag->name.peer == name->peer &&
           tag->name.space == name->space;
}

/* In the table. */
static struct tci_tag *find(struct tci_tags *tags, const struct tci_tag_name *name)
{
    struct tci_tag *tag = NULL;

    if (HASH_COUNT(tags->table) > (tags->anchor != NULL))
        HASH_FIND(hh, tags->table, name, sizeof(*name), tag);
    return tag;
}

/* False: no memory. */
static bool enter(struct tci_tags *tags, struct tci_tag *tag)
{
    HASH_ADD(hh, tags->table, name, sizeof(tag->name), tag);
    if (tag->hh.tbl == NULL)
        return false; /* there is no memory for the table itself */
    if (near_place(tags, &tag->name) != NULL)
        tags->far_count++;
    return true;
}

static void leave(struct tci_tags *tags, struct tci_tag *tag)
{
    if (tag->is_near) {
        *near_place(tags, &tag->name) = NULL;
        return;
    }
    HASH_DEL(tags->table, tag);
    if (near_place(tags, &tag->name) != NULL)
        tags->far_count--;
}

/* ---- Their life ----------------------------------------------------------------------------- */

static void forget(struct tci_tags *tags, struct tci_tag *tag)
{
    struct tci_tag **spare = tag->is_near ? &tags->spare : &tags->far_spare;

    leave(tags, tag);
    while (tag->deaths != NULL) {
        struct tci_death *death = tag->deaths;

        tag->deaths = death->next;
        tci_free(death);
    }
    if (*spare == NULL)
        *spare = tag;
    else
        tci_free(tag);
}

/* The memory of one that was forgotten, or new memory; NULL: there is none. */
static struct tci_tag *take_memory(struct tci_tag **spare)
{
    struct tci_tag *tag = *spare != NULL ? *spare : tci_alloc(sizeof(*tag));

    *spare = NULL;
    return tag;
}

static uint64_t sequence_of(const struct tci_tag_name *name)
{
    return (uint64_t)name->space << 32 | (uint32_t)name->peer;
}

/* A call of a sequence has but one use, and nothing to forget. */
static void recall_uses(struct tci_tags *tags, struct tci_tag *tag)
{
    struct tci_use use = {0};
    bool is_single = tci_space_is_ordered(tag->name.space);
    bool is_known =
        !is_single && tci_uses_find(&tags->past, sequence_of(&tag->name), tag->name.tag, &use);

    tag->is_counted = is_known ? use.count != 0 : is_single || !tags->has_forgotten;
    tag->is_spent = !tag->is_counted && use.dead != 0;
    tag->uses = use.count;
    tag->dead_use = tag->is_counted ? use.dead : 0;
}

/* Of a name that no table has. */
static void init_tag(struct tci_tags *tags, struct tci_tag *tag, const struct tci_tag_name *name)
{
    tag->name = *name;
    tag->hh.tbl = NULL;
    tci_list_init(&tag->idle);
    tag->is_reserved = tag->is_running = tag->is_idle = tag->is_near = false;
    tag->op = NULL;
    recall_uses(tags, tag);
    tag->done = (struct tci_done){.is_set = false};
    tag->foreign[0].peer = tag->foreign[1].peer = -1;
    tag->deaths = NULL;
}

void tci_tags_fini(struct tci_tags *tags)
{
    struct tci_tag *tag, *next;

    HASH_ITER(hh, tags->table, tag, next)
    {
        forget(tags, tag);
    }
    for (size_t i = 0; i < TCI_TAGS_NEAR; i++)
        if (tags->near[i] != NULL)
            forget(tags, tags->near[i]);
    tci_free(tags->spare);
    tci_free(tags->far_spare);
    tags->spare = tags->far_spare = NULL;
    tci_free(tags->ordered);
    tags->ordered = NULL;
    tci_uses_fini(&tags->past);
    pthread_mutex_destroy(&tags->lock);
}

static void leave_idle(struct tci_tags *tags, struct tci_tag *tag)
{
    tci_list_del(&tag->idle);
    tags->idle_count -= tag->is_idle;
    tag->is_idle = false;
}

/* What came of a tag is kept where it takes less room; false: it cannot be. */
static bool keep_uses(struct tci_tags *tags, const struct tci_tag *tag)
{
    struct tci_use use = {.count = tag->is_counted ? tag->uses : 0,
                          .dead = tag->is_counted ? tag->dead_use : tag->is_spent};

    if (use.count == 0 && use.dead == 0)
        return true;
    if (tci_uses_keep(&tags->past, sequence_of(&tag->name), tag->name.tag, use))
        return true;
    if (use.dead != 0)
        return false; /* late messages of the failed use must not meet a later one */
    tags->has_forgotten = true;
    return true;
}

static size_t idle_max(const struct tci_tags *tags)
{
    return tci_uses_has_room(&tags->past) ? TCI_TAGS_IDLE_NEAR : TCI_TAGS_IDLE_MAX;
}

/* Whether a peer has called what this rank has not. */
static bool is_to_come(const struct tci_tag *tag, const struct tci_foreign *foreign)
{
    return foreign->peer >= 0 && !tag->is_spent &&
           (!tag->is_counted || foreign->use == 0 || foreign->use > tag->uses);
}

/* Whether others have said something of a use to come. */
static bool is_awaited(const struct tci_tag *tag)
{
    return tag->deaths != NULL || is_to_come(tag, &tag->foreign[0]) ||
           is_to_come(tag, &tag->foreign[1]);
}

/* The oldest idle tag leaves the table, if it may. */
static void put_away(struct tci_tags *tags)
{
    struct tci_tag *tag = tci_container_of(tci_list_first(&tags->idle), struct tci_tag, idle);

    leave_idle(tags, tag);
    if (!is_awaited(tag) && keep_uses(tags, tag))
        forget(tags, tag);
}

static void add_idle(struct tci_tags *tags, struct tci_tag *tag)
{
    tci_list_add(&tags->idle, &tag->idle);
    tag->is_idle = true;
    tags->idle_count++;
}

static void enter_idle(struct tci_tags *tags, struct tci_tag *tag)
{
    add_idle(tags, tag);
    /* Two go for one that comes: as few as there should be come about step by step. */
    for (int i = 0; i < 2 && tags->idle_count > idle_max(tags); i++)
        put_away(tags);
}

/* What the loop writes into a tag decides whether it may go idle, so the loop lets it. */
static void sweep_released(struct tci_tags *tags)
{
    struct tci_list *first;

    while ((first = tci_list_first(&tags->released)) != NULL) {
        tci_list_del(first);
        enter_idle(tags, tci_container_of(first, struct tci_tag, idle));
    }
}

/* NULL: no memory. */
static struct tci_tag *make(struct tci_tags *tags, const struct tci_tag_name *name)
{
    struct tci_tag *tag;

    if (tags->anchor == NULL && name != &no_name)
        tags->anchor = make(tags, &no_name);
    tag = take_memory(&tags->far_spare);
    if (tag == NULL)
        return NULL;
    init_tag(tags, tag, name);
    if (enter(tags, tag))
        return tag;
    tci_free(tag);
    return NULL;
}

static struct tci_tag *make_near(struct tci_tags *tags, const struct tci_tag_name *name)
{
    struct tci_tag *tag = take_memory(&tags->spare);

    if (tag == NULL)
        return NULL;
    init_tag(tags, tag, name);
    tag->is_near = true;
    *near_place(tags, name) = tag;
    return tag;
}

tc_status_t tci_tags_reserve(struct tci_tags *tags, const struct tci_tag_name *name,
                             struct tci_tag **out)
{
    tc_status_t status = TC_OK;

    TC_ASSERT(!tci_space_is_ordered(name->space));
    pthread_mutex_lock(&tags->lock);
    struct tci_tag *tag = find(tags, name);
    if (tag == NULL)
        tag = make(tags, name);
    if (tag == NULL) {
        status = TC_ERR_ALLOC;
    } else if (tag->is_reserved) {
        status = TC_ERR_BUSY;
    } else {
        leave_idle(tags, tag);
        tag->is_reserved = tag->is_running = true;
        *out = tag;
    }
    pthread_mutex_unlock(&tags->lock);
    return status;
}

tc_status_t tci_tags_release(struct tci_tags *tags, const struct tci_tag_name *name)
{
    tc_status_t status = TC_OK;
    struct tci_tag *tag;

    pthread_mutex_lock(&tags->lock);
    tag = find(tags, name);
    if (tag == NULL || !tag->is_reserved) {
        status = TC_ERR_INVALID_ARG;
    } else if (tag->is_running) {
        status = TC_ERR_BUSY;
    } else {
        tag->is_reserved = false;
        tci_list_add(&tags->released, &tag->idle);
    }
    pthread_mutex_unlock(&tags->lock);
    return status;
}

size_t tci_tags_reserved(struct tci_tags *tags)
{
    struct tci_tag *tag, *next;
    size_t count = 0;

    pthread_mutex_lock(&tags->lock);
    HASH_ITER(hh, tags->table, tag, next)
    {
        count += tag->is_reserved;
    }
    pthread_mutex_unlock(&tags->lock);
    /* relaxed: a number alone */
    return count + atomic_load_explicit(&tags->calls, memory_order_relaxed);
}

/* Only the loop counts them. */
static void count_calls(struct tci_tags *tags, size_t more)
{
    size_t calls = atomic_load_explicit(&tags->calls, memory_order_relaxed);

    atomic_store_explicit(&tags->calls, calls + more, memory_order_relaxed);
}

struct tci_tag *tci_tags_take(struct tci_tags *tags, const struct tci_tag_name *name)
{
    struct tci_tag *tag = tci_tags_get(tags, name);

    TC_ASSERT(tci_space_is_ordered(name->space) && (tag == NULL || tag->op == NULL));
    if (tag != NULL)
        count_calls(tags, 1);
    return tag;
}

static void forget_call(struct tci_tags *tags, struct tci_tag *tag)
{
    if (tag->is_near) {
        forget(tags, tag);
        return;
    }
    pthread_mutex_lock(&tags->lock);
    forget(tags, tag);
    pthread_mutex_unlock(&tags->lock);
}

static void remember_failed(struct tci_tags *tags, struct tci_tag *tag)
{
    struct tci_list *oldest = tci_list_first(&tags->failed);

    tci_list_add(&tags->failed, &tag->idle);
    if (tags->failed_count++ < TCI_TAGS_FAILED_MAX)
        return;
    tags->failed_count--;
    tci_list_del(oldest);
    forget_call(tags, tci_container_of(oldest, struct tci_tag, idle));
}

/* Its number never comes again. */
static void end_call(struct tci_tags *tags, struct tci_tag *tag)
{
    count_calls(tags, (size_t)-1);
    if (tag->dead_use != 0)
        remember_failed(tags, tag);
    else
        forget_call(tags, tag);
}

uint32_t tci_tags_enter(struct tci_tag *tag, struct tci_op *op)
{
    TC_ASSERT(tag->op == NULL);
    tag->op = op;
    tag->uses++;
    return tag->is_counted ? tag->uses : 0;
}

void tci_tags_end(struct tci_tags *tags, struct tci_tag *tag, bool release)
{
    tag->op = NULL;
    if (tci_space_is_ordered(tag->name.space)) {
        end_call(tags, tag);
        return;
    }
    pthread_mutex_lock(&tags->lock);
    TC_ASSERT(tag->is_reserved && tag->is_running);
    tag->is_running = false;
    sweep_released(tags);
    if (release) {
        tag->is_reserved = false;
        enter_idle(tags, tag);
    }
    pthread_mutex_unlock(&tags->lock);
}

struct tci_tag *tci_tags_get(struct tci_tags *tags, const struct tci_tag_name *name)
{
    struct tci_tag **place = near_place(tags, name);
    struct tci_tag *tag;

    if (place != NULL && is_named(*place, name))
        return *place;
    if (place != NULL && *place == NULL && tags->far_count == 0)
        return make_near(tags, name);
    pthread_mutex_lock(&tags->lock);
    sweep_released(tags);
    tag = find(tags, name);
    if (tag == NULL)
        tag = place != NULL && *place == NULL ? make_near(tags, name) : make(tags, name);
    /* What the caller writes down keeps it from being put away. */
    if (tag != NULL && !tag->is_reserved && !tag->is_idle && place == NULL)
        add_idle(tags, tag);
    pthread_mutex_unlock(&tags->lock);
    return tag;
}

struct tci_tag *tci_tags_find(struct tci_tags *tags, const struct tci_tag_name *name)
{
    struct tci_tag **place = near_place(tags, name);
    struct tci_tag *tag;

    if (place != NULL && is_named(*place, name))
        return *place;
    if (place != NULL && tags->far_count == 0)
        return NULL;
    pthread_mutex_lock(&tags->lock);
    tag = find(tags, name);
    pthread_mutex_unlock(&tags->lock);
    return tag;
}

uint32_t tci_tags_uses(struct tci_tags *tags, const struct tci_tag_name *name)
{
    struct tci_tag *tag = tci_tags_find(tags, name);
    struct tci_use use = {0};

    if (tag != NULL)
        return tag->uses;
    pthread_mutex_lock(&tags->lock);
    (void)tci_uses_find(&tags->past, sequence_of(name), name->tag, &use);
    pthread_mutex_unlock(&tags->lock);
    return use.count;
}

/* ---- uses that have ended well -------------------------------------------------------------- */

/* One place for each of the last calls of a sequence: the group's, and those of each pair. */
static struct tci_ordered_done *place_of(const struct tci_tags *tags,
                                         const struct tci_tag_name *name)
{
    uint64_t at = name->tag + (uint64_t)(uint32_t)(name->peer + 2) * 37 + name->space * 101;

    return tags->ordered == NULL ? NULL : &tags->ordered[at % TCI_TAGS_ORDERED_MAX];
}

void tci_tags_note_done(struct tci_tags *tags, struct tci_tag *tag, const struct tci_call *call,
                        uint32_t use)
{
    struct tci_ordered_done *place;

    tag->done = (struct tci_done){.call = *call, .use = use, .is_set = true};
    if (!tci_space_is_ordered(tag->name.space) || tag->name.space == TCI_SPACE_INTERNAL)
        return;
    if (tags->ordered == NULL)
        tags->ordered = tci_alloc_array(TCI_TAGS_ORDERED_MAX, sizeof(*tags->ordered));
    place = place_of(tags, &tag->name);
    if (place != NULL) /* without memory there is less to compare with */
        *place = (struct tci_ordered_done){.name = tag->name, .done = tag->done};
}

static bool is_of_sequence(const struct tci_ordered_done *place, const struct tci_tag_name *name)
{
    return place != NULL && place->done.is_set && place->name.space == name->space &&
           place->name.peer == name->peer;
}

struct tci_done *tci_tags_done(struct tci_tags *tags, const struct tci_tag_name *name, uint32_t use)
{
    struct tci_ordered_done *place;
    struct tci_tag *tag;

    if (tci_space_is_ordered(name->space)) {
        place = place_of(tags, name);
        return is_of_sequence(place, name) && place->name.tag == name->tag ? &place->done : NULL;
    }
    tag = tci_tags_find(tags, name);
    return tag != NULL && tag->done.is_set && use != 0 && tag->done.use == use ? &tag->done : NULL;
}

bool tci_tags_is_forgotten(struct tci_tags *tags, const struct tci_tag_name *name)
{
    const struct tci_ordered_done *place = place_of(tags, name);

    /* A call that has not ended has its tag, however many have overtaken it. */
    return tci_space_is_ordered(name->space) && is_of_sequence(place, name) &&
           place->name.tag > name->tag && tci_tags_find(tags, name) == NULL;
}

/* ---- uses that have failed ------------------------------------------------------------------ */

bool tci_tag_is_dead(const struct tci_tag *tag, uint32_t use)
{
    if (use == 0 || !tag->is_counted)
        return tag->is_spent;
    if (use <= tag->dead_use)
        return true;
    for (const struct tci_death *death = tag->deaths; death != NULL; death = death->next)
        if (death->use == use)
            return true;
    return false;
}

void tci_tag_bury(struct tci_tag *tag, uint32_t use)
{
    tag->dead_use = use;
    tag->is_spent = !tag->is_counted;
}

void tci_tag_kill(struct tci_tag *tag, uint32_t use, const struct tci_error *error)
{
    struct tci_death **at = &tag->deaths;
    struct tci_death *death = tci_alloc(sizeof(*death));

    tag->is_spent = !tag->is_counted;
    if (death == NULL)
        return; /* it ends at its deadline */
    death->use = use;
    tci_error_copy(&death->error, error);
    while (*at != NULL && (*at)->use < use)
        at = &(*at)->next;
    death->next = *at;
    *at = death;
}

struct tci_death *tci_tag_take_death(struct tci_tag *tag, uint32_t use)
{
    struct tci_death *death = tag->deaths;

    if (death == NULL || death->use != use)
        return NULL;
    tag->deaths = death->next;
    return death;
}
