/* iface.c - the network interfaces of this host, and which of them ranks may be reached by. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "net/iface.h"

#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "core/base.h"

enum { IFACES_MAX = 64, UNNAMED = 1 << 16 };

const char tci_iface_allowed[] =
    "names of interfaces with commas between them, as in \"eth0,^docker*,^lo\": * stands for any "
    "characters, ^ leaves out";

/* ---- Choices --------------------------------------------------------------------------------- */

bool tci_iface_is_choice(const char *text)
{
    const char *at = text;

    if (strlen(text) > TCI_IFACE_CHOICE_MAX)
        return false;
    /* Bounded by the text. */
    for (;;) {
        size_t len = strcspn(at, ",");
        size_t mark = *at == '^';

        if (len == mark || len - mark >= IF_NAMESIZE || memchr(at + mark, '^', len - mark) != NULL)
            return false;
        for (size_t k = 0; k < len; k++)
            if ((unsigned char)at[k] <= ' ' || at[k] == '/' || at[k] == 0x7f)
                return false;
        if (at[len] == '\0')
            return true;
        at += len + 1;
    }
}

/* With one place to go back to: the last star. */
static bool fits(const char *pattern, size_t len, const char *name)
{
    size_t at = 0, star = len;
    const char *from = name;

    while (*name != '\0') {
        if (at < len && pattern[at] == '*') {
            star = at++;
            from = name;
        } else if (at < len && pattern[at] == *name) {
            at++;
            name++;
        } else if (star < len) {
            at = star + 1;
            name = ++from;
        } else {
            return false;
        }
    }
    while (at < len && pattern[at] == '*')
        at++;
    return at == len;
}

int tci_iface_rank(const char *choice, const char *name)
{
    int place = 0, found = -1;
    bool is_named = false, is_out = false;

    if (choice == NULL || *choice == '\0')
        return strcmp(name, "lo") == 0 ? -1 : 0;
    for (const char *at = choice; *at != '\0'; place++) {
        size_t len = strcspn(at, ",");

        if (*at == '^') {
            is_out = is_out || fits(at + 1, len - 1, name);
        } else {
            is_named = true;
            if (found < 0 && fits(at, len, name))
                found = place;
        }
        at += len;
        at += *at == ',';
    }
    if (is_out)
        return -1;
    return is_named ? found : UNNAMED;
}

/* ---- Addresses ------------------------------------------------------------------------------- */

static bool needs_scope(const struct tci_addr *addr)
{
    return addr->sa.ss_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&addr->v6.sin6_addr);
}

/* Kept sorted as it grows: there are few. */
static size_t add(struct tci_iface *list, int *costs, size_t count, size_t max,
                  const struct tci_iface *iface, int cost)
{
    size_t at = tci_min(count, max);

    while (at > 0 && costs[at - 1] > cost)
        at--;
    if (at == max)
        return count;
    count = tci_min(count + 1, max);
    memmove(list + at + 1, list + at, (count - 1 - at) * sizeof *list);
    memmove(costs + at + 1, costs + at, (count - 1 - at) * sizeof *costs);
    list[at] = *iface;
    costs[at] = cost;
    return count;
}

struct listing {
    const char *choice;
    struct tci_iface *list;
    size_t count, max;
    int costs[IFACES_MAX];
};

static void add_chosen(void *arg, const struct tci_iface *iface)
{
    struct listing *to = arg;
    int place = tci_iface_rank(to->choice, iface->name);

    if (place >= 0)
        to->count = add(to->list, to->costs, to->count, to->max, iface,
                        2 * place + needs_scope(&iface->addr));
}

size_t tci_iface_list(const char *choice, struct tci_iface *list, size_t max)
{
    struct listing listing = {.choice = choice, .list = list, .max = tci_min(max, IFACES_MAX)};

    tci_iface_each(add_chosen, &listing);
    return listing.count;
}

bool tci_iface_has(const char *choice, const struct tci_addr *addr)
{
    struct tci_iface list[IFACES_MAX];
    size_t count = tci_iface_list(choice, list, IFACES_MAX);

    for (size_t k = 0; k < count; k++) {
        tci_addr_set_port(&list[k].addr, tci_addr_port(addr));
        if (tci_addr_is_equal(&list[k].addr, addr))
            return true;
    }
    return false;
}

const char *tci_iface_print(const char *choice, char *text, size_t room)
{
    struct tci_iface list[IFACES_MAX];
    size_t count = tci_iface_list(choice, list, IFACES_MAX), len = 0;

    (void)snprintf(text, room, "none");
    for (size_t k = 0; k < count; k++) {
        char where[TCI_ADDR_TEXT];
        int more;

        (void)tci_addr_print(&list[k].addr, where);
        where[strlen(where) - 2] = '\0'; /* without the port, ":0" */
        more =
            snprintf(text + len, room - len, "%s%s %s", len > 0 ? ", " : "", list[k].name, where);
        if (more < 0 || (size_t)more >= room - len) {
            text[len] = '\0';
            break;
        }
        len += (size_t)more;
    }
    return text;
}
