/* dial.c - connects to a host that may not be up yet: over all its addresses, again and again. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "net/dial.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/assert.h"
#include "core/base.h"
#include "net/iface.h"
#include "net/resolve.h"
#include "net/sock.h"
#include "tcdist/reactor.h"

/* The next address of a name joins the race when the one before has failed, or after this time
 * (RFC 8305, section 5). */
#define NEXT_AFTER_NS (250 * TCI_NS_PER_MS)
/* An attempt that is undecided that long after the last one began is given up with its round:
 * long enough for a lost SYN to be sent again after one second. */
#define ROUND_MAX_NS (3000 * TCI_NS_PER_MS)
/* Between rounds: short at first, since ranks start within milliseconds of each other. */
#define PAUSE_MIN_NS (20 * TCI_NS_PER_MS)
#define PAUSE_MAX_NS (500 * TCI_NS_PER_MS)
/* Rounds until a name is looked up anew. */
enum { ROUNDS_PER_LOOK_UP = 8 };

/*             +---------- timer ----------+
 *             v                           |
 *  PAUSED -> ASKING --addresses--> RACING +-- all failed, or too long --> PAUSED
 *     ^        |                     |
 *     +--none--+                     +-- one stands --> DONE --again--> PAUSED
 *
 * (A literal address, and most rounds of a name, go from PAUSED to RACING.)
 */
enum dial_state { DIAL_PAUSED, DIAL_ASKING, DIAL_RACING, DIAL_DONE };

struct attempt {
    struct tci_watch watch;
    struct tci_dial *dial;
    struct tci_addr addr;
    int fd; /* -1: not begun, or over */
};

struct tci_dial {
    struct tci_loop *loop;
    struct tci_exec *exec;
    const char *host; /* borrowed; NULL: the addresses are given */
    uint16_t port;
    int ports; /* from that one on */
    tci_dial_fn fn;
    void *arg;

    enum dial_state state;
    struct tci_timer timer;
    uint64_t pause_ns;
    unsigned rounds; /* with these addresses */
    struct tci_resolve *resolve;

    struct attempt attempts[TCI_RESOLVE_MAX];
    size_t count;     /* addresses */
    size_t first;     /* the one that a round begins with */
    size_t started;   /* of this round */
    size_t open;      /* started and not decided */
    unsigned tries;   /* attempts in all rounds */
    bool has_hope;    /* something of this round goes on, or failed by what waiting may mend */
    bool is_stuck;    /* nothing of the last round had */
    bool has_silence; /* an attempt of this round was never answered */
    bool has_failed, is_answered; /* the last round ended in nothing; each attempt by an answer */
    char last[TCI_ADDR_TEXT + 64];
};

static void set_state(struct tci_dial *dial, enum dial_state state)
{
    static const unsigned legal[] = {
        [DIAL_PAUSED] = 1u << DIAL_ASKING | 1u << DIAL_RACING | 1u << DIAL_DONE,
        [DIAL_ASKING] = 1u << DIAL_PAUSED | 1u << DIAL_RACING | 1u << DIAL_DONE,
        [DIAL_RACING] = 1u << DIAL_PAUSED | 1u << DIAL_DONE,
        [DIAL_DONE] = 1u << DIAL_PAUSED,
    };

    TC_ASSERT((legal[dial->state] >> state & 1u) != 0);
    dial->state = state;
}

/* The timer is armed from the start to the end, so that to move it takes no memory. */
static void wait_until(struct tci_dial *dial, uint64_t deadline_ns)
{
    int result = dial->exec->ops->timer_set(dial->exec, &dial->timer, deadline_ns);

    TC_ASSERT(result == 0);
}

static uint64_t now_ns(struct tci_dial *dial)
{
    return dial->exec->ops->now_ns(dial->exec);
}

static void close_attempt(struct attempt *attempt)
{
    if (attempt->fd < 0)
        return;
    tci_watch_del(&attempt->watch);
    close(attempt->fd);
    attempt->fd = -1;
    attempt->dial->open--;
}

static void close_all(struct tci_dial *dial)
{
    for (size_t k = 0; k < dial->count; k++)
        close_attempt(&dial->attempts[k]);
    TC_ASSERT(dial->open == 0);
}

/* Whether it is this host that cannot, so that whoever starts over there changes nothing. */
static bool is_own_way(int cause)
{
    return cause == ENETUNREACH || cause == EADDRNOTAVAIL || cause == EAFNOSUPPORT ||
           cause == EINVAL || cause == EACCES || cause == EPERM;
}

static void note_failure(struct tci_dial *dial, const struct tci_addr *addr, int cause)
{
    char where[TCI_ADDR_TEXT];

    dial->has_hope = dial->has_hope || !is_own_way(cause);
    (void)snprintf(dial->last, sizeof dial->last, "%s: %s", tci_addr_print(addr, where),
                   strerror(cause));
}

static void pause_round(struct tci_dial *dial)
{
    close_all(dial);
    dial->is_stuck = !dial->has_hope;
    dial->has_failed = true;
    dial->is_answered = dial->count > 0 && !dial->has_silence;
    set_state(dial, DIAL_PAUSED);
    wait_until(dial, now_ns(dial) + dial->pause_ns);
    dial->pause_ns = tci_min(2 * dial->pause_ns, PAUSE_MAX_NS);
}

static void end(struct tci_dial *dial, int fd, const struct tci_addr *peer, int cause)
{
    close_all(dial);
    set_state(dial, DIAL_DONE);
    wait_until(dial, TCI_NEVER - 1);
    dial->fn(dial->arg, fd, peer, cause);
}

/* Whether waiting does not help: this process lacks something. */
static bool is_own_want(int cause)
{
    return cause == ENOMEM || cause == EMFILE || cause == ENFILE || cause == ENOBUFS;
}

static void start_next(struct tci_dial *dial);

static void stands(struct attempt *attempt)
{
    struct tci_dial *dial = attempt->dial;
    int fd = attempt->fd;

    tci_watch_del(&attempt->watch);
    attempt->fd = -1;
    dial->open--;
    dial->first = ((size_t)(attempt - dial->attempts) + 1) % dial->count;
    end(dial, fd, &attempt->addr, 0);
}

static void on_decided(struct tci_watch *watch, uint32_t ready)
{
    struct attempt *attempt = tci_container_of(watch, struct attempt, watch);
    struct tci_dial *dial = attempt->dial;
    int cause;

    TC_ASSERT(dial->state == DIAL_RACING);
    if ((ready & TC_WRITABLE) == 0)
        return;
    cause = tci_sock_connect_result(attempt->fd);
    if (cause == 0) {
        stands(attempt);
        return;
    }
    note_failure(dial, &attempt->addr, cause);
    close_attempt(attempt);
    start_next(dial);
}

/* Gives 0, or the errno of an attempt that is over already. */
static int start_attempt(struct tci_dial *dial, struct attempt *attempt)
{
    struct tci_error unused = {.pub = {.status = TC_OK}};
    bool is_up;

    dial->tries++;
    if (tci_sock_connect(&attempt->addr, &attempt->fd, &is_up, &unused) != TC_OK) {
        int cause = errno;

        attempt->fd = -1;
        return cause;
    }
    /* One that stands at once is writable at once, and goes the same way. */
    if (tci_watch_add(dial->loop, &attempt->watch, attempt->fd, TC_WRITABLE) != 0) {
        int cause = errno;

        close(attempt->fd);
        attempt->fd = -1;
        return cause;
    }
    dial->open++;
    return 0;
}

/* Begin the next attempt that does not fail at once. */
static void start_next(struct tci_dial *dial)
{
    TC_ASSERT(dial->state == DIAL_RACING);
    while (dial->started < dial->count) {
        size_t at = (dial->first + dial->started++) % dial->count;
        struct attempt *attempt = &dial->attempts[at];
        int cause = start_attempt(dial, attempt);

        if (cause == 0) {
            wait_until(dial,
                       now_ns(dial) + (dial->started < dial->count ? NEXT_AFTER_NS : ROUND_MAX_NS));
            return;
        }
        note_failure(dial, &attempt->addr, cause);
        if (is_own_want(cause)) {
            end(dial, -1, &attempt->addr, cause);
            return;
        }
    }
    if (dial->open == 0)
        pause_round(dial);
}

static void race(struct tci_dial *dial)
{
    set_state(dial, DIAL_RACING);
    dial->has_hope = false;
    dial->has_silence = false;
    dial->started = 0;
    dial->rounds++;
    start_next(dial);
}

/* All addresses with the first port come before all with the second, as far as there is room. */
static void set_addresses(struct tci_dial *dial, const struct tci_addr *addrs, size_t count)
{
    size_t total = tci_min(count * (size_t)dial->ports, TCI_RESOLVE_MAX);

    TC_ASSERT(dial->open == 0 && count <= TCI_RESOLVE_MAX);
    for (size_t k = 0; k < total; k++) {
        struct attempt *attempt = &dial->attempts[k];
        const struct tci_addr *addr = &addrs[k % count];

        *attempt = (struct attempt){.watch.fn = on_decided, .dial = dial, .addr = *addr, .fd = -1};
        tci_addr_set_port(&attempt->addr, (uint16_t)(tci_addr_port(addr) + k / count));
    }
    dial->count = total;
    dial->first = 0;
    dial->rounds = 0;
}

static void on_addresses(void *arg, const struct tci_addr *addrs, size_t count,
                         const struct tci_unnamed *why)
{
    struct tci_dial *dial = arg;

    TC_ASSERT(dial->state == DIAL_ASKING);
    dial->resolve = NULL;
    if (count == 0) {
        (void)snprintf(dial->last, sizeof dial->last, "%.60s: %.90s", dial->host, why->text);
        dial->tries++;
        dial->has_hope = !why->is_unknown;
        dial->count = 0;
        pause_round(dial);
        return;
    }
    set_addresses(dial, addrs, count);
    race(dial);
}

static void begin_round(struct tci_dial *dial)
{
    struct tci_addr literal;

    if (dial->host == NULL) {
        race(dial);
        return;
    }
    if (tci_addr_from_text(dial->host, dial->port, &literal)) {
        if (dial->count == 0)
            set_addresses(dial, &literal, 1);
        race(dial);
        return;
    }
    if (dial->count > 0 && dial->rounds < ROUNDS_PER_LOOK_UP) {
        race(dial);
        return;
    }
    set_state(dial, DIAL_ASKING);
    dial->resolve = tci_resolve_start(dial->loop, dial->host, dial->port, on_addresses, dial);
    if (dial->resolve == NULL) {
        static const struct tci_addr none = {.len = 0};

        end(dial, -1, &none, errno);
    }
}

static void on_timer(struct tci_timer *timer)
{
    struct tci_dial *dial = tci_container_of(timer, struct tci_dial, timer);

    wait_until(dial, TCI_NEVER - 1);
    switch (dial->state) {
    case DIAL_PAUSED:
        begin_round(dial);
        return;
    case DIAL_RACING:
        if (dial->started < dial->count) {
            start_next(dial);
            return;
        }
        dial->has_silence = dial->open > 0;
        for (size_t k = 0; k < dial->count; k++) {
            if (dial->attempts[k].fd >= 0)
                note_failure(dial, &dial->attempts[k].addr, ETIMEDOUT);
        }
        pause_round(dial);
        return;
    case DIAL_ASKING:
    case DIAL_DONE:
        return;
    }
}

struct tci_dial *tci_dial_start(struct tci_loop *loop, const char *host, uint16_t port,
                                tci_dial_fn fn, void *arg)
{
    struct tci_dial *dial = tci_alloc(sizeof *dial);

    if (dial == NULL)
        return NULL;
    dial->loop = loop;
    dial->exec = tci_loop_exec(loop);
    dial->host = host;
    dial->port = port;
    dial->ports = 1;
    dial->fn = fn;
    dial->arg = arg;
    dial->state = DIAL_PAUSED;
    dial->pause_ns = PAUSE_MIN_NS;
    dial->timer.fn = on_timer;
    if (dial->exec->ops->timer_set(dial->exec, &dial->timer, 0) != 0) {
        tci_free(dial);
        return NULL;
    }
    return dial;
}

struct tci_dial *tci_dial_start_at(struct tci_loop *loop, const struct tci_addr *addrs,
                                   size_t count, tci_dial_fn fn, void *arg)
{
    struct tci_dial *dial = tci_dial_start(loop, NULL, 0, fn, arg);

    if (dial != NULL)
        set_addresses(dial, addrs, tci_min(count, TCI_RESOLVE_MAX));
    return dial;
}

void tci_dial_spread(struct tci_dial *dial, int ports)
{
    TC_ASSERT(dial->state == DIAL_PAUSED && dial->rounds == 0 && ports >= 1);
    TC_ASSERT(dial->host != NULL || ports == 1);
    dial->ports = ports;
}

void tci_dial_again(struct tci_dial *dial)
{
    TC_ASSERT(dial->state == DIAL_DONE);
    dial->has_hope = true; /* somebody is there */
    pause_round(dial);
    dial->has_failed = dial->is_answered = false;
}

void tci_dial_free(struct tci_dial *dial)
{
    if (dial == NULL)
        return;
    tci_resolve_cancel(dial->resolve);
    close_all(dial);
    dial->exec->ops->timer_clear(dial->exec, &dial->timer);
    tci_free(dial);
}

const char *tci_dial_last(struct tci_dial *dial)
{
    char where[TCI_ADDR_TEXT];

    for (size_t k = 0; k < dial->count && dial->last[0] == '\0'; k++) {
        if (dial->attempts[k].fd >= 0)
            (void)snprintf(dial->last, sizeof dial->last, "%s: no answer yet",
                           tci_addr_print(&dial->attempts[k].addr, where));
    }
    if (dial->last[0] == '\0' && dial->state == DIAL_ASKING)
        (void)snprintf(dial->last, sizeof dial->last, "%.60s: the name server has not answered yet",
                       dial->host);
    return dial->last;
}

unsigned tci_dial_attempts(const struct tci_dial *dial)
{
    return dial->tries;
}

bool tci_dial_is_stuck(const struct tci_dial *dial)
{
    return dial->is_stuck;
}

bool tci_dial_has_failed(const struct tci_dial *dial)
{
    return dial->has_failed;
}

bool tci_dial_is_answered(const struct tci_dial *dial)
{
    return dial->is_answered;
}

size_t tci_dial_count(const struct tci_dial *dial)
{
    return dial->count;
}

bool tci_dial_is_here(const struct tci_dial *dial)
{
    for (size_t k = 0; k < dial->count; k++) {
        const struct tci_addr *addr = &dial->attempts[k].addr;

        if (!tci_addr_is_loopback(addr) && !tci_iface_has("*", addr))
            return false;
    }
    return dial->count > 0;
}

bool tci_dial_is_nameless(const struct tci_dial *dial)
{
    return dial->count == 0;
}

bool tci_dial_is_loopback(const struct tci_dial *dial)
{
    for (size_t k = 0; k < dial->count; k++) {
        if (!tci_addr_is_loopback(&dial->attempts[k].addr))
            return false;
    }
    return dial->count > 0;
}
