/* names.c - ranks tell each other what they call themselves. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "names.h"

#include <stdlib.h>
#include <string.h>

#include "algo/algo.h"
#include "core/alloc.h"
#include "core/base.h"
#include "group/gloo.h"
#include "group/group.h"

/* Among the group's own collectives; those of the beginning have others. */
#define NAMES_TAG (UINT64_MAX - 1)

static struct tci_names *new_names(uint32_t size)
{
    struct tci_names *names;
    size_t bytes;

    if (!tci_array_bytes(size, TCI_NAME_BYTES, &bytes) || bytes > SIZE_MAX - sizeof(*names))
        return NULL;
    names = tci_alloc(sizeof(*names) + bytes);
    if (names == NULL)
        return NULL;
    atomic_init(&names->refs, 1);
    names->size = size;
    return names;
}

struct tci_names *tci_names_ref(struct tci_names *names)
{
    /* relaxed: whoever adds an owner is one. */
    if (names != NULL)
        atomic_fetch_add_explicit(&names->refs, 1, memory_order_relaxed);
    return names;
}

void tci_names_unref(struct tci_names *names)
{
    /* acq_rel: what other owners read comes before the end. */
    if (names != NULL && atomic_fetch_sub_explicit(&names->refs, 1, memory_order_acq_rel) == 1)
        tci_free(names);
}

struct tci_names *tci_names_pick(const struct tci_names *names, const uint32_t *ranks,
                                 uint32_t size)
{
    struct tci_names *picked = new_names(size);

    for (uint32_t r = 0; picked != NULL && r < size; r++)
        memcpy(picked->text[r], names->text[ranks[r]], TCI_NAME_BYTES);
    return picked;
}

static bool is_name(const char *text)
{
    size_t len = strnlen(text, TCI_NAME_BYTES);

    for (size_t k = 0; k < len; k++)
        if ((unsigned char)text[k] < 0x20 || (unsigned char)text[k] > 0x7e)
            return false;
    return len > 0 && len < TCI_NAME_BYTES;
}

tc_status_t tci_name_check(const char *name, struct tci_error *error)
{
    if (!is_name(name))
        tci_error_set(error, TC_ERR_INVALID_ARG, -1, 0, "dist_init",
                      "dist_init: identity is \"%.40s\", but must be of 1 to %d printable ASCII "
                      "characters",
                      is_name(name) || strnlen(name, TCI_NAME_BYTES) == TCI_NAME_BYTES ? name : "",
                      TCI_NAME_BYTES - 1);
    return error->pub.status;
}

/* ---- Telling -------------------------------------------------------------------------------- */

struct telling {
    struct tci_names *names; /* a reference; each rank fills its own, and all are put together */
    tci_names_fn done;
    void *arg;
    struct tci_future_hook hook;
};

static int compare(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* What came from the others is no name, or another's. */
static void check(const struct tci_names *names, struct tci_error *error)
{
    const char **sorted = tci_alloc_array(names->size, sizeof(*sorted));

    if (sorted == NULL) {
        tci_error_set(error, TC_ERR_ALLOC, -1, 0, "dist_init", "no memory left for identities");
        return;
    }
    for (uint32_t r = 0; r < names->size; r++) {
        sorted[r] = names->text[r];
        if (!is_name(names->text[r]))
            tci_error_set(error, TC_ERR_INVALID_ARG, (int)r, 0, "dist_init",
                          "rank %d has no identity, and others have: give all ranks one, or none",
                          (int)r);
    }
    if (error->pub.status == TC_OK)
        qsort(sorted, names->size, sizeof(*sorted), compare);
    for (uint32_t r = 1; r < names->size && error->pub.status == TC_OK; r++)
        if (strcmp(sorted[r - 1], sorted[r]) == 0)
            tci_error_set(error, TC_ERR_INVALID_ARG, -1, 0, "dist_init",
                          "ranks %d and %d have one identity, \"%s\": give each its own",
                          (int)((sorted[r - 1] - names->text[0]) / TCI_NAME_BYTES),
                          (int)((sorted[r] - names->text[0]) / TCI_NAME_BYTES), sorted[r]);
    tci_free(sorted);
}

/* The group may be gone by now. */
static void have_told(tc_future *future, void *arg)
{
    struct telling *telling = arg;
    const tc_error *failure = tc_future_error(future);
    struct tci_error error = {0};

    if (failure != NULL)
        tci_error_blame(&error, failure->status, failure->rank, tc_error_reason(failure),
                        "dist_init", "%s", failure->message);
    else
        check(telling->names, &error);
    tc_future_release(future);
    tci_names_unref(telling->names);
    telling->done(telling->arg, error.pub.status == TC_OK ? NULL : &error);
    tci_free(telling);
}

bool tci_names_gather(tc_dist_ctx *group, const char *mine, tci_names_fn done, void *arg)
{
    struct tci_comm *comm = &group->comm;
    struct telling *telling = tci_alloc(sizeof(*telling));
    struct tci_names *names = new_names((uint32_t)comm->size);
    struct tci_op_args args;
    size_t len = mine == NULL ? 0 : strnlen(mine, TCI_NAME_BYTES - 1);

    if (telling == NULL || names == NULL) {
        tci_free(telling);
        tci_names_unref(names);
        return false;
    }
    memcpy(names->text[comm->rank], mine == NULL ? "" : mine, len);
    *telling = (struct telling){.names = names, .done = done, .arg = arg};
    group->names = tci_names_ref(names); /* for nobody to see until the group is the caller's */
    tci_gloo_star(comm, "dist_init", (uint8_t *)names->text, &args);
    args.tag = NAMES_TAG;
    args.count = args.lane_elems = (size_t)comm->size * TCI_NAME_BYTES;
    args.call.count = args.count;
    args.call.op = TC_REDUCE_BOR;
    tci_fold_init(&args.fold, TC_DTYPE_U8, TC_REDUCE_BOR);
    telling->hook = (struct tci_future_hook){.fn = have_told, .arg = telling};
    tci_future_hook(tci_op_start(comm, &args), &telling->hook);
    return true;
}
