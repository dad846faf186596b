/* tags.c - a hash table of tags, with a bounded memory of idle ones. */
/* SPDX-License-Identifier: Apache-2.0 */
#define HASH_NONFATAL_OOM 1
#include "core/tags.h"

#include "core/alloc.h"
#include "core/assert.h"
#include "core/base.h"

_Static_assert(sizeof(struct tci_tag_name) == 16, "the key of the table has no padding");

void tci_tags_init(struct tci_tags *tags)
{
    pthread_mutex_init(&tags->lock, NULL);
    tags->table = NULL;
    tci_list_init(&tags->idle);
    tags->idle_count = 0;
}

static void forget(struct tci_tags *tags, struct tci_tag *tag)
{
    HASH_DEL(tags->table, tag);
    tci_free(tag->death);
    tci_free(tag);
}

void tci_tags_fini(struct tci_tags *tags)
{
    struct tci_tag *tag, *next;

    HASH_ITER(hh, tags->table, tag, next)
    {
        forget(tags, tag);
    }
    pthread_mutex_destroy(&tags->lock);
}

static void leave_idle(struct tci_tags *tags, struct tci_tag *tag)
{
    if (!tci_list_is_empty(&tag->idle)) {
        tci_list_del(&tag->idle);
        tags->idle_count--;
    }
}

/* Remember an idle tag for a while.  One that has failed is kept for good, as every rank keeps
 * it: late messages of the failed use must not meet a later one. */
static void enter_idle(struct tci_tags *tags, struct tci_tag *tag)
{
    if (tag->dead_use != 0 || tag->death != NULL || tag->foreign[0].peer >= 0)
        return;
    if (tag->name.space == TCI_SPACE_ORDERED || tag->name.space == TCI_SPACE_INTERNAL ||
        tag->name.space >= TCI_SPACE_P2P_ORDERED_UP) {
        forget(tags, tag); /* these numbers never come again */
        return;
    }
    tci_list_add(&tags->idle, &tag->idle);
    if (++tags->idle_count > TCI_TAGS_IDLE_MAX) {
        struct tci_tag *oldest =
            tci_container_of(tci_list_first(&tags->idle), struct tci_tag, idle);
        leave_idle(tags, oldest);
        forget(tags, oldest);
    }
}

static struct tci_tag *find_or_make(struct tci_tags *tags, const struct tci_tag_name *name)
{
    struct tci_tag *tag = NULL, *added = NULL;

    HASH_FIND(hh, tags->table, name, sizeof(*name), tag);
    if (tag != NULL)
        return tag;
    tag = tci_alloc(sizeof(*tag));
    if (tag == NULL)
        return NULL;
    tag->name = *name;
    tag->foreign[0].peer = tag->foreign[1].peer = -1;
    tci_list_init(&tag->idle);
    HASH_ADD(hh, tags->table, name, sizeof(tag->name), tag);
    HASH_FIND(hh, tags->table, name, sizeof(*name), added);
    if (added == NULL) { /* no memory for the table itself */
        tci_free(tag);
        return NULL;
    }
    return tag;
}

tc_status_t tci_tags_reserve(struct tci_tags *tags, const struct tci_tag_name *name,
                             struct tci_op *op, struct tci_tag **out)
{
    tc_status_t status = TC_OK;

    pthread_mutex_lock(&tags->lock);
    struct tci_tag *tag = find_or_make(tags, name);
    if (tag == NULL) {
        status = TC_ERR_ALLOC;
    } else if (tag->is_reserved) {
        status = TC_ERR_BUSY;
    } else {
        leave_idle(tags, tag);
        tag->is_reserved = true;
        tag->op = op;
        *out = tag;
    }
    pthread_mutex_unlock(&tags->lock);
    return status;
}

tc_status_t tci_tags_release(struct tci_tags *tags, const struct tci_tag_name *name)
{
    tc_status_t     status = TC_OK;
    struct tci_tag *tag = NULL;

    pthread_mutex_lock(&tags->lock);
    HASH_FIND(hh, tags->table, name, sizeof(*name), tag);
    if (tag == NULL || !tag->is_reserved) {
        status = TC_ERR_INVALID_ARG;
    } else if (tag->op != NULL) {
        status = TC_ERR_BUSY;
    } else {
        tag->is_reserved = false;
        enter_idle(tags, tag);
    }
    pthread_mutex_unlock(&tags->lock);
    return status;
}

void tci_tags_end(struct tci_tags *tags, struct tci_tag *tag, bool release)
{
    pthread_mutex_lock(&tags->lock);
    TC_ASSERT(tag->is_reserved);
    tag->op = NULL;
    if (release) {
        tag->is_reserved = false;
        enter_idle(tags, tag);
    }
    pthread_mutex_unlock(&tags->lock);
}

struct tci_tag *tci_tags_get(struct tci_tags *tags, const struct tci_tag_name *name)
{
    pthread_mutex_lock(&tags->lock);
    struct tci_tag *tag = find_or_make(tags, name);
    if (tag != NULL && !tag->is_reserved)
        leave_idle(tags, tag); /* the caller is about to write something down */
    pthread_mutex_unlock(&tags->lock);
    return tag;
}
