/* auth.h - keys by which peers prove who they are; the structs are tensorcore's. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCDIST_AUTH_H
#define TCDIST_AUTH_H

#include <stddef.h>
#include <stdint.h>

#include "tcdist/export.h"

TC_BEGIN_DECLS

#define TC_TRANSPORT_AUTH_ABI_VERSION_1       UINT32_C(1)
#define TC_TRANSPORT_AUTH_ABI_VERSION_CURRENT TC_TRANSPORT_AUTH_ABI_VERSION_1

#define TC_TRANSPORT_AUTH_MIN_SECRET_BYTES   ((size_t)32)
#define TC_TRANSPORT_AUTH_MAX_IDENTITY_BYTES ((size_t)127)

/* A secret that belongs to an identity.  Several keys of one identity, told apart by key_id, allow
 * a change of keys while ranks run. */
typedef struct tc_transport_auth_key {
    const char *identity; /* printable ASCII, 1 to 127 characters */
    uint64_t key_id;      /* not 0 */
    const void *secret;   /* any bytes, at least 32 of them */
    size_t secret_bytes;
} tc_transport_auth_key;

/* Who this endpoint is, and whom it trusts.  Read during the call it is given to. */
typedef struct tc_transport_auth_config {
    uint32_t abi_version;              /* TC_TRANSPORT_AUTH_ABI_VERSION_CURRENT; checked */
    const char *local_identity;        /* of this endpoint */
    uint64_t active_key_id;            /* its key for new connections; must be among `keys` */
    const tc_transport_auth_key *keys; /* of this endpoint and of its peers; each pair of identity
                                        * and key_id once */
    size_t key_count;
} tc_transport_auth_config;

TC_END_DECLS

#endif
