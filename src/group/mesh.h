/* mesh.h - what the files of the mesh groups share. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_MESH_H
#define TCI_MESH_H

#include <pthread.h>

#include "tcdist/dist.h"
#include "tcdist/mesh.h"

enum tci_mesh_algorithm { TCI_MESH_CENTRALIZED, TCI_MESH_ALL_TO_ALL };

struct tc_mesh_group {
    tc_dist_ctx *group;      /* owned */
    pthread_mutex_t ordered; /* held during an ordered call: they run one at a time */
    enum tci_mesh_algorithm algorithm;
};

#endif
