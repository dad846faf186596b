/* tcp_poll.c - the source that the loop polls: links are written and read, the urgent first. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "net/tcp_link.h"

/*   while turns are long, or pieces go over main connections:   write all, read all
 *   while pieces of a link go beside its main connection:       its main connection, write, its
 *                                                               main connection, read the rest
 *
 * A piece written and one read take 20 us and more.  So a turn in which something has come over
 * such a main connection, which is urgent or of few bytes, ends with that, and what it brought is
 * carried on with first.
 */
enum { FEW_LINKS = 8 };

enum which { ALL, FIRST, REST };

static bool is_meant(const struct tci_link *link, enum which which)
{
    return which == ALL || (link->index == 0 && tci_sides_part(link)) == (which == FIRST);
}

/* Sending failed: the peer's last words are read before the connection is given up. */
static void read_and_break(struct tci_link *link)
{
    for (int i = 0; i < TCI_TCP_DRAIN_MAX; i++)
        if (link->state != TCI_LINK_UP || tci_link_read(link) == 0)
            break;
    if (link->send_errno != 0)
        tci_link_break(link, link->send_errno);
}

/* A link that ends takes its other connections out of the lists, maybe the one that was next: the
 * rest has its turn at the next poll. */
static struct tci_list *still(struct tci_list *next, struct tci_list *list)
{
    return tci_list_is_empty(next) ? list : next;
}

static unsigned flush_links(struct tci_tcp *tcp, enum which which)
{
    struct tci_list *at, *next;
    unsigned work = 0;

    for (at = tcp->sending.next; at != &tcp->sending; at = still(next, &tcp->sending)) {
        struct tci_link *link = tci_container_of(at, struct tci_link, sending_link);

        next = at->next;
        if (!is_meant(link, which))
            continue;
        work += tci_link_flush(link);
        if (link->send_errno != 0) {
            read_and_break(link);
            work++;
        }
    }
    return work;
}

/* To ask a link in vain costs a system call, most of the time of ranks that share cores: there
 * links without transfers are left to the reactor, however few there are.  Nothing comes beside a
 * main connection but pieces, and acknowledgements of them. */
static bool may_have_input(const struct tci_link *link, bool are_few)
{
    if (link->index != 0)
        return link->main->large > 0 || tci_log_kept(&link->log) > 0;
    return are_few || link->live > 0;
}

static unsigned read_links(struct tci_tcp *tcp, unsigned budget, enum which which)
{
    bool are_few =
        tcp->stats.links_open <= FEW_LINKS && !tcp->is_quiet && !tci_loop_shares_cores(tcp->loop);
    struct tci_list *at, *next;
    unsigned work = 0;

    for (at = tcp->open.next; at != &tcp->open && work < budget; at = still(next, &tcp->open)) {
        struct tci_link *link = tci_container_of(at, struct tci_link, open_link);

        next = at->next;
        if (is_meant(link, which) && may_have_input(link, are_few))
            work += tci_link_read(link);
    }
    return work;
}

/* Whether something has come that is to be carried on with before any piece. */
static bool has_first(struct tci_tcp *tcp, unsigned budget)
{
    unsigned got;

    (void)flush_links(tcp, FIRST);
    got = read_links(tcp, budget, FIRST);
    tcp->first_turns += got > 0;
    return got > 0;
}

/* Main connections do not go first for ever, or a stream of small messages would leave large ones
 * nothing. */
unsigned tci_tcp_poll(struct tci_source *source, unsigned budget)
{
    struct tci_tcp *tcp = tci_container_of(source, struct tci_tcp, source);
    enum which which = tcp->short_for > 0 && tcp->first_turns < TCI_TCP_FIRST_MAX ? REST : ALL;
    struct tci_list *at;
    unsigned work;

    tcp->passes++;
    if (which == REST && has_first(tcp, budget))
        return 1;
    work = flush_links(tcp, which);
    if (which == REST && has_first(tcp, budget))
        return work + 1;
    tcp->first_turns = 0;
    work += read_links(tcp, budget, which);
    /* Nobody is always the first. */
    at = tci_list_first(&tcp->open);
    if (at != NULL && at->next != &tcp->open) {
        tci_list_del(at);
        tci_list_add(&tcp->open, at);
    }
    return work;
}

/* Reading is always watched for; writing while something waits for it. */
bool tci_tcp_arm(struct tci_source *source)
{
    struct tci_tcp *tcp = tci_container_of(source, struct tci_tcp, source);
    struct tci_list *at, *next;
    bool may_sleep = true;

    for (at = tcp->sending.next; at != &tcp->sending; at = next) {
        struct tci_link *link = tci_container_of(at, struct tci_link, sending_link);

        next = at->next;
        if (tci_link_flush(link) || link->send_errno != 0)
            may_sleep = false;
        else if ((tci_log_unsent(&link->log) > 0 || !tci_link_is_flushed(link)) &&
                 (link->watch.interest & TC_WRITABLE) == 0)
            (void)tci_watch_change(&link->watch, TC_READABLE | TC_WRITABLE);
    }
    return may_sleep;
}

bool tci_tcp_expects(struct tci_source *source)
{
    return tci_container_of(source, struct tci_tcp, source)->live > 0;
}
