/* processors.h - the processors that this process may use, and equal shares of them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROCESSORS_H
#define PROCESSORS_H

#include <stdbool.h>
#include <stddef.h>

#define PROCESSORS_ROOT "/sys/devices/system/cpu" /* where the system says how they lie */

struct processor {
    unsigned number; /* as the system counts them */
    unsigned node;   /* NUMA node */
    unsigned package;
    unsigned core; /* the least number of those of the same core */
};

/* Those that lie together follow one another: nodes, packages, cores, numbers. */
struct processors {
    struct processor *at; /* owned */
    unsigned count, cores;
};

/* From first to before end, of those in `at`. */
struct share {
    unsigned first, end;
};

/* Those of this process.  Returns 0, or an errno with nothing to free. */
int processors_read(struct processors *processors);
void processors_fini(struct processors *processors);

/* Finds out how `count` processors with their numbers lie, from the files below root, and puts them
 * in order.  Of what is not said there, each is taken for a core, and all for one node. */
void processors_order(struct processors *processors, const char *root);

/* What number `index` of `of` gets: whole cores where there is one for each, else whole processors,
 * as equal as may be; one, dealt out in turn, where there are not enough of those: neighbours, who
 * talk most, then run at the same time (docs/performance.md). */
struct share processors_share(const struct processors *processors, unsigned index, unsigned of);

/* Whether `ranks` that are bound have to share them, and a sentence that says so. */
enum { PROCESSORS_TEXT = 160 };
bool processors_are_short(const struct processors *processors, unsigned ranks,
                          char text[PROCESSORS_TEXT]);

/* "0-3,8"; the caller frees it.  NULL: out of memory. */
char *processors_text(const struct processors *processors, struct share share);

/* Keeps this thread, and what it starts, to a share.  Returns 0 or an errno. */
int processors_bind(const struct processors *processors, struct share share);

#endif
