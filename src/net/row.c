/* row.c - descriptors that a caller gives instead of a meeting point: "fd://3,4". */
/* SPDX-License-Identifier: Apache-2.0 */
#include "net/row.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/base.h"

static const char scheme[] = "fd://";

bool tci_row_is_meant(const char *url)
{
    return url != NULL && strncmp(url, scheme, sizeof(scheme) - 1) == 0;
}

/* All refusals: "rendezvous URL "fd://1": …". */
#define REFUSE(error, text, ...)                                                                   \
    (tci_error_set(error, TC_ERR_INVALID_ARG, -1, 0, "dist_init",                                  \
                   "rendezvous URL \"%.80s\": " __VA_ARGS__),                                      \
     TC_ERR_INVALID_ARG)

static bool is_connected(int fd)
{
    struct sockaddr_storage peer;
    socklen_t len = sizeof peer, type_len = sizeof(int);
    int type = 0;

    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_len) == 0 && type == SOCK_STREAM &&
           getpeername(fd, (struct sockaddr *)&peer, &len) == 0;
}

/* One entry of the list, up to its comma; *fd is -1 for "-". */
static tc_status_t parse_entry(const char *url, const char *at, size_t len, int *fd,
                               struct tci_error *error)
{
    char *end;
    long value;

    *fd = -1;
    if (len == 1 && *at == '-')
        return TC_OK;
    value = strtol(at, &end, 10);
    if (len == 0 || *at < '0' || *at > '9' || end != at + len || value > INT_MAX)
        return REFUSE(error, url, "\"%.*s\" is no descriptor", url, (int)tci_min(len, 40), at);
    if (!is_connected((int)value))
        return REFUSE(error, url, "descriptor %ld is no connected stream socket", url, value);
    *fd = (int)value;
    return TC_OK;
}

struct list {
    int count, dashes, dash_at;
    int first[2]; /* of the ring form */
};

/* Reads the list; fills fds where there is a place for the entry. */
static tc_status_t parse_list(const char *url, const struct tci_row *row, struct list *list,
                              struct tci_error *error)
{
    const char *at = url + sizeof(scheme) - 1;

    for (;;) {
        size_t len = strcspn(at, ",");
        int fd;

        if (parse_entry(url, at, len, &fd, error) != TC_OK)
            return error->pub.status;
        for (int k = 0; k < list->count && k < row->size && fd >= 0; k++)
            if (row->fds[k] == fd && row->size != 2)
                return REFUSE(error, url, "descriptor %d is there twice", url, fd);
        if (fd < 0) {
            list->dashes++;
            list->dash_at = list->count;
        }
        if (list->count < 2)
            list->first[list->count] = fd;
        if (list->count < row->size)
            row->fds[list->count] = fd;
        list->count++;
        if (at[len] == '\0')
            return TC_OK;
        at += len + 1;
    }
}

/* "fd://LEFT,RIGHT".  Of two ranks both lead to the same one, and the connection that rank 0 calls
 * right is used. */
static tc_status_t place_neighbours(const char *url, struct tci_row *row, int rank,
                                    const struct list *list, struct tci_error *error)
{
    int left = (rank + row->size - 1) % row->size, right = (rank + 1) % row->size;
    int to_left = list->first[0], to_right = list->count == 2 ? list->first[1] : to_left;

    if (list->count > 2 || (list->count == 1 && row->size != 2))
        return REFUSE(error, url,
                      "%d descriptors: give those of the ranks before and after this one, or one a "
                      "rank with \"-\" in its own place",
                      url, list->count);
    for (int k = 0; k < row->size; k++)
        row->fds[k] = -1;
    row->fds[left] = to_left;
    row->fds[right] = to_right;
    if (row->size == 2 && to_left != to_right) {
        row->fds[left] = rank == 0 ? to_right : to_left;
        row->spare = rank == 0 ? to_left : to_right;
    }
    row->is_ring = row->size > 3;
    return TC_OK;
}

static tc_status_t parse(const char *url, int rank, struct tci_row *row, struct tci_error *error)
{
    struct list list = {0};

    if (row->size < 2)
        return REFUSE(error, url, "it links two ranks and more, this is one", url);
    if (parse_list(url, row, &list, error) != TC_OK)
        return error->pub.status;
    if (list.dashes == 0)
        return place_neighbours(url, row, rank, &list, error);
    if (list.dashes != 1 || list.dash_at != rank || list.count != row->size)
        return REFUSE(error, url,
                      "a list with \"-\" has one descriptor for each of %d ranks, and \"-\" in "
                      "place %d, of this one",
                      url, row->size, rank);
    return TC_OK;
}

tc_status_t tci_row_parse(const char *url, int size, int rank, struct tci_row *row_out,
                          struct tci_error *error)
{
    struct tci_row row = {.size = size, .spare = -1};

    row.fds = tci_alloc_array((size_t)size, sizeof(int));
    if (row.fds == NULL) {
        tci_error_set(error, TC_ERR_ALLOC, -1, 0, "dist_init", "dist_init: no memory left");
        return TC_ERR_ALLOC;
    }
    if (parse(url, rank, &row, error) != TC_OK) {
        tci_free(row.fds);
        return error->pub.status;
    }
    *row_out = row;
    return TC_OK;
}

static void own(int fd)
{
    int flags = fcntl(fd, F_GETFL);

    (void)fcntl(fd, F_SETFL, flags | O_NONBLOCK);
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
}

void tci_row_take(struct tci_row *row)
{
    for (int rank = 0; rank < row->size; rank++)
        if (row->fds[rank] >= 0)
            own(row->fds[rank]);
    if (row->spare >= 0)
        close(row->spare);
    row->spare = -1;
}

void tci_row_discard(const char *url)
{
    int last = -1;

    if (!tci_row_is_meant(url))
        return;
    for (const char *at = url + sizeof(scheme) - 1; at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        if (*at < '0' || *at > '9' || atoi(at) == last || !is_connected(atoi(at)))
            continue;
        last = atoi(at);
        close(last);
    }
}

void tci_row_forget(struct tci_row *row)
{
    tci_free(row->fds);
    *row = (struct tci_row){.spare = -1};
}

void tci_row_close(struct tci_row *row)
{
    for (int rank = 0; rank < row->size && row->fds != NULL; rank++)
        if (row->fds[rank] >= 0)
            close(row->fds[rank]);
    if (row->size > 0 && row->spare >= 0)
        close(row->spare);
    tci_row_forget(row);
}
