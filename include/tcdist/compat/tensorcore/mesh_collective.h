/* mesh_collective.h - tensorcore's mesh groups. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCDIST_COMPAT_MESH_COLLECTIVE_H
#define TCDIST_COMPAT_MESH_COLLECTIVE_H

#include "tcdist/compat/tensorcore/distributed.h"
#include "tcdist/mesh.h"

#endif
