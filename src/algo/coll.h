/* coll.h - what the public calls share: their arguments, checked. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_COLL_H
#define TCI_COLL_H

#include "core/comm.h"
#include "tcdist/collective.h"

/* A public call before it has been checked.  Fields that a call has not stay zero, but for root
 * and op, which are -1 then. */
struct tci_request {
    const char *name;
    enum tci_coll coll;
    uint64_t tag;
    const void *send;
    void *recv;
    size_t count;
    bool is_typed; /* has count and dtype */
    tc_dtype_t dtype;
    int op, root;
    bool is_rooted; /* root is the caller's, and has to be a rank */
    bool in_place;
    bool lacks_send, lacks_recv; /* this rank has no such buffer */
    /* The v-forms: all four lists, of one entry a rank; `count` is the largest count then, `total`
     * what all ranks have to agree on. */
    struct tci_blocks blocks;
    uint64_t total;
    const tc_options *options;
};

/* Check, choose, start.  Never NULL. */
tc_future *tci_coll_start(tc_dist_ctx *group, const struct tci_request *request);

/* Choose for a call whose other arguments have been checked.  TC_OK, or the cause in error. */
tc_status_t tci_coll_choose(struct tci_comm *comm, struct tci_op_args *args,
                            const tc_options *options, struct tci_error *error);

/* Write down what is wrong with an argument; gives false. */
__attribute__((format(printf, 3, 4))) bool tci_bad_arg(struct tci_error *error, const char *name,
                                                       const char *fmt, ...);
/* The parts that send and receive need too: false, with the cause in error. */
bool tci_check_options(const tc_options *options, const tc_context *context,
                       struct tci_error *error, const char *name);
bool tci_check_payload(const struct tci_request *request, size_t blocks, struct tci_error *error);
/* Copy what the options say, or their default, into args. */
void tci_apply_options(const struct tci_comm *comm, const tc_options *options,
                       struct tci_op_args *args);
tc_future *tci_refuse(const struct tci_comm *comm, const struct tci_error *error);
/* A future that has failed with TC_ERR_INVALID_ARG; `why` follows the name. */
__attribute__((format(printf, 3, 4))) tc_future *tci_refuse_arg(const tc_dist_ctx *group,
                                                                const char *name, const char *fmt,
                                                                ...);

#endif
