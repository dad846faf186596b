/* list.h - intrusive doubly linked list. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_LIST_H
#define TCI_LIST_H

#include <stdbool.h>
#include <stddef.h>

/* A head, or a link inside an object.  A link that is in no list points at itself. */
struct tci_list {
    struct tci_list *prev, *next;
};

static inline void tci_list_init(struct tci_list *list)
{
    list->prev = list->next = list;
}

static inline bool tci_list_is_empty(const struct tci_list *list)
{
    return list->next == list;
}

/* Put `link` (in no list) before `at`: at the end, when that is the head. */
static inline void tci_list_add(struct tci_list *at, struct tci_list *link)
{
    link->prev = at->prev;
    link->next = at;
    at->prev->next = link;
    at->prev = link;
}

/* Take `link` out; harmless when it is in no list. */
static inline void tci_list_del(struct tci_list *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    tci_list_init(link);
}

/* First link, or NULL. */
static inline struct tci_list *tci_list_first(const struct tci_list *list)
{
    return list->next == list ? NULL : list->next;
}

#endif
