/* config.c - settings of a context, from the application and from the environment. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "algo/algo.h"
#include "context/environment.h"
#include "context/key.h"
#include "context/layout.h"
#include "context/share.h"
#include "context/table.h"
#include "context/trace_file.h"
#include "core/alloc.h"
#include "core/base.h"
#include "rdma/options.h"
#include "tcdist/log.h"

#define TIMEOUT_MS    30000
#define TUNE_EVERY_MS 60000
#define SEGMENT_BYTES ((size_t)4 << 20)  /* four of them are in flight */
#define EAGER_BYTES   ((size_t)64 << 10) /* above it one copy costs more than a round trip */
#define TRACE_EVENTS  8192

#define SIZE_BYTES_MAX   ((uint64_t)1 << 40)
#define TRACE_EVENTS_MAX ((uint64_t)1 << 24)
#define SPIN_US_MAX      1000000
#define CONNECTIONS_MAX  8

static const char *const mode_names[] = {"thread", "manual", "host"};
static const char *const numerics_names[] = {"default", "canonical", "fast", "exact"};
static const char *const check_names[] = {"default", "cheap", "full"};
static const char *const log_names[] = {"error", "warn", "info", "debug"};

/* ---- Words and numbers ---------------------------------------------------------------------- */

static tc_status_t refuse(struct tci_error *error, const char *what, const char *text,
                          const char *allowed)
{
    tci_error_set(error, TC_ERR_INVALID_ARG, -1, 0, "init", "%s is \"%.40s\", but must be %s", what,
                  text, allowed);
    return TC_ERR_INVALID_ARG;
}

/* Place of a word in a list, or -1. */
static int find_word(const char *word, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(word, words[i]) == 0)
            return (int)i;
    return -1;
}

/* Digits alone: no sign, no space, no unit. */
static bool parse_number(const char *text, uint64_t max, uint64_t *out)
{
    uint64_t value = 0;

    if (*text == '\0')
        return false;
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9')
            return false;
        value = value * 10 + (uint64_t)(*text - '0');
        if (value > max)
            return false;
    }
    *out = value;
    return true;
}

/* Seconds with a fraction, whatever the locale, in whole milliseconds, rounded up. */
static bool parse_seconds(const char *text, int *ms_out)
{
    const char *dot = strchr(text, '.');
    char whole[16];
    size_t len = dot == NULL ? strlen(text) : (size_t)(dot - text);
    uint64_t seconds, ms = 0, scale = 100;

    if (len == 0 || len >= sizeof(whole) || (dot != NULL && dot[1] == '\0'))
        return false;
    memcpy(whole, text, len);
    whole[len] = '\0';
    if (!parse_number(whole, INT_MAX / 1000 - 1, &seconds))
        return false;
    if (dot != NULL) {
        bool has_rest = false;

        for (const char *digit = dot + 1; *digit != '\0'; digit++) {
            if (*digit < '0' || *digit > '9')
                return false;
            has_rest = has_rest || (scale == 0 && *digit != '0');
            ms += scale * (uint64_t)(*digit - '0');
            scale /= 10;
        }
        ms += has_rest;
    }
    *ms_out = (int)(seconds * 1000 + ms);
    return *ms_out > 0;
}

/* ---- Fields --------------------------------------------------------------------------------- */

static tc_status_t resolve_mode(tc_config *config, struct tci_error *error)
{
    static const char allowed[] = "thread, manual or host";
    const char *text = getenv("TCDIST_LOOP_MODE");

    if (config->loop_mode < -1 || config->loop_mode > TC_LOOP_HOST) {
        tci_error_set(
            error, TC_ERR_INVALID_ARG, -1, 0, "init",
            "loop_mode %d is none of TC_LOOP_…: -1 (not set), 0 (thread), 1 (manual), 2 (host)",
            config->loop_mode);
        return TC_ERR_INVALID_ARG;
    }
    if (config->loop_mode == -1 && text != NULL) {
        config->loop_mode = find_word(text, mode_names, TCI_LEN(mode_names));
        if (config->loop_mode < 0)
            return refuse(error, "TCDIST_LOOP_MODE", text, allowed);
        if (config->loop_mode == TC_LOOP_HOST && config->reactor == NULL)
            return refuse(error, "TCDIST_LOOP_MODE", text,
                          "thread or manual: this program lends no event loop, and nothing would "
                          "turn the library's; one that does sets tc_config.loop_mode itself");
    } else if (config->loop_mode == -1) {
        config->loop_mode = TC_LOOP_THREAD;
    }
    if (config->reactor != NULL && config->loop_mode != TC_LOOP_HOST)
        return refuse(error, "loop_mode", mode_names[config->loop_mode],
                      "host when a reactor is given");
    return TC_OK;
}

static tc_status_t resolve_timeout(tc_config *config, struct tci_error *error)
{
    const char *name = "TCDIST_TIMEOUT", *text = getenv(name);

    if (config->timeout_ms < -1) {
        tci_error_set(error, TC_ERR_INVALID_ARG, -1, 0, "init",
                      "timeout_ms is %d, but must be positive, 0 (not set) or -1 (none)",
                      config->timeout_ms);
        return TC_ERR_INVALID_ARG;
    }
    if (config->timeout_ms != 0)
        return TC_OK;
    config->timeout_ms = TIMEOUT_MS;
    if (text == NULL)
        text = getenv(name = "NUVEC_DISTRIBUTED_TIMEOUT");
    if (text == NULL)
        return TC_OK;
    if (strcmp(text, "none") == 0)
        config->timeout_ms = -1;
    else if (!parse_seconds(text, &config->timeout_ms))
        return refuse(error, name, text, "a time in seconds, like 30 or 0.5, above 0, or none");
    return TC_OK;
}

/* What is not set stays 0: the timeout of operations counts, and nobody has said that ranks may
 * come late. */
static tc_status_t resolve_start(tc_config *config, struct tci_error *error)
{
    const char *text = getenv("TCDIST_START_TIMEOUT");

    if (config->start_timeout_ms < -1) {
        tci_error_set(error, TC_ERR_INVALID_ARG, -1, 0, "init",
                      "start_timeout_ms is %d, but must be positive, 0 (not set) or -1 (none)",
                      config->start_timeout_ms);
        return TC_ERR_INVALID_ARG;
    }
    if (config->start_timeout_ms != 0 || text == NULL)
        return TC_OK;
    if (strcmp(text, "none") == 0)
        config->start_timeout_ms = -1;
    else if (!parse_seconds(text, &config->start_timeout_ms))
        return refuse(error, "TCDIST_START_TIMEOUT", text,
                      "a time in seconds, like 30 or 0.5, above 0, or none");
    return TC_OK;
}

/* After resolve_timeout(). */
static tc_status_t resolve_heal(tc_config *config, struct tci_error *error)
{
    const char *text = getenv("TCDIST_HEAL");

    if (config->heal_ms < -1) {
        tci_error_set(error, TC_ERR_INVALID_ARG, -1, 0, "init",
                      "heal_ms is %d, but must be positive, 0 (not set) or -1 (never)",
                      config->heal_ms);
        return TC_ERR_INVALID_ARG;
    }
    if (config->heal_ms != 0)
        return TC_OK;
    config->heal_ms = (config->timeout_ms > 0 ? config->timeout_ms : TIMEOUT_MS) / 2;
    if (config->heal_ms == 0)
        config->heal_ms = 1;
    if (text == NULL)
        return TC_OK;
    if (strcmp(text, "none") == 0)
        config->heal_ms = -1;
    else if (!parse_seconds(text, &config->heal_ms))
        return refuse(error, "TCDIST_HEAL", text,
                      "a time in seconds, like 15 or 0.5, above 0, or none");
    return TC_OK;
}

static tc_status_t resolve_numerics(tc_config *config, struct tci_error *error)
{
    const char *text = getenv("TCDIST_NUMERICS");

    if (config->numerics < TC_NUMERICS_DEFAULT || config->numerics > TC_NUMERICS_EXACT) {
        tci_error_set(
            error, TC_ERR_INVALID_ARG, -1, 0, "init",
            "numerics %d is none of TC_NUMERICS_…: 0 (default), 1 (canonical), 2 (fast), 3 (exact)",
            config->numerics);
        return TC_ERR_INVALID_ARG;
    }
    if (config->numerics != TC_NUMERICS_DEFAULT)
        return TC_OK;
    config->numerics = TC_NUMERICS_CANONICAL;
    if (text == NULL)
        return TC_OK;
    config->numerics = find_word(text, numerics_names, TCI_LEN(numerics_names));
    if (config->numerics <= TC_NUMERICS_DEFAULT)
        return refuse(error, "TCDIST_NUMERICS", text, "canonical, fast or exact");
    return TC_OK;
}

static tc_status_t resolve_check(tc_config *config, struct tci_error *error)
{
    const char *text = getenv("TCDIST_CHECK");

    if (config->check < TC_CHECK_DEFAULT || config->check > TC_CHECK_FULL) {
        tci_error_set(error, TC_ERR_INVALID_ARG, -1, 0, "init",
                      "check %d is none of TC_CHECK_…: 0 (default), 1 (cheap), 2 (full)",
                      config->check);
        return TC_ERR_INVALID_ARG;
    }
    if (config->check != TC_CHECK_DEFAULT)
        return TC_OK;
    config->check = TC_CHECK_CHEAP;
    if (text == NULL)
        return TC_OK;
    config->check = find_word(text, check_names, TCI_LEN(check_names));
    if (config->check <= TC_CHECK_DEFAULT)
        return refuse(error, "TCDIST_CHECK", text, "cheap or full");
    return TC_OK;
}

/* "oneshot, direct, …": each algorithm that users may name, once. */
static void list_algorithms(char *text, size_t room)
{
    size_t len = 0;

    text[0] = '\0';
    for (size_t i = 0; tci_plans[i] != NULL; i++) {
        const char *name = tci_plans[i]->name;
        size_t first = 0;

        while (strcmp(tci_plans[first]->name, name) != 0)
            first++;
        if (first != i || !tci_plans[i]->is_used || tci_plans[i]->coll == TCI_COLL_P2P ||
            len >= room)
            continue;
        len += (size_t)snprintf(text + len, room - len, "%s%s", len == 0 ? "one of " : ", ", name);
    }
}

static bool is_algorithm(const char *name)
{
    for (size_t i = 0; tci_plans[i] != NULL; i++)
        if (tci_plans[i]->coll != TCI_COLL_P2P && strcmp(tci_plans[i]->name, name) == 0)
            return true;
    return false;
}

static tc_status_t resolve_algorithm(tc_config *config, struct tci_error *error)
{
    const char *what = "algorithm", *text = config->algorithm;
    char allowed[200];

    config->algorithm = NULL;
    if (text == NULL) {
        what = "TCDIST_ALGORITHM";
        text = getenv(what);
    }
    if (text == NULL)
        return TC_OK;
    if (!is_algorithm(text)) {
        list_algorithms(allowed, sizeof(allowed));
        return refuse(error, what, text, allowed);
    }
    config->algorithm = tci_strdup(text);
    if (config->algorithm == NULL)
        tci_error_set(error, TC_ERR_ALLOC, -1, 0, "init", "no memory for settings");
    return error->pub.status;
}

static tc_status_t resolve_hosts(tc_config *config, struct tci_error *error)
{
    const char *what = "hosts", *text = config->hosts;

    config->hosts = NULL;
    if (text == NULL) {
        what = "TCDIST_HOSTS";
        text = getenv(what);
    }
    if (text != NULL && !tci_layout_is_one(text))
        return refuse(error, what, text, TCI_LAYOUT_ALLOWED);
    config->hosts = tci_strdup(text != NULL ? text : "auto");
    if (config->hosts == NULL)
        tci_error_set(error, TC_ERR_ALLOC, -1, 0, "init", "no memory for settings");
    return error->pub.status;
}

static tc_status_t resolve_rdma(tc_config *config, struct tci_error *error)
{
    const char *what = "rdma", *text = config->rdma;
    struct tci_rdma_options options;

    config->rdma = NULL;
    if (text == NULL) {
        what = "TCDIST_RDMA";
        text = getenv(what);
    }
    if (!tci_rdma_options_parse(text, &options))
        return refuse(error, what, text, TCI_RDMA_ALLOWED);
    config->rdma = tci_strdup(text != NULL ? text : "auto");
    if (config->rdma == NULL)
        tci_error_set(error, TC_ERR_ALLOC, -1, 0, "init", "no memory for settings");
    return error->pub.status;
}

/* A folder that is named, or none: "" is none, too. */
static tc_status_t resolve_dir(const char **dir, const char *name, struct tci_error *error)
{
    const char *text = *dir != NULL ? *dir : getenv(name);

    *dir = NULL;
    if (text == NULL || *text == '\0')
        return error->pub.status;
    *dir = tci_strdup(text);
    if (*dir == NULL)
        tci_error_set(error, TC_ERR_ALLOC, -1, 0, "init", "no memory for settings");
    return error->pub.status;
}

/* A file of the trace is made at once; one that a failure leaves must not fail for want of a
 * folder then. */
static tc_status_t check_dump_dir(const tc_config *config, struct tci_error *error)
{
    struct stat seen;
    int wrong = 0;

    if (config->dump_dir == NULL)
        return TC_OK;
    if (stat(config->dump_dir, &seen) != 0 || access(config->dump_dir, W_OK | X_OK) != 0)
        wrong = errno;
    else if (!S_ISDIR(seen.st_mode))
        wrong = ENOTDIR;
    if (wrong == 0)
        return TC_OK;
    tci_error_set(
        error, TC_ERR_INVALID_ARG, -1, 0, "init",
        "no trace can be left in %.200s: %s; TCDIST_DUMP_DIR, or tc_config.dump_dir, is a "
        "folder that may be written to",
        config->dump_dir, strerror(wrong));
    return TC_ERR_INVALID_ARG;
}

static const char *const tune_names[] = {
    [TCI_TUNE_OFF] = "off", [TCI_TUNE_AUTO] = "auto", [TCI_TUNE_MEASURE] = "measure"};

enum tci_tune tci_config_tune(const tc_config *config)
{
    int tune = find_word(config->tune, tune_names, TCI_LEN(tune_names));

    return tune < 0 ? TCI_TUNE_TABLE : (enum tci_tune)tune;
}

/* A table is read once to see that it is one; the group's rank 0 reads it again. */
static tc_status_t resolve_tune(tc_config *config, struct tci_error *error)
{
    const char *text = config->tune != NULL ? config->tune : getenv("TCDIST_TUNE");
    struct tci_table table;

    config->tune = tci_strdup(text != NULL ? text : tune_names[TCI_TUNE_AUTO]);
    if (config->tune == NULL)
        tci_error_set(error, TC_ERR_ALLOC, -1, 0, "init", "no memory for settings");
    else if (tci_config_tune(config) == TCI_TUNE_TABLE &&
             tci_table_load(config->tune, &table, error) == TC_OK)
        tci_table_fini(&table);
    return error->pub.status;
}

static tc_status_t resolve_tune_every(tc_config *config, struct tci_error *error)
{
    const char *text = getenv("TCDIST_TUNE_EVERY");

    if (config->tune_every_ms < -1) {
        tci_error_set(error, TC_ERR_INVALID_ARG, -1, 0, "init",
                      "tune_every_ms is %d, but must be positive, 0 (not set) or -1 (never)",
                      config->tune_every_ms);
        return TC_ERR_INVALID_ARG;
    }
    if (config->tune_every_ms != 0)
        return TC_OK;
    config->tune_every_ms = TUNE_EVERY_MS;
    if (text == NULL)
        return TC_OK;
    if (strcmp(text, "never") == 0)
        config->tune_every_ms = -1;
    else if (!parse_seconds(text, &config->tune_every_ms))
        return refuse(error, "TCDIST_TUNE_EVERY", text,
                      "a time in seconds, like 60 or 0.5, above 0, or never");
    return TC_OK;
}

static tc_status_t resolve_size(size_t *value, const char *name, uint64_t max, size_t standard,
                                struct tci_error *error)
{
    const char *text = getenv(name);
    uint64_t parsed;
    char allowed[64];

    if (*value > max) {
        tci_error_set(error, TC_ERR_INVALID_ARG, -1, 0, "init",
                      "the setting behind %s is %zu, but at most %llu is possible", name, *value,
                      (unsigned long long)max);
        return TC_ERR_INVALID_ARG;
    }
    if (*value != 0)
        return TC_OK;
    *value = standard;
    if (text == NULL)
        return TC_OK;
    if (!parse_number(text, max, &parsed) || parsed == 0) {
        snprintf(allowed, sizeof(allowed), "a number from 1 to %llu", (unsigned long long)max);
        return refuse(error, name, text, allowed);
    }
    *value = (size_t)parsed;
    return TC_OK;
}

static tc_status_t resolve_spin(tc_config *config, struct tci_error *error)
{
    const char *text = getenv("TCDIST_SPIN_US");
    uint64_t parsed;

    if (config->spin_us < -1 || config->spin_us > SPIN_US_MAX) {
        tci_error_set(error, TC_ERR_INVALID_ARG, -1, 0, "init",
                      "spin_us is %d, but must be -1 (adaptive) to %d", config->spin_us,
                      SPIN_US_MAX);
        return TC_ERR_INVALID_ARG;
    }
    if (config->spin_us != -1 || text == NULL || strcmp(text, "adaptive") == 0)
        return TC_OK;
    if (!parse_number(text, SPIN_US_MAX, &parsed))
        return refuse(error, "TCDIST_SPIN_US", text, "microseconds from 0 to 1000000, or adaptive");
    config->spin_us = (int)parsed;
    return TC_OK;
}

/* The level is the process's: it is left alone when nobody has an opinion. */
static tc_status_t resolve_log(tc_config *config, struct tci_error *error)
{
    const char *what = "log_level", *text = config->log_level;
    int level;

    if (text == NULL) {
        what = "TCDIST_LOG";
        text = getenv(what);
    }
    config->log_level = log_names[TC_LOG_WARN];
    if (text == NULL)
        return TC_OK;
    level = find_word(text, log_names, TCI_LEN(log_names));
    if (level < 0)
        return refuse(error, what, text, "error, warn, info or debug");
    config->log_level = log_names[level];
    tc_log_set_level((tc_log_level_t)level);
    return TC_OK;
}

/* ---- All of it ------------------------------------------------------------------------------ */

void tc_config_default(tc_config *config)
{
    if (config == NULL)
        return;
    *config = (tc_config){.abi_version = TC_CONFIG_ABI_VERSION, .loop_mode = -1, .spin_us = -1};
}

static tc_status_t resolve_all(tc_config *config, struct tci_error *error)
{
    tc_status_t status = resolve_mode(config, error);

    if (status == TC_OK)
        status = resolve_timeout(config, error);
    if (status == TC_OK)
        status = resolve_start(config, error);
    if (status == TC_OK)
        status = resolve_heal(config, error);
    if (status == TC_OK)
        status = check_dump_dir(config, error);
    if (status == TC_OK)
        status = resolve_tune_every(config, error);
    if (status == TC_OK)
        status = resolve_numerics(config, error);
    if (status == TC_OK)
        status = resolve_check(config, error);
    if (status == TC_OK)
        status = resolve_size(&config->segment_bytes, "TCDIST_SEGMENT_BYTES", SIZE_BYTES_MAX,
                              SEGMENT_BYTES, error);
    if (status == TC_OK)
        status = resolve_size(&config->eager_bytes, "TCDIST_EAGER_BYTES", SIZE_BYTES_MAX,
                              EAGER_BYTES, error);
    if (status == TC_OK)
        status = resolve_size(&config->trace_events, "TCDIST_TRACE_EVENTS", TRACE_EVENTS_MAX,
                              TRACE_EVENTS, error);
    if (status == TC_OK)
        status = tci_trace_resolve(config, error);
    if (status == TC_OK)
        status =
            resolve_size(&config->connections, "TCDIST_CONNECTIONS", CONNECTIONS_MAX, 1, error);
    if (status == TC_OK)
        status = resolve_spin(config, error);
    if (status == TC_OK)
        status = tci_share_check(error);
    if (status == TC_OK)
        status = resolve_log(config, error);
    return status;
}

tc_status_t tci_config_resolve(const tc_config *from, tc_config *to, struct tci_error *error)
{
    tc_status_t status;

    tc_config_default(to);
    if (from != NULL && from->abi_version != TC_CONFIG_ABI_VERSION) {
        tci_error_set(error, TC_ERR_ABI_MISMATCH, -1, 0, "init",
                      "tc_config has version %u, this library %d: call tc_config_default() first, "
                      "and compile against its headers",
                      (unsigned)from->abi_version, TC_CONFIG_ABI_VERSION);
        return TC_ERR_ABI_MISMATCH;
    }
    if (from != NULL)
        *to = *from;
    /* First, and all of them: no borrowed string is left after a failure. */
    status = resolve_algorithm(to, error);
    if (resolve_hosts(to, error) != TC_OK)
        status = error->pub.status;
    if (resolve_rdma(to, error) != TC_OK)
        status = error->pub.status;
    if (resolve_tune(to, error) != TC_OK)
        status = error->pub.status;
    if (tci_key_resolve(to, error) != TC_OK)
        status = error->pub.status;
    if (resolve_dir(&to->trace_dir, "TCDIST_TRACE_DIR", error) != TC_OK)
        status = error->pub.status;
    if (resolve_dir(&to->dump_dir, "TCDIST_DUMP_DIR", error) != TC_OK)
        status = error->pub.status;
    if (status == TC_OK)
        status = resolve_all(to, error);
    tci_environment_check(); /* a misspelt variable may be why it failed */
    return status;
}

void tci_config_fini(tc_config *config)
{
    tci_key_fini(config);
    tci_free((void *)(uintptr_t)config->algorithm);
    config->algorithm = NULL;
    tci_free((void *)(uintptr_t)config->hosts);
    config->hosts = NULL;
    tci_free((void *)(uintptr_t)config->rdma);
    config->rdma = NULL;
    tci_free((void *)(uintptr_t)config->tune);
    config->tune = NULL;
    tci_free((void *)(uintptr_t)config->trace_dir);
    config->trace_dir = NULL;
    tci_free((void *)(uintptr_t)config->dump_dir);
    config->dump_dir = NULL;
}
