/* side.c - rank 0's word goes round by an all-gather of the caller's own, a side channel. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/alloc.h"
#include "meet/store.h"

static tc_status_t check(const char *url, struct tci_error *error)
{
    if (tci_store_rest(url, "side")[0] != '\0')
        return tci_store_refuse(error, url, "side:// has nothing behind it");
    return TC_OK;
}

static tc_status_t open_side(struct tci_store *store, struct tci_error *error)
{
    (void)store;
    (void)error;
    return TC_OK;
}

static void close_side(struct tci_store *store)
{
    (void)store;
}

/* Every rank gives a card's room, all zero but rank 0's.  Whatever is wrong is for good: the others
 * would not call theirs again. */
static tc_status_t gather(struct tci_store *store, const char *mine, char *card,
                          struct tci_error *error)
{
    tc_status_t status = TC_OK;
    char own[TCI_CARD_TEXT] = "";
    char *all = tci_alloc((size_t)store->size * TCI_CARD_TEXT);
    int result;

    if (all == NULL) {
        tci_error_set(error, TC_ERR_ALLOC, -1, 0, "dist_init", "dist_init: no memory left");
        return TC_ERR_ALLOC;
    }
    if (mine != NULL)
        (void)strncpy(own, mine, TCI_CARD_TEXT - 1);
    result = store->side.fn(store->side.arg, own, all, TCI_CARD_TEXT);
    if (result != 0)
        tci_error_set(error, status = TC_ERR_INVALID_ARG, -1, 0, "dist_init",
                      "side_allgather gave %d, and not 0", result);
    else if (memcmp(all + (size_t)store->rank * TCI_CARD_TEXT, own, TCI_CARD_TEXT) != 0 ||
             all[0] == '\0' || memchr(all, '\0', TCI_CARD_TEXT) == NULL)
        tci_error_set(error, status = TC_ERR_INVALID_ARG, -1, 0, "dist_init",
                      "side_allgather has not put what each rank gave in the order of ranks");
    else if (card != NULL)
        memcpy(card, all, TCI_CARD_TEXT);
    tci_free(all);
    return status;
}

static tc_status_t put(struct tci_store *store, const char *card, struct tci_error *error)
{
    return gather(store, card, NULL, error);
}

static tc_status_t get(struct tci_store *store, char *card, struct tci_error *error)
{
    return gather(store, NULL, card, error);
}

/* Each group has an exchange of its own. */
static bool again(char *card)
{
    (void)card;
    return false;
}

const struct tci_store_ops tci_store_side = {
    .scheme = "side",
    .is_once = true,
    .check = check,
    .open = open_side,
    .close = close_side,
    .put = put,
    .get = get,
    .again = again,
};
