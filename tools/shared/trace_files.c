/* trace_files.c - traces of processes, read from files and folders. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "trace_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The largest ring that the library makes takes less. */
#define BYTES_MAX ((off_t)4 << 30)

/* ---- One file ------------------------------------------------------------------------------- */

static bool read_all(int fd, uint8_t *bytes, size_t len)
{
    size_t done = 0;

    while (done < len) {
        ssize_t more = pread(fd, bytes + done, len - done, (off_t)done);

        if (more == 0) {
            errno = EIO; /* it has shrunk */
            return false;
        }
        if (more < 0 && errno != EINTR)
            return false;
        if (more > 0)
            done += (size_t)more;
    }
    return true;
}

static void short_text(const char *path, char *text, size_t room)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? 0 : read(fd, text, room - 1);

    if (fd >= 0)
        close(fd);
    text[len > 0 ? len : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
}

/* A process number is used again after a while: the time of its start tells. */
static bool runs(uint64_t pid, uint64_t start)
{
    char path[64], text[1024];
    const char *at;

    snprintf(path, sizeof(path), "/proc/%llu/stat", (unsigned long long)pid);
    short_text(path, text, sizeof(text));
    at = strrchr(text, ')');
    if (at == NULL || at[1] == '\0' || at[2] == 'Z' || at[2] == 'X')
        return false;
    for (int field = 2; at != NULL && field < 22; field++)
        at = strchr(at + 1, ' ');
    return at != NULL && strtoull(at, NULL, 10) == start;
}

static uint64_t last_event_ns(const struct tci_trace_view *view)
{
    struct tci_trace_seen event;
    uint64_t last = 0;

    for (uint64_t n = tci_trace_view_first(view); n < view->next; n++)
        if (tci_trace_view_event(view, n, &event) && event.end_ns > last)
            last = event.end_ns;
    return last;
}

static int rank_of(const struct tci_trace_view *view)
{
    struct tci_trace_seen_group group;
    uint64_t since = 0;
    int rank = -1;

    for (uint32_t i = 0; i < view->tables[TCI_TRACE_GROUPS].count; i++)
        if (tci_trace_view_group(view, i, &group) && group.since_ns >= since) {
            since = group.since_ns;
            rank = (int)group.shown;
        }
    return rank;
}

static void look_at(struct trace_file *file)
{
    const struct tci_trace_view *view = &file->view;
    uint64_t last = last_event_ns(view);
    char boot_id[64];

    short_text("/proc/sys/kernel/random/boot_id", boot_id, sizeof(boot_id));
    file->is_here = boot_id[0] != '\0' && strcmp(boot_id, view->boot_id) == 0;
    file->is_alive = file->is_here && view->ended_ns == 0 && runs(view->pid, view->process_start);
    if (view->copied_ns != 0)
        file->seen_ns = view->copied_ns;
    else if (file->is_alive)
        file->seen_ns = tci_trace_now();
    else
        file->seen_ns = view->loop_ns > last ? view->loop_ns : last;
    if (file->seen_ns < view->ended_ns)
        file->seen_ns = view->ended_ns;
    file->rank = rank_of(view);
}

/* Two copies, since its process may write: see tci_trace_merge_copies. */
static const char *load(struct trace_file *file, int fd, size_t len)
{
    uint8_t *bytes = malloc(len + 1), *later = malloc(len + 1);
    const char *wrong = NULL;

    if (bytes == NULL || later == NULL)
        wrong = "there is no memory for it";
    else if (!read_all(fd, bytes, len) || !read_all(fd, later, len))
        wrong = strerror(errno);
    else
        wrong = tci_trace_view_open(&file->view, bytes, len);
    if (wrong == NULL) {
        tci_trace_merge_copies(&file->view, bytes, later);
        free(file->bytes);
        file->bytes = bytes;
        look_at(file);
    } else {
        free(bytes);
    }
    free(later);
    return wrong;
}

static const char *load_path(struct trace_file *file, const char *path)
{
    const char *wrong = NULL;
    struct stat facts;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);

    if (fd < 0)
        return strerror(errno);
    if (fstat(fd, &facts) != 0)
        wrong = strerror(errno);
    else if (!S_ISREG(facts.st_mode))
        wrong = "it is no file";
    else if (facts.st_size > BYTES_MAX)
        wrong = "it is too long for a trace";
    else
        wrong = load(file, fd, (size_t)facts.st_size);
    close(fd);
    return wrong;
}

/* ---- Many ----------------------------------------------------------------------------------- */

static const char *add_file(struct trace_files *files, const char *path)
{
    struct trace_file *more = realloc(files->at, (files->count + 1) * sizeof(*more));
    struct trace_file file = {.path = strdup(path)};
    const char *wrong = "there is no memory for it";

    if (more != NULL)
        files->at = more;
    if (more != NULL && file.path != NULL)
        wrong = load_path(&file, path);
    if (wrong == NULL)
        files->at[files->count++] = file;
    else
        free(file.path);
    return wrong;
}

static bool has_end(const char *name, const char *end)
{
    size_t len = strlen(name), end_len = strlen(end);

    return len > end_len && strcmp(name + len - end_len, end) == 0;
}

static void add_folder(struct trace_files *files, DIR *folder, const char *path, const char *tool)
{
    const struct dirent *entry;
    char inside[PATH_MAX];

    while ((entry = readdir(folder)) != NULL) {
        const char *wrong;

        if ((!has_end(entry->d_name, ".trace") && !has_end(entry->d_name, ".dump")) ||
            snprintf(inside, sizeof(inside), "%s/%s", path, entry->d_name) >= (int)sizeof(inside))
            continue;
        wrong = add_file(files, inside);
        if (wrong != NULL)
            fprintf(stderr, "%s: %s is left out: %s\n", tool, inside, wrong);
    }
}

bool trace_files_add(struct trace_files *files, const char *path, const char *tool)
{
    DIR *folder = opendir(path);
    const char *wrong;

    if (folder != NULL) {
        add_folder(files, folder, path, tool);
        closedir(folder);
        return true;
    }
    wrong = add_file(files, path);
    if (wrong != NULL)
        fprintf(stderr, "%s: %s: %s\n", tool, path, wrong);
    return wrong == NULL;
}

static void free_file(struct trace_file *file)
{
    free(file->path);
    free(file->bytes);
}

void trace_files_fini(struct trace_files *files)
{
    for (size_t i = 0; i < files->count; i++)
        free_file(&files->at[i]);
    free(files->at);
    *files = (struct trace_files){NULL, 0, 0};
}

/* ---- Which of them -------------------------------------------------------------------------- */

static int compare(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

/* Copies of one trace side by side, what is to stay first. */
static int compare_copies(const void *left, const void *right)
{
    const struct trace_file *a = left, *b = right;
    int order = strcmp(a->view.boot_id, b->view.boot_id);

    if (order == 0)
        order = compare(a->view.pid, b->view.pid);
    if (order == 0)
        order = compare(a->view.process_start, b->view.process_start);
    if (order == 0)
        order = compare(a->view.context, b->view.context);
    if (order == 0 && (a->view.copied_ns == 0) != (b->view.copied_ns == 0))
        order = a->view.copied_ns == 0 ? -1 : 1;
    return order != 0 ? order : -compare(a->view.copied_ns, b->view.copied_ns);
}

bool trace_files_are_same(const struct trace_file *a, const struct trace_file *b)
{
    return strcmp(a->view.boot_id, b->view.boot_id) == 0 && a->view.pid == b->view.pid &&
           a->view.process_start == b->view.process_start && a->view.context == b->view.context;
}

static int compare_ranks(const void *left, const void *right)
{
    const struct trace_file *a = left, *b = right;

    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    return strcmp(a->path, b->path);
}

static void leave_out(struct trace_files *files, const bool *is_kept)
{
    size_t kept = 0;

    for (size_t i = 0; i < files->count; i++) {
        if (is_kept[i])
            files->at[kept++] = files->at[i];
        else
            free_file(&files->at[i]);
    }
    files->left_out += files->count - kept;
    files->count = kept;
}

void trace_files_sort(struct trace_files *files)
{
    bool *is_kept = calloc(files->count + 1, sizeof(*is_kept));

    if (files->count == 0 || is_kept == NULL) {
        free(is_kept);
        return;
    }
    qsort(files->at, files->count, sizeof(*files->at), compare_copies);
    for (size_t i = 0; i < files->count; i++)
        is_kept[i] = i == 0 || !trace_files_are_same(&files->at[i - 1], &files->at[i]);
    leave_out(files, is_kept);
    qsort(files->at, files->count, sizeof(*files->at), compare_ranks);
    free(is_kept);
}

/* ---- Jobs ----------------------------------------------------------------------------------- */

static bool share_job(const struct trace_file *a, const struct trace_file *b)
{
    struct tci_trace_seen_group one, other;

    for (uint32_t i = 0; i < a->view.tables[TCI_TRACE_GROUPS].count; i++)
        for (uint32_t k = 0;
             tci_trace_view_group(&a->view, i, &one) && k < b->view.tables[TCI_TRACE_GROUPS].count;
             k++)
            if (tci_trace_view_group(&b->view, k, &other) &&
                memcmp(one.job, other.job, sizeof(one.job)) == 0)
                return true;
    return false;
}

/* Wall-clock time of a moment of a file's clock. */
static int64_t wall_of(const struct trace_file *file, uint64_t ns)
{
    return (int64_t)(ns + (file->view.clock_wall_ns - file->view.clock_ns));
}

static int64_t seen_wall(const struct trace_file *file)
{
    return wall_of(file, file->seen_ns);
}

void trace_files_keep_last_job(struct trace_files *files)
{
    bool *is_kept = calloc(files->count + 1, sizeof(*is_kept));
    size_t last = 0;
    int64_t begin;

    if (files->count < 2 || is_kept == NULL) {
        free(is_kept);
        return;
    }
    for (size_t i = 1; i < files->count; i++)
        if ((files->at[i].rank >= 0) > (files->at[last].rank >= 0) ||
            ((files->at[i].rank >= 0) == (files->at[last].rank >= 0) &&
             seen_wall(&files->at[i]) > seen_wall(&files->at[last])))
            last = i;
    is_kept[last] = true;
    begin = wall_of(&files->at[last], files->at[last].view.opened_ns);
    for (size_t i = 0; i < files->count; i++)
        is_kept[i] = is_kept[i] || share_job(&files->at[last], &files->at[i]) ||
                     (files->at[i].rank < 0 && seen_wall(&files->at[i]) >= begin);
    leave_out(files, is_kept);
    free(is_kept);
}
