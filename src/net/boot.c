/* boot.c - the meeting point: what both roles share, from start to finish. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "net/boot.h"

#include <errno.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/assert.h"
#include "core/base.h"
#include "core/log.h"
#include "net/boot_conn.h"
#include "net/boot_meet.h"
#include "net/boot_role.h"
#include "net/crypt.h"
#include "net/host.h"
#include "net/sock.h"

/* Long for a host to acknowledge in, and short for whoever comes late. */
#define PING_MAX_NS (500 * TCI_NS_PER_MS)

/* What is amiss is said after so long, and again after twice as long, and so on: so that it is read
 * within five seconds of the start, on a busy machine too.  Where the deadline comes as soon it
 * speaks for itself. */
#define SAY_NS  (3000 * TCI_NS_PER_MS)
#define SOON_NS (5000 * TCI_NS_PER_MS)

/*   member k                        rank 0
 *      | ------- connect ------------> |    again and again: rank 0 may start later
 *      | ------- JOIN ---------------> |    size, rank, where I listen, host
 *      | <------ WELCOME ------------- |    from here on rank 0 is known to be there
 *      |                               |    ... until all have joined
 *      | <------ TABLE --------------- |    group id, addresses, hosts, settings
 *      | ------- READY --------------> |
 *      |                               |    ... until all have the table
 *      | <------ GO ------------------ |    the group stands
 *      | <------ REFUSE -------------- |    or, at any time: there will be none, and why
 *      | <------ PING ---------------> |    shortly before the deadline, until READY
 */

uint64_t tci_boot_now(struct tci_boot *boot)
{
    return boot->exec->ops->now_ns(boot->exec);
}

/* Shortly before the deadline each side says something to the other, so that it is known then
 * whether there is anybody. */
static uint64_t ping_ns(const struct tci_boot *boot)
{
    uint64_t left_ns = boot->deadline_ns - tci_min(boot->start_ns, boot->deadline_ns);

    if (boot->deadline_ns == TCI_NEVER || boot->has_pinged || boot->is_ended)
        return TCI_NEVER;
    return boot->deadline_ns - tci_min(left_ns / 4, PING_MAX_NS);
}

static uint64_t say_ns(const struct tci_boot *boot)
{
    uint64_t given_ns = boot->deadline_ns - tci_min(boot->start_ns, boot->deadline_ns);
    bool is_due = !boot->is_ended && boot->has_begun && boot->role->say != NULL;

    if (!is_due || given_ns <= SOON_NS || boot->say_ns >= boot->deadline_ns)
        return TCI_NEVER;
    return boot->say_ns;
}

static void arm(struct tci_boot *boot)
{
    uint64_t at_ns = tci_min(tci_min(boot->wake_ns, ping_ns(boot)), say_ns(boot));

    at_ns = tci_min(at_ns, TCI_NEVER - 1);
    TC_ASSERT(boot->exec->ops->timer_set(boot->exec, &boot->timer, at_ns) == 0);
}

void tci_boot_wake(struct tci_boot *boot, uint64_t at_ns)
{
    if (boot->is_ended)
        return;
    boot->wake_ns = at_ns;
    arm(boot);
}

void tci_boot_end(struct tci_boot *boot, tc_status_t status)
{
    TC_ASSERT(!boot->is_ended);
    TC_ASSERT((status == TC_OK) == (boot->error.pub.status == TC_OK));
    tci_boot_wake(boot, 0);
    boot->is_ended = true;
    boot->status = status;
}

const char *tci_boot_time(const struct tci_boot *boot, char text[32])
{
    return tci_boot_time_to(boot, boot->deadline_ns, text);
}

const char *tci_boot_time_to(const struct tci_boot *boot, uint64_t at_ns, char text[32])
{
    uint64_t ms = (at_ns - tci_min(boot->start_ns, at_ns)) / TCI_NS_PER_MS;

    if (ms % 1000 == 0)
        (void)snprintf(text, 32, "%" PRIu64 " s", ms / 1000);
    else
        (void)snprintf(text, 32, "%" PRIu64 " ms", ms);
    return text;
}

void tci_boot_tell(struct tci_boot *boot, const struct tci_error *error)
{
    tc_log_level_t level = boot->has_said ? TC_LOG_INFO : TC_LOG_WARN;
    char time[32];

    boot->has_said = true;
    if (boot->deadline_ns == TCI_NEVER)
        tci_log(level, "%s (tried without end)", error->text);
    else
        tci_log(level, "%s (tried until %s have passed)", error->text, tci_boot_time(boot, time));
}

unsigned tci_boot_count_local(const struct tci_boot_result *result)
{
    unsigned count = 0;

    for (int rank = 0; rank < result->size; rank++)
        count += result->hosts[rank] == result->hosts[result->rank];
    return count;
}

void tci_boot_count_cores(struct tci_boot *boot)
{
    unsigned cores = tci_cpus_count(&boot->cpus);

    if (cores > 0)
        boot->result.agreed.cores = (uint16_t)tci_min(cores, UINT16_MAX);
}

/* ---- The result ------------------------------------------------------------------------------ */

void tci_boot_result_fini(struct tci_boot_result *result)
{
    if (result == NULL)
        return;
    for (int rank = 0; rank < result->size && result->fds != NULL; rank++) {
        if (result->fds[rank] >= 0)
            close(result->fds[rank]);
    }
    for (int rank = 0; rank < result->size && result->crypts != NULL; rank++)
        tci_crypt_free(result->crypts[rank]);
    if (result->size > 0 && result->listener >= 0)
        close(result->listener);
    tci_keyring_unref(result->keyring);
    tci_paths_fini(&result->paths);
    tci_free(result->crypts);
    tci_free(result->fds);
    tci_free(result->addrs);
    tci_free(result->hosts);
    tci_free(result->labels);
    *result = (struct tci_boot_result){.listener = -1};
}

static bool init_result(struct tci_boot_result *result, const struct tci_boot_config *config)
{
    size_t size = (size_t)config->size;
    bool is_sealed;

    result->rank = config->rank;
    result->size = config->size;
    result->listener = config->listen_fd;
    result->agreed = config->mine;
    result->fds = tci_alloc_array(size, sizeof *result->fds);
    result->addrs = tci_alloc_array(size, sizeof *result->addrs);
    result->hosts = tci_alloc_array(size, sizeof *result->hosts);
    result->labels = tci_alloc_array(size, sizeof *result->labels);
    result->keyring = tci_keyring_ref(config->keyring);
    is_sealed = config->keyring != NULL && config->keyring->encrypts;
    if (is_sealed)
        result->crypts = tci_alloc_array(size, sizeof(struct tci_crypt *));
    if (config->labels != NULL && result->labels != NULL)
        memcpy(result->labels, config->labels, size * sizeof *result->labels);
    for (size_t k = 0; k < size && result->fds != NULL; k++)
        result->fds[k] = -1;
    return result->fds != NULL && result->addrs != NULL && result->hosts != NULL &&
           result->labels != NULL && (result->crypts != NULL) == is_sealed;
}

static void take_row(struct tci_boot_result *result, struct tci_row *row)
{
    TC_ASSERT(row->size == result->size);
    tci_row_take(row);
    for (int rank = 0; rank < row->size; rank++)
        result->fds[rank] = row->fds[rank];
    result->is_ring = row->is_ring;
    tci_row_forget(row);
}

/* Rank 0 listens at the rendezvous, if that is an address. */
static bool init_place(struct tci_place *place, const struct tci_boot_config *config)
{
    const char *text = config->listen_url != NULL ? config->listen_url : config->advertise;

    if (text == NULL || (config->rank == 0 && !tci_meet_is_meant(config->url)))
        return true;
    place->kind = config->listen_url != NULL ? TCI_PLACE_AT : TCI_PLACE_ADVERTISED;
    place->text = tci_strdup(text);
    return place->text != NULL;
}

/* ---- Start to finish ------------------------------------------------------------------------- */

tc_status_t tci_boot_listen(struct tci_boot *boot, const struct tci_addr *addrs, size_t count,
                            struct tci_addr *bound_out, struct tci_error *why)
{
    for (size_t k = 0; k < count; k++) {
        struct tci_error error = {.pub = {.status = TC_OK}};

        if (tci_sock_listen(&addrs[k], &boot->result.listener, bound_out, &error) == TC_OK)
            return TC_OK;
        if (k + 1 == count || (errno != EADDRNOTAVAIL && errno != EAFNOSUPPORT)) {
            tci_error_copy(why, &error);
            return error.pub.status;
        }
    }
    TC_UNREACHABLE();
}

tc_status_t tci_boot_listen_all(struct tci_boot *boot, uint16_t port, struct tci_addr *bound_out,
                                struct tci_error *why)
{
    struct tci_error first = {.pub = {.status = TC_OK}};
    struct tci_addr any;

    (void)tci_addr_from_text("::", port, &any);
    if (tci_sock_listen_both(&any, &boot->result.listener, bound_out, &first) == TC_OK)
        return TC_OK;
    if (errno != EAFNOSUPPORT && errno != EADDRNOTAVAIL) {
        tci_error_copy(why, &first);
        return first.pub.status;
    }
    (void)tci_addr_from_text("0.0.0.0", port, &any); /* IPv6 is switched off here */
    return tci_sock_listen(&any, &boot->result.listener, bound_out, why);
}

bool tci_boot_is_local(const struct tci_boot *boot)
{
    static const char name[] = "localhost", domain[] = ".localhost"; /* RFC 6761, section 6.3 */
    const char *host = boot->url.host;
    size_t len = strlen(host);
    struct tci_addr literal;

    if (tci_addr_from_text(host, boot->url.port, &literal))
        return tci_addr_is_loopback(&literal);
    return strcasecmp(host, name) == 0 ||
           (len >= sizeof domain && strcasecmp(host + len - (sizeof domain - 1), domain) == 0);
}

void tci_boot_hand_over(struct tci_boot *boot, int rank, struct tci_boot_conn *conn)
{
    struct tci_crypt *crypt;

    boot->result.fds[rank] = tci_boot_conn_release(conn, &crypt);
    TC_ASSERT(crypt == NULL || boot->result.crypts != NULL);
    if (crypt != NULL)
        boot->result.crypts[rank] = crypt;
}

static void end_role(struct tci_boot *boot)
{
    if (boot->has_begun)
        boot->role->fini(boot);
    boot->has_begun = false;
}

static void free_boot(struct tci_boot *boot)
{
    end_role(boot);
    boot->exec->ops->timer_clear(boot->exec, &boot->timer);
    tci_boot_result_fini(&boot->result);
    tci_free(boot->text);
    tci_free(boot->place.text);
    tci_free(boot->interfaces);
    tci_free(boot);
}

static void finish(struct tci_boot *boot)
{
    struct tci_boot_result result = {.listener = -1};
    struct tci_error error = {.pub = {.status = TC_OK}};
    tc_status_t status = boot->status;
    tci_boot_fn done = boot->done;
    void *arg = boot->arg;

    end_role(boot);
    if (status == TC_OK) {
        result = boot->result;
        boot->result = (struct tci_boot_result){.listener = -1};
    } else {
        tci_error_copy(&error, &boot->error);
    }
    free_boot(boot);
    done(arg, status, &error, status == TC_OK ? &result : NULL);
}

/* "fd00::1" is put into brackets; what is no host is refused as in an URL. */
static tc_status_t parse_advertised(struct tci_place *place, struct tci_error *error)
{
    bool is_bare = strchr(place->text, ':') != NULL && place->text[0] != '[';
    struct tci_error why = {.pub = {.status = TC_OK}};
    char url[300];

    (void)snprintf(url, sizeof url, is_bare ? "tcp://[%.256s]:1" : "tcp://%.256s:1", place->text);
    if (tci_url_parse(url, &place->url, &why) == TC_OK)
        return TC_OK;
    tci_error_set(error, TC_ERR_INVALID_ARG, -1, 0, "dist_init",
                  "the advertised host \"%.80s\" is none (%.150s): give an address or a name",
                  place->text, why.text);
    return TC_ERR_INVALID_ARG;
}

static tc_status_t parse_place(struct tci_place *place, struct tci_error *error)
{
    if (place->kind == TCI_PLACE_ADVERTISED)
        return parse_advertised(place, error);
    if (place->kind == TCI_PLACE_BESIDE || tci_url_parse(place->text, &place->url, error) != TC_OK)
        return error->pub.status;
    if (place->url.scheme != TCI_SCHEME_TCP)
        tci_error_set(error, TC_ERR_INVALID_ARG, -1, 0, "dist_init",
                      "listen URL \"%.80s\": a rank listens at tcp://host:port", place->text);
    return error->pub.status;
}

/* Ranks of a cluster are told from others by its name. */
static void meet_in_cluster(struct tci_boot *boot)
{
    const char *cluster = boot->url.cluster;

    boot->meeting.ports = TCI_CLUSTER_PORTS;
    (void)crypto_generichash(boot->meeting.job, sizeof boot->meeting.job,
                             (const unsigned char *)cluster, strlen(cluster), NULL, 0);
}

static tc_status_t check(struct tci_boot *boot)
{
    const struct tci_boot_result *result = &boot->result;
    tc_status_t status = TC_OK;

    if (boot->role != &tci_boot_row && tci_meet_is_meant(boot->text))
        status = tci_boot_check_meet(boot);
    else if (boot->role != &tci_boot_row)
        status = tci_url_parse(boot->text, &boot->url, &boot->error);
    if (status == TC_OK && boot->url.cluster[0] != '\0')
        meet_in_cluster(boot);
    if (status == TC_OK)
        status = parse_place(&boot->place, &boot->error);
    if (status != TC_OK)
        return status;
    if (boot->role != &tci_boot_row && boot->url.scheme == TCI_SCHEME_SINGLE)
        tci_error_set(&boot->error, TC_ERR_INVALID_ARG, -1, 0, "dist_init",
                      "rendezvous URL \"%.80s\": it is for a group of one, this has %d ranks",
                      boot->text, result->size);
    else if (result->size > TCI_BOOT_SIZE_MAX)
        tci_error_set(&boot->error, TC_ERR_INVALID_ARG, -1, 0, "dist_init",
                      "a group of %d ranks: at most %d can meet", result->size, TCI_BOOT_SIZE_MAX);
    else if (result->rank != 0 && result->listener >= 0)
        tci_error_set(&boot->error, TC_ERR_INVALID_ARG, result->rank, 0, "dist_init",
                      "rank %d was given a listening descriptor: the ranks meet at rank 0",
                      result->rank);
    return boot->error.pub.status;
}

static void begin(struct tci_boot *boot)
{
    tc_status_t status = check(boot);

    if (status != TC_OK) {
        tci_boot_end(boot, status);
        return;
    }
    boot->result.hosts[boot->result.rank] = tci_host_id();
    boot->has_begun = true;
    tci_boot_wake(boot, boot->deadline_ns);
    boot->role->begin(boot);
}

/* What is due by the time alone. */
static void speak(struct tci_boot *boot)
{
    uint64_t now_ns = tci_boot_now(boot);
    char time[32];

    if (now_ns >= ping_ns(boot)) {
        boot->has_pinged = true;
        if (boot->role->ping != NULL)
            boot->role->ping(boot);
    }
    if (now_ns >= say_ns(boot)) {
        (void)tci_boot_time_to(boot, boot->say_ns, time);
        boot->say_ns += boot->say_ns - boot->start_ns;
        boot->role->say(boot, time);
    }
}

static void on_timer(struct tci_timer *timer)
{
    struct tci_boot *boot = tci_container_of(timer, struct tci_boot, timer);

    if (boot->is_ended) {
        finish(boot);
        return;
    }
    if (boot->has_begun) {
        speak(boot);
        if (boot->is_ended)
            return;
        if (tci_boot_now(boot) < boot->wake_ns) {
            arm(boot);
            return;
        }
    }
    tci_boot_wake(boot, TCI_NEVER);
    if (boot->has_begun)
        boot->role->on_timer(boot);
    else
        begin(boot);
}

struct tci_boot *tci_boot_start(struct tci_loop *loop, const struct tci_boot_config *config,
                                tci_boot_fn done, void *arg)
{
    const struct tci_boot_role *role = config->row != NULL ? &tci_boot_row
                                       : config->rank == 0 ? &tci_boot_root
                                                           : &tci_boot_member;
    struct tci_boot *boot = tci_alloc(role->bytes);

    TC_ASSERT(config->size >= 2);
    TC_ASSERT(config->rank >= 0 && config->rank < config->size);
    if (boot == NULL) {
        if (config->listen_fd >= 0)
            close(config->listen_fd);
        return NULL;
    }
    boot->role = role;
    boot->loop = loop;
    boot->exec = tci_loop_exec(loop);
    boot->done = done;
    boot->arg = arg;
    boot->start_ns = tci_boot_now(boot);
    boot->deadline_ns = config->deadline_ns;
    boot->is_patient = config->is_patient;
    boot->say_ns = boot->start_ns + SAY_NS;
    boot->timer.fn = on_timer;
    boot->has_labels = config->labels != NULL;
    boot->meeting = config->meeting;
    boot->cpus = config->cpus;
    boot->meeting.ports = config->meeting.ports > 1 ? config->meeting.ports : 1;
    boot->text = tci_strdup(config->url);
    if (config->interfaces != NULL)
        boot->interfaces = tci_strdup(config->interfaces);
    if ((boot->interfaces == NULL) != (config->interfaces == NULL) ||
        !init_result(&boot->result, config) || boot->text == NULL ||
        !init_place(&boot->place, config) ||
        boot->exec->ops->timer_set(boot->exec, &boot->timer, 0) != 0) {
        free_boot(boot);
        return NULL;
    }
    if (config->row != NULL)
        take_row(&boot->result, config->row);
    return boot;
}

void tci_boot_cancel(struct tci_boot *boot)
{
    if (boot != NULL)
        free_boot(boot);
}
