/* backend.c - what carries a group, by its name: which names there are, and what each takes. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "backend.h"

#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "core/base.h"
#include "net/shm.h"
#include "rdma/rdma.h"

static const char *without_nothing(char *why, size_t room)
{
    (void)why;
    (void)room;
    return NULL;
}

static const char *without_shm(char *why, size_t room)
{
    const char *text = getenv("TCDIST_SHM");

    (void)why;
    (void)room;
    if (text != NULL && strcmp(text, "0") == 0)
        return "TCDIST_SHM=0 switches shared memory off";
    return tci_shm_is_built() ? NULL
                              : "this build cannot share memory: the system lacks what that takes";
}

static const char *without_rdma(char *why, size_t room)
{
    struct tci_rdma_options options;
    const char *text = getenv("TCDIST_RDMA");

    if (!tci_rdma_options_parse(text, &options))
        return "TCDIST_RDMA is wrong";
    if (options.mode == TCI_RDMA_OFF)
        return "TCDIST_RDMA=0 switches it off";
    return tci_rdma_can(&options, why, room) ? NULL : why;
}

static const struct {
    const char *name;
    int backend;
    enum tci_carrier carrier;
    const char *(*without)(char *why, size_t room); /* what is missing; NULL: it is there */
} backends[] = {
    {"any", TC_DIST_ANY, TCI_CARRY_ANY, without_nothing},
    {"ring", TC_DIST_RING, TCI_CARRY_ANY, without_nothing},
    {"tcp", TC_DIST_ANY, TCI_CARRY_TCP, without_nothing},
    {"shm", TC_DIST_ANY, TCI_CARRY_SHM, without_shm},
    {"rdma", TC_DIST_ANY, TCI_CARRY_RDMA, without_rdma},
    {"jaccl", TC_DIST_ANY, TCI_CARRY_RDMA, without_rdma},
    {"gloo", TC_DIST_GLOO, TCI_CARRY_ANY, without_nothing},
    {"single", TC_DIST_SINGLE, TCI_CARRY_ANY, without_nothing},
};

/* "any, ring, tcp, …" */
static const char *list(char *text, size_t room)
{
    size_t len = 0;

    for (size_t i = 0; i < TCI_LEN(backends) && len < room; i++) {
        size_t part = strlen(backends[i].name);

        if (len + part + 3 > room)
            break;
        if (i > 0) {
            memcpy(text + len, ", ", 2);
            len += 2;
        }
        memcpy(text + len, backends[i].name, part);
        len += part;
    }
    text[len] = '\0';
    return text;
}

tc_status_t tci_backend_read(const char *name, int *backend_out, enum tci_carrier *carrier_out,
                             struct tci_error *error)
{
    char names[128], why[300];

    if (name[0] == '\0')
        name = "any";
    for (size_t i = 0; i < TCI_LEN(backends); i++) {
        const char *lacks;

        if (strcmp(name, backends[i].name) != 0)
            continue;
        lacks = backends[i].without(why, sizeof(why));
        if (lacks != NULL) {
            tci_error_set(error, TC_ERR_UNSUPPORTED, -1, 0, "dist_init",
                          "the backend %s cannot be used here: %s", name, lacks);
            return TC_ERR_UNSUPPORTED;
        }
        *backend_out = backends[i].backend;
        *carrier_out = backends[i].carrier;
        return TC_OK;
    }
    tci_error_set(error, TC_ERR_INVALID_ARG, -1, 0, "dist_init",
                  "there is no backend \"%.40s\"; there are %s", name, list(names, sizeof(names)));
    return TC_ERR_INVALID_ARG;
}

tc_status_t tci_backend_fits(enum tci_carrier carrier, const struct tci_boot_result *result,
                             struct tci_error *error)
{
    if (carrier != TCI_CARRY_SHM || result->local_ranks == (unsigned)result->size)
        return TC_OK;
    tci_error_set(
        error, TC_ERR_UNSUPPORTED, -1, 0, "dist_init",
        "the backend shm is for ranks of one host: %u of %d are on that of rank %d; use any",
        result->local_ranks, result->size, result->rank);
    return TC_ERR_UNSUPPORTED;
}

tc_status_t tc_dist_available(const char *backend)
{
    struct tci_error error = {.pub = {.status = TC_OK}};
    enum tci_carrier carrier;
    int number;

    return tci_backend_read(backend == NULL ? "" : backend, &number, &carrier, &error) == TC_OK
               ? TC_OK
               : tci_error_publish(&error);
}
