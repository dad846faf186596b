/* gloo.c - the variables of the gloo backend, and the route of each all-reduce. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "gloo.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "core/base.h"
#include "group/reach.h"
#include "group/ring_group.h"

enum { CONNECT_MS = 3000, CONNECT_MS_MIN = 10, CONNECT_MS_MAX = 60000 };

static const char gloo_scheme[] = "gloo+tcp://";

/* ---- Variables ------------------------------------------------------------------------------ */

static tc_status_t refuse(struct tci_error *error, const char *name, const char *text,
                          const char *allowed)
{
    tci_error_set(error, TC_ERR_INVALID_ARG, -1, 0, "dist_init", "%s is \"%.80s\", but must be %s",
                  name, text, allowed);
    return TC_ERR_INVALID_ARG;
}

static tc_status_t read_switch(const char *name, bool *out, struct tci_error *error)
{
    const char *text = getenv(name);

    *out = text != NULL && strcmp(text, "1") == 0;
    if (*out || text == NULL || *text == '\0' || strcmp(text, "0") == 0)
        return TC_OK;
    return refuse(error, name, text, "1 or 0");
}

static tc_status_t read_connect_ms(int *out, struct tci_error *error)
{
    static const char name[] = "TC_GLOO_RING_CONNECT_TIMEOUT_MS";
    const char *text = getenv(name);
    char *end;
    long value;

    *out = CONNECT_MS;
    if (text == NULL || *text == '\0')
        return TC_OK;
    value = strtol(text, &end, 10);
    if (!isdigit((unsigned char)*text) || *end != '\0' || value < CONNECT_MS_MIN ||
        value > CONNECT_MS_MAX)
        return refuse(error, name, text, "milliseconds from 10 to 60000");
    *out = (int)value;
    return TC_OK;
}

static tc_status_t read_advertised(const tc_dist_options *options, char **out,
                                   struct tci_error *error)
{
    static const char name[] = "TC_GLOO_ADVERTISE_HOSTS";
    const char *one = getenv("TC_GLOO_ADVERTISE_HOST");

    if (one != NULL && tci_reach_copy(one, strlen(one), out, error) != TC_OK)
        return error->pub.status;
    return *out != NULL ? TC_OK : tci_reach_entry(name, getenv(name), options, out, error);
}

static bool applies(const tc_dist_options *options)
{
    const char *url = options->rendezvous_url;

    if (options->world_size == 1)
        return false;
    return options->backend == TC_DIST_GLOO ||
           (options->backend == TC_DIST_ANY && url != NULL &&
            strncmp(url, gloo_scheme, sizeof(gloo_scheme) - 1) == 0);
}

tc_status_t tci_gloo_read(const tc_dist_options *options, struct tci_gloo *gloo,
                          struct tci_error *error)
{
    tc_status_t status;

    *gloo = (struct tci_gloo){.applies = applies(options)};
    if (!gloo->applies)
        return TC_OK;
    status = read_switch("TC_GLOO_RING", &gloo->wants_ring, error);
    if (status == TC_OK)
        status = read_switch("TC_GLOO_TRACE", &gloo->traces, error);
    if (status == TC_OK)
        status = read_connect_ms(&gloo->connect_ms, error);
    if (status == TC_OK)
        status = read_advertised(options, &gloo->advertise, error);
    return status;
}

void tci_gloo_fini(struct tci_gloo *gloo)
{
    tci_free(gloo->advertise);
    gloo->advertise = NULL;
}

/* ---- The route of a call -------------------------------------------------------------------- */

/* Asked at every call, as programs expect that change it while they run. */
static bool is_ring_off(void)
{
    const char *text = getenv("TC_GLOO_NO_RING");

    return text != NULL && *text != '\0' && strcmp(text, "0") != 0;
}

/* A plan between neighbours that keeps what the numerics promise; NULL: there is none. */
static const char *ring_plan(const struct tci_call *call, int numerics)
{
    bool is_integer = call->dtype != TC_DTYPE_F16 && call->dtype != TC_DTYPE_BF16 &&
                      call->dtype != TC_DTYPE_F32 && call->dtype != TC_DTYPE_F64 &&
                      call->dtype != TC_DTYPE_F8E4M3 && call->dtype != TC_DTYPE_F8E5M2 &&
                      call->dtype != TC_DTYPE_C64;
    const char *name = numerics == TC_NUMERICS_FAST ? "ring" : "wide_chain";

    if (numerics != TC_NUMERICS_FAST && numerics != TC_NUMERICS_CANONICAL)
        return NULL;
    if (numerics == TC_NUMERICS_FAST && is_integer && call->op == TC_REDUCE_AVG)
        return NULL; /* partial sums may wrap */
    return name;
}

const char *tci_gloo_advise(struct tci_comm *comm, const struct tci_advice *advice,
                            struct tci_error *error)
{
    const tc_dist_ctx *group = tci_container_of(comm, tc_dist_ctx, comm);

    (void)error;
    if (advice->named != NULL || advice->call->coll != TCI_COLL_ALLREDUCE ||
        comm->algorithm[0] != '\0' || is_ring_off())
        return advice->named;
    if (group->route == TCI_ROUTE_RING)
        return ring_plan(advice->call, advice->numerics);
    return group->route == TCI_ROUTE_STAR ? "centralized" : NULL;
}

void tci_gloo_trace(struct tci_comm *comm, const struct tci_call *call, const char *algorithm)
{
    const tc_dist_ctx *group = tci_container_of(comm, tc_dist_ctx, comm);
    bool is_ring = group->route == TCI_ROUTE_RING && tci_ring_has(TCI_COLL_ALLREDUCE, algorithm);

    if (call->coll != TCI_COLL_ALLREDUCE)
        return;
    fprintf(stderr, "[tcdist:gloo rank %d] allreduce_%s_%s route=%s\n", comm->rank,
            tc_dtype_name((tc_dtype_t)call->dtype), tc_reduce_op_name((tc_reduce_op_t)call->op),
            is_ring ? "ring" : "broker");
}
