/* order.h - what an agent is told to start: one block of bytes, written here and read there. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCRUN_ORDER_H
#define TCRUN_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ORDER_FILES_MAX = 4, ORDER_STRINGS_MAX = 65536 };

/* A file that every rank finds by a variable, such as MLX_HOSTFILE. */
struct order_file {
    const char *variable;
    const char *text;
};

struct order_rank {
    unsigned rank;
    char **env;     /* NAME=VALUE, NULL at its end */
    bool has_ended; /* not told: for whoever starts it */
};

/* What is pointed to lies in the block, or belongs to whoever writes one. */
struct order {
    struct order_rank *ranks;
    unsigned rank_count;
    char **command; /* NULL at its end */
    const char *cwd;
    bool needs_cwd;    /* else the ranks run where they can, if it is not there */
    bool has_input;    /* they read what the tunnel brings */
    bool first_alone;  /* only the first one does */
    bool keeps_traces; /* files of traces are wanted */
    bool binds;        /* each to its share of the processors */
    bool tells;        /* and it is said to which */
    bool has_listener; /* the first one inherits the socket that the agent listens at */
    struct order_file files[ORDER_FILES_MAX];
    unsigned file_count;
    char **strings; /* a reader's: owned; where env and command point to */
    size_t string_count;
};

/* Makes the block, which the caller frees; NULL: out of memory. */
char *order_write(const struct order *order, size_t *len_out);

/* Reads a block, which must live as long as the order; false: it is no order.  order_fini() either
 * way. */
bool order_read(struct order *order, char *block, size_t len);
void order_fini(struct order *order);

#endif
