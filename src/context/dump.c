/* dump.c - copies of a trace: on request, from a signal handler, and when something has failed. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "dump.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/context.h"
#include "core/error.h"
#include "core/log.h"
#include "tcdist/trace.h"

/* Copies that a context leaves by itself: each is a megabyte, and the first ones say most.  Those
 * of one failure come together, and the first of them has all that led to it. */
enum { DUMPS_MAX = 4 };
#define DUMPS_APART_NS UINT64_C(1000000000)

/* Calls nothing that a signal handler may not: docs/tracing.md. */
static int write_all(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t done = write(fd, bytes, len);

        if (done < 0 && errno != EINTR)
            return -1;
        if (done > 0) {
            bytes += done;
            len -= (size_t)done;
        }
    }
    return 0;
}

static int write_trace(const struct tci_trace *trace, int fd)
{
    char piece[4096];
    size_t from = 0, len;
    uint64_t now = tci_trace_now();

    while ((len = tci_trace_piece(trace, from, sizeof(piece))) > 0) {
        tci_trace_copy(trace, from, len, piece);
        if (from == 0)
            memcpy(piece + offsetof(struct tci_trace_head, copied_ns), &now, sizeof(now));
        if (write_all(fd, piece, len) != 0)
            return -1;
        from += len;
    }
    return 0;
}

int tc_trace_dump_fd(const tc_context *context, int fd)
{
    int before = errno, rc = -1;

    if (context != NULL && context->trace != NULL)
        rc = write_trace(context->trace, fd);
    errno = before;
    return rc;
}

/* Under another name first: whoever finds the file finds all of it. */
static tc_status_t dump_to(const tc_context *context, const char *path, struct tci_error *error)
{
    char part[PATH_MAX];
    int fd, len = snprintf(part, sizeof(part), "%s.part", path);

    if (len >= (int)sizeof(part)) {
        tci_error_set(error, TC_ERR_INVALID_ARG, -1, 0, "trace_dump", "%.200s: %s", path,
                      strerror(ENAMETOOLONG));
        return TC_ERR_INVALID_ARG;
    }
    fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0 && write_trace(context->trace, fd) == 0 && close(fd) == 0) {
        if (rename(part, path) == 0)
            return TC_OK;
        fd = -1;
    }
    tci_error_set(error, TC_ERR_INVALID_ARG, -1, 0, "trace_dump", "cannot write %.200s: %s", path,
                  strerror(errno));
    if (fd >= 0)
        (void)close(fd);
    (void)unlink(part);
    return TC_ERR_INVALID_ARG;
}

tc_status_t tc_trace_dump(tc_context *context, const char *path)
{
    struct tci_error error = {0};

    if (context == NULL || path == NULL)
        return tci_fail(TC_ERR_INVALID_ARG, "trace_dump", "the context or the path is NULL");
    if (dump_to(context, path, &error) != TC_OK)
        return tci_error_publish(&error);
    return TC_OK;
}

/* ---- Counts --------------------------------------------------------------------------------- */

tc_status_t tc_context_stats(const tc_context *context, uint32_t abi_version, tc_stats *stats)
{
    const struct tci_trace_head *head;
    const tci_word *counters;

    if (context == NULL || context->trace == NULL || stats == NULL)
        return tci_fail(TC_ERR_INVALID_ARG, "context_stats", "the context or stats is NULL");
    if (abi_version != TC_STATS_ABI_VERSION)
        return tci_fail(TC_ERR_ABI_MISMATCH, "context_stats",
                        "tc_stats has version %u, this library %d: compile against its headers",
                        (unsigned)abi_version, TC_STATS_ABI_VERSION);
    head = context->trace->head;
    counters = head->counters;
    *stats = (tc_stats){
        .operations_begun = tci_word_get(&counters[TCI_COUNT_BEGUN]) + tci_word_get(&head->marks) -
                            tci_word_get(&head->stamps),
        .operations_finished =
            tci_word_get(&counters[TCI_COUNT_FINISHED]) + tci_word_get(&head->left_out),
        .operations_failed = tci_word_get(&counters[TCI_COUNT_FAILED]),
        .operation_bytes =
            tci_word_get(&counters[TCI_COUNT_OP_BYTES]) + tci_word_get(&head->left_out_bytes),
        .bytes_sent = tci_word_get(&counters[TCI_COUNT_BYTES_SENT]),
        .bytes_received = tci_word_get(&counters[TCI_COUNT_BYTES_RECEIVED]),
        .messages_sent = tci_word_get(&counters[TCI_COUNT_MESSAGES_SENT]),
        .messages_received = tci_word_get(&counters[TCI_COUNT_MESSAGES_RECEIVED]),
        .bytes_copied = tci_word_get(&counters[TCI_COUNT_BYTES_COPIED]),
        .strays = tci_word_get(&counters[TCI_COUNT_STRAYS]),
        .eager_bytes = tci_word_get(&counters[TCI_COUNT_EAGER_BYTES]),
        .links_open = tci_word_get(&counters[TCI_COUNT_LINKS_OPEN]),
        .bytes_kept = tci_word_get(&counters[TCI_COUNT_KEPT_BYTES]),
        .breaks = tci_word_get(&counters[TCI_COUNT_BREAKS]),
        .heals = tci_word_get(&counters[TCI_COUNT_HEALS]),
        .loop_stalls = tci_word_get(&counters[TCI_COUNT_STALLS]),
    };
    return TC_OK;
}

/* ---- On failure ----------------------------------------------------------------------------- */

/* What the application has brought about itself needs no explanation. */
static bool is_told(tc_status_t status)
{
    return status != TC_ERR_CANCELLED && status != TC_ERR_CLOSED;
}

void tci_dump_on_failure(void *arg, tc_status_t status)
{
    tc_context *context = arg;
    const struct tci_trace_head *head = context->trace->head;
    struct tci_error error = {0};
    uint64_t now = tci_trace_now();
    char path[PATH_MAX];

    if (!is_told(status) || context->dumps == DUMPS_MAX ||
        (context->dumps > 0 && now - context->dumped_ns < DUMPS_APART_NS))
        return;
    context->dumps++;
    context->dumped_ns = now;
    if (snprintf(path, sizeof(path), "%s/tcdist-%s-%llu-%llu.%u.dump", context->config.dump_dir,
                 head->host, (unsigned long long)head->pid, (unsigned long long)head->context,
                 context->dumps) >= (int)sizeof(path))
        return;
    if (dump_to(context, path, &error) != TC_OK)
        tci_log(TC_LOG_WARN, "the trace of a failure is lost: %s", error.text);
    else
        tci_log(TC_LOG_WARN, "an operation failed (%s): its trace is in %s, for tcdump%s",
                tc_status_string(status), path,
                context->dumps == DUMPS_MAX ? "; it is the last that this context leaves" : "");
}
