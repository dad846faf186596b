/* file.c - rank 0 leaves word in a file that all ranks see. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base.h"
#include "core/random.h"
#include "meet/store.h"

/* With the name of the file beside it, which is written and then takes its place. */
enum { PATH_BYTES = 1024, SUFFIX_BYTES = 40 };

static tc_status_t check(const char *url, struct tci_error *error)
{
    const char *path = tci_store_rest(url, "file");
    size_t len = strlen(path);

    if (path[0] != '/' || path[len - 1] == '/')
        return tci_store_refuse(error, url, "write file:///path/of/a/file, from the root on");
    if (len >= PATH_BYTES - SUFFIX_BYTES)
        return tci_store_refuse(error, url, "the path is longer than 980 characters");
    return TC_OK;
}

static tc_status_t open_file(struct tci_store *store, struct tci_error *error)
{
    (void)store;
    (void)error;
    return TC_OK;
}

static void close_file(struct tci_store *store)
{
    (void)store;
}

static tc_status_t fail(struct tci_error *error, const char *doing, const char *path)
{
    int cause = errno;
    tc_status_t status = cause == ENOENT || cause == EACCES || cause == EROFS || cause == ENOTDIR
                             ? TC_ERR_INVALID_ARG
                             : TC_ERR_RENDEZVOUS;

    tci_error_set(error, status, 0, 0, "dist_init", "%s %.150s: %s", doing, path, strerror(cause));
    return status;
}

#ifdef S_ISVTX
enum { SHARED = S_ISVTX };
#else
enum { SHARED = S_IWOTH };
#endif

/* The one that the file is in, or is to be. */
static int stat_folder(const char *path, char folder[PATH_BYTES], struct stat *status_out)
{
    char *slash;

    (void)snprintf(folder, PATH_BYTES, "%s", path);
    slash = strrchr(folder, '/');
    slash[slash == folder] = '\0';
    return stat(folder, status_out);
}

/* In a folder where everybody may leave files, one of somebody else's is no card of ours. */
static bool is_trusted(const char *path, const struct stat *file)
{
    char folder[PATH_BYTES];
    struct stat status;

    return stat_folder(path, folder, &status) != 0 || (status.st_mode & SHARED) == 0 ||
           file->st_uid == geteuid() || file->st_uid == 0;
}

/* What is in the file: TC_OK, TC_PENDING where it is empty or not there. */
static tc_status_t read_file(const char *path, char *text, struct tci_error *error)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat status;
    ssize_t got = -1;

    if (fd < 0)
        return errno == ENOENT ? TC_PENDING : fail(error, "cannot read", path);
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && is_trusted(path, &status))
        got = read(fd, text, TCI_CARD_TEXT - 1);
    close(fd);
    if (got < 0) {
        tci_error_set(error, TC_ERR_RENDEZVOUS, 0, 0, "dist_init",
                      "%.150s is no file of this user's", path);
        return TC_ERR_RENDEZVOUS;
    }
    text[got] = '\0';
    text[strcspn(text, "\n")] = '\0';
    return text[0] == '\0' ? TC_PENDING : TC_OK;
}

/* A folder that is not there may be made yet, or come with a file system that is mounted late. */
static tc_status_t get(struct tci_store *store, char *card, struct tci_error *error)
{
    const char *path = tci_store_rest(store->url, "file");
    char folder[PATH_BYTES];
    struct stat unused;
    tc_status_t status = read_file(path, card, error);

    store->is_nowhere =
        status == TC_PENDING && stat_folder(path, folder, &unused) != 0 && errno == ENOENT;
    if (!store->is_nowhere)
        return status;
    tci_error_set(error, TC_ERR_RENDEZVOUS, 0, 0, "dist_init", "there is no folder %.120s here",
                  folder);
    return TC_ERR_RENDEZVOUS;
}

/* A card of a process that runs is no leftover: two jobs have one path. */
static tc_status_t check_old(const struct tci_store *store, const char *path,
                             struct tci_error *error)
{
    char text[TCI_CARD_TEXT];
    struct tci_card old;
    tc_status_t status = read_file(path, text, error);

    if (status == TC_PENDING)
        return TC_OK;
    if (status != TC_OK)
        return status;
    if (!tci_card_parse(text, &old)) {
        tci_error_set(error, TC_ERR_INVALID_ARG, 0, 0, "dist_init",
                      "%.150s holds something else than a card of a rank 0: give a path of its own "
                      "to each job",
                      path);
        return TC_ERR_INVALID_ARG;
    }
    if (tci_card_is_own(&old, store->host) || tci_card_is_dead(&old, store->host) ||
        old.host != store->host)
        return TC_OK;
    tci_error_set(error, TC_ERR_BUSY, 0, 0, "dist_init",
                  "%.150s is in use: process %llu of this host waits there for its ranks; give a "
                  "path of its own to each job",
                  path, (unsigned long long)old.pid);
    return TC_ERR_BUSY;
}

static tc_status_t write_card(const char *path, const char *card, struct tci_error *error)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    size_t len = strlen(card);
    bool is_written;

    if (fd < 0)
        return fail(error, "cannot write", path);
    is_written = write(fd, card, len) == (ssize_t)len && fsync(fd) == 0;
    if (close(fd) == 0 && is_written)
        return TC_OK;
    (void)fail(error, "cannot write", path);
    (void)unlink(path);
    return error->pub.status;
}

/* Who reads sees the old file or the new one, and never a part. */
static tc_status_t put(struct tci_store *store, const char *card, struct tci_error *error)
{
    const char *path = tci_store_rest(store->url, "file");
    char beside[PATH_BYTES];
    uint64_t number = 0;
    tc_status_t status = check_old(store, path, error);

    if (status != TC_OK)
        return status;
    if (!tci_random(&number, sizeof(number)))
        number = (uint64_t)getpid();
    (void)snprintf(beside, sizeof(beside), "%s.%016llx", path, (unsigned long long)number);
    status = write_card(beside, card, error);
    if (status == TC_OK && rename(beside, path) != 0) {
        status = fail(error, "cannot put a card at", path);
        (void)unlink(beside);
    }
    return status;
}

static tc_status_t del(struct tci_store *store, const char *card, struct tci_error *error)
{
    const char *path = tci_store_rest(store->url, "file");
    char text[TCI_CARD_TEXT];

    if (read_file(path, text, error) == TC_OK && strcmp(text, card) == 0 && unlink(path) != 0)
        return fail(error, "cannot remove", path);
    return TC_OK;
}

const struct tci_store_ops tci_store_file = {
    .scheme = "file",
    .check = check,
    .open = open_file,
    .close = close_file,
    .put = put,
    .get = get,
    .del = del,
};
