/* join_check.c - whether options are fit to form a group. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "group/group.h"
#include "group/names.h"
#include "meet/meet.h"
#include "net/addr.h"
#include "net/row.h"

static tc_status_t check(tc_context *context, const tc_dist_options *options, tc_dist_ctx **out,
                         struct tci_error *error)
{
    tc_status_t status = TC_ERR_INVALID_ARG;

    if (context == NULL || options == NULL || out == NULL)
        tci_error_set(error, status, -1, 0, "dist_init",
                      "dist_init: context, options and out may not be NULL");
    else if (options->abi_version != TC_DIST_OPTIONS_ABI_VERSION)
        tci_error_set(error, status = TC_ERR_ABI_MISMATCH, -1, 0, "dist_init",
                      "dist_init: options of version %u, the library has %d: fill them with "
                      "tc_dist_options_default",
                      options->abi_version, TC_DIST_OPTIONS_ABI_VERSION);
    else if (options->backend != TC_DIST_SINGLE && options->backend != TC_DIST_RING &&
             options->backend != TC_DIST_GLOO && options->backend != TC_DIST_ANY)
        tci_error_set(error, status, -1, 0, "dist_init",
                      "dist_init: backend %d is none of SINGLE (0), RING (1), GLOO (2), ANY (16)",
                      options->backend);
    else if (options->world_size < 1 || options->rank < 0 || options->rank >= options->world_size)
        tci_error_set(error, status, -1, 0, "dist_init",
                      "dist_init: rank %d of world size %d: ranks are 0 … world size - 1",
                      options->rank, options->world_size);
    else if (options->backend == TC_DIST_SINGLE && options->world_size != 1)
        tci_error_set(error, status, -1, 0, "dist_init",
                      "dist_init: the backend SINGLE is one process, not %d", options->world_size);
    else if (options->timeout_ms < -1)
        tci_error_set(error, status, -1, 0, "dist_init",
                      "dist_init: timeout_ms is %d, but must be positive, 0 (of the context) or -1 "
                      "(none)",
                      options->timeout_ms);
    else if (options->world_size > 1 && options->rendezvous_url == NULL)
        tci_error_set(error, status, -1, 0, "dist_init",
                      "dist_init: %d ranks need a rendezvous URL such as tcp://host:port",
                      options->world_size);
    return error->pub.status;
}

/* Whether descriptors can be all that a group is given. */
static tc_status_t check_row(const tc_dist_options *options, struct tci_error *error)
{
    struct tci_row row;

    if (options->identity != NULL)
        tci_error_set(
            error, TC_ERR_INVALID_ARG, -1, 0, "dist_init",
            "dist_init: identities are for ranks that meet at an URL, and these are given "
            "descriptors");
    else if (options->backend == TC_DIST_GLOO || options->listen_url != NULL ||
             options->listen_fd >= 0)
        tci_error_set(
            error, TC_ERR_INVALID_ARG, -1, 0, "dist_init",
            "dist_init: ranks that are given descriptors listen nowhere and meet nowhere: "
            "use the backend RING or ANY, without listen_url and listen_fd");
    else if (tci_row_parse(options->rendezvous_url, options->world_size, options->rank, &row,
                           error) == TC_OK)
        tci_row_forget(&row);
    return error->pub.status;
}

/* side:// stands for the caller's all-gather: the one goes with the other. */
static tc_status_t check_side(const tc_dist_options *options, struct tci_error *error)
{
    bool is_meant =
        options->rendezvous_url != NULL && strcmp(options->rendezvous_url, "side://") == 0;

    if (options->side_allgather != NULL && !is_meant)
        tci_error_set(error, TC_ERR_INVALID_ARG, -1, 0, "dist_init",
                      "dist_init: ranks meet by side_allgather or at \"%.80s\", not by both",
                      options->rendezvous_url);
    else if (is_meant && options->side_allgather == NULL)
        tci_error_set(error, TC_ERR_INVALID_ARG, -1, 0, "dist_init",
                      "dist_init: side:// needs side_allgather, which is NULL");
    return error->pub.status;
}

static tc_status_t check_url(const tc_dist_options *options, struct tci_error *error)
{
    struct tci_url url;

    if (options->identity != NULL && tci_name_check(options->identity, error) != TC_OK)
        return error->pub.status;
    if (check_side(options, error) != TC_OK)
        return error->pub.status;
    if (tci_row_is_meant(options->rendezvous_url))
        return check_row(options, error);
    if (tci_meet_is_meant(options->rendezvous_url))
        return tci_meet_check(options->rendezvous_url, error);
    if (options->rendezvous_url != NULL) {
        if (tci_url_parse(options->rendezvous_url, &url, error) != TC_OK)
            return error->pub.status;
        if (url.scheme == TCI_SCHEME_SINGLE && options->world_size != 1)
            tci_error_set(error, TC_ERR_INVALID_ARG, -1, 0, "dist_init",
                          "dist_init: single:// is one process, not %d", options->world_size);
    }
    if (options->listen_url != NULL && tci_url_parse(options->listen_url, &url, error) == TC_OK &&
        url.scheme != TCI_SCHEME_TCP)
        tci_error_set(error, TC_ERR_INVALID_ARG, -1, 0, "dist_init",
                      "dist_init: listen_url is \"%.80s\": a rank listens at tcp://host:port",
                      options->listen_url);
    return error->pub.status;
}

tc_status_t tci_join_check(tc_context *context, const tc_dist_options *options, tc_dist_ctx **out,
                           struct tci_error *error)
{
    tc_status_t status = check(context, options, out, error);

    return status == TC_OK ? check_url(options, error) : status;
}
