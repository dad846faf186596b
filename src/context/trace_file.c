/* trace_file.c - a trace in a mapped file, which is there after the process was killed. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "trace_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "context/dump.h"
#include "core/meter.h"
#include "core/pages.h"
#include "core/trace_op.h"
#include "tcdist/version.h"

/* ---- Who writes ----------------------------------------------------------------------------- */

/* A short file of /proc, without the newline at its end; "" where there is none. */
static void read_text(const char *path, char *text, size_t room)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? 0 : read(fd, text, room - 1);

    if (fd >= 0)
        close(fd);
    text[len > 0 ? len : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
}

/* Field 22 of /proc/self/stat; the second one may contain anything, in parentheses. */
static uint64_t process_start(void)
{
    char text[1024];
    const char *at;

    read_text("/proc/self/stat", text, sizeof(text));
    at = strrchr(text, ')');
    for (int field = 2; at != NULL && field < 22; field++)
        at = strchr(at + 1, ' ');
    return at == NULL ? 0 : strtoull(at, NULL, 10);
}

static void identify(struct tci_trace_head *head, uint64_t number)
{
    char name[HOST_NAME_MAX + 1] = "";

    head->pid = (uint64_t)getpid();
    head->process_start = process_start();
    head->context = number;
    head->opened_ns = tci_trace_now();
    snprintf(head->library, sizeof(head->library), "%d.%d.%d", TC_VERSION_MAJOR, TC_VERSION_MINOR,
             TC_VERSION_PATCH);
    read_text("/proc/sys/kernel/random/boot_id", head->boot_id, sizeof(head->boot_id));
    read_text("/proc/self/comm", head->program, sizeof(head->program));
    gethostname(name, sizeof(name) - 1);
    snprintf(head->host, sizeof(head->host), "%.63s", name);
}

/* ---- The file ------------------------------------------------------------------------------- */

static tc_status_t refuse(struct tci_error *error, const char *path, const char *doing)
{
    const char *why = strerror(errno);

    tci_error_set(error, TC_ERR_INVALID_ARG, -1, 0, "init",
                  "%s %.200s for the trace: %s; TCDIST_TRACE_DIR, or tc_config.trace_dir, is a "
                  "folder with room",
                  doing, path, why);
    return TC_ERR_INVALID_ARG;
}

/* The name says where it comes from; its rank is not known yet. */
static tc_status_t make_file(const char *dir, uint64_t number, char path[PATH_MAX], int *fd_out,
                             struct tci_error *error)
{
    char host[HOST_NAME_MAX + 1] = "";
    int len;

    gethostname(host, sizeof(host) - 1);
    len = snprintf(path, PATH_MAX, "%s/tcdist-%s-%d-%llu.trace", dir, host, (int)getpid(),
                   (unsigned long long)number);
    if (len >= PATH_MAX) {
        errno = ENAMETOOLONG;
        return refuse(error, dir, "cannot use");
    }
    /* One of an earlier process with this number of the same machine gives way. */
    (void)unlink(path);
    *fd_out = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    return *fd_out < 0 ? refuse(error, path, "cannot make") : TC_OK;
}

/* All its blocks are there before it is written to: a full disk shows now, and not as a signal. */
static void *map_file(int fd, size_t bytes, const char *path, struct tci_error *error)
{
    int failed = tci_pages_reserve(fd, bytes);
    void *image;

    if (failed != 0) {
        errno = failed;
        (void)refuse(error, path, "cannot find room in");
        return NULL;
    }
    image = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (image != MAP_FAILED)
        return image;
    (void)refuse(error, path, "cannot map");
    return NULL;
}

static void unmap(struct tci_trace *trace)
{
    size_t bytes = (size_t)trace->head->file_bytes;

    tci_word_set(&trace->head->ended_ns, tci_trace_now());
    (void)munmap(trace->head, bytes);
}

static struct tci_trace *open_in_file(const tc_config *config, uint64_t number,
                                      struct tci_error *error)
{
    size_t bytes = tci_trace_bytes(config->trace_events);
    struct tci_trace *trace = NULL;
    char path[PATH_MAX];
    void *image;
    int fd = -1;

    if (make_file(config->trace_dir, number, path, &fd, error) != TC_OK)
        return NULL;
    image = map_file(fd, bytes, path, error);
    close(fd);
    if (image != NULL) {
        trace = tci_trace_new_in(config->trace_events, image);
        if (trace == NULL)
            (void)munmap(image, bytes);
    }
    if (trace == NULL)
        (void)unlink(path);
    else
        trace->on_end = unmap;
    return trace;
}

/* ---- Settings ------------------------------------------------------------------------------- */

tc_status_t tci_trace_resolve(tc_config *config, struct tci_error *error)
{
    const char *text = getenv("TCDIST_TRACE_ALL");

    if (config->trace_all < -1 || config->trace_all > 1) {
        tci_error_set(error, TC_ERR_INVALID_ARG, -1, 0, "init",
                      "trace_all is %d, but must be 1 (all), -1 (not all) or 0 (not set)",
                      config->trace_all);
        return TC_ERR_INVALID_ARG;
    }
    if (config->trace_all != 0)
        return TC_OK;
    config->trace_all = text != NULL && strcmp(text, "1") == 0 ? 1 : -1;
    if (text == NULL || strcmp(text, "1") == 0 || strcmp(text, "0") == 0)
        return TC_OK;
    tci_error_set(error, TC_ERR_INVALID_ARG, -1, 0, "init",
                  "TCDIST_TRACE_ALL is \"%.40s\", but must be 1 or 0", text);
    return TC_ERR_INVALID_ARG;
}

/* ---- The trace ------------------------------------------------------------------------------ */

struct tci_trace *tci_trace_open(tc_context *context, struct tci_error *error)
{
    static atomic_ullong contexts; /* relaxed: a counter */
    uint64_t number = atomic_fetch_add_explicit(&contexts, 1, memory_order_relaxed) + 1;
    const tc_config *config = &context->config;
    struct tci_trace *trace = config->trace_dir != NULL ? open_in_file(config, number, error)
                                                        : tci_trace_new(config->trace_events);

    if (trace == NULL) {
        if (error->pub.status == TC_OK)
            tci_error_set(error, TC_ERR_ALLOC, -1, 0, "init", "no memory for %zu trace events",
                          config->trace_events);
        return NULL;
    }
    identify(trace->head, number);
    trace->sample = tci_meter_sample;
    trace->sample_arg = context;
    trace->flood.keeps_all = config->trace_all == 1;
    trace->flood.promote = tci_trace_op_promote;
    trace->flood.promote_arg = context;
    if (config->dump_dir != NULL) {
        trace->on_failure = tci_dump_on_failure;
        trace->failure_arg = context;
    }
    return trace;
}
