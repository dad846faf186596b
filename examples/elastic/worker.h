/* worker.h - one rank of the training, which outlives others. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ELASTIC_WORKER_H
#define ELASTIC_WORKER_H

#include "lesson.h"

/* What a worker tells the supervisor, over a pipe that all share: each is written at once. */
enum report_kind {
    REPORT_STEP, /* of rank 0: who took part in a step that is done */
    REPORT_ROOM, /* of rank 0: one more worker may join at `url` */
    REPORT_END   /* of each worker: all steps are done */
};
struct report {
    enum report_kind kind;
    bool waits; /* for a byte on the other pipe */
    size_t step;
    struct members members;
    char url[64];
    int timeout_ms; /* of REPORT_ROOM: for so long they wait there */
    uint64_t hash;  /* of the weights */
};

/* A worker's beginning. */
struct place {
    uint32_t id; /* never given twice */
    int rank, size;
    bool is_founder;
    char url[64];
    int timeout_ms; /* for the others to come; 0: of the context */
    int listen_fd;  /* of the founder that is rank 0; else -1 */
    int reports, answers;
};

/* Of a joiner whose group did not come about, since somebody ended just then. */
enum { EXIT_NOT_JOINED = 3 };

/* Trains to the end; gives the exit code of the process. */
int worker_run(const struct options *options, const struct place *place);

#endif
