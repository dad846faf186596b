/* build.c - what the library was built with. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/base.h"
#include "core/reduce.h"
#include "facts.h"
#include "meet/meet.h"
#include "net/boot_wire.h"
#include "net/frame.h"
#include "net/shm.h"

#if defined(__has_include)
#if __has_include(<cjson/cJSON.h>)
#define HAS_CJSON 1
#endif
#endif

static bool has_json(void)
{
#ifdef HAS_CJSON
    return true;
#else
    return false;
#endif
}

static bool has_place(const char *url)
{
    struct tci_error error = {.pub = {.status = TC_OK}};

    return tci_meet_check(url, &error) != TC_ERR_UNSUPPORTED;
}

void find_build(struct build_facts *build)
{
    const struct feature features[] = {
        {"tcp", true, ""},
        {"shared memory", tci_shm_is_built(),
         "ranks of one host go over TCP: the system lacks what sharing memory takes"},
        {"rdma", tci_rdma_is_built(), "no RDMA: build with libibverbs and -DTCDIST_RDMA=ON"},
        {"redis", has_place("redis://localhost"),
         "ranks cannot meet at redis://: build with hiredis and -DTCDIST_REDIS=ON"},
        {"etcd", has_place("etcd://localhost"),
         "ranks cannot meet at etcd://: build with libcurl, cJSON and -DTCDIST_ETCD=ON"},
        {"PMIx", has_place("pmix://"),
         "mpirun's ranks on several hosts, and prun's, cannot meet: build with PMIx and "
         "-DTCDIST_PMIX=ON"},
        {"json", has_json(), "tables of choices and device files cannot be read: build with cJSON"},
    };

    *build = (struct build_facts){.feature_count = TCI_LEN(features),
                                  .rendezvous_version = TCI_BOOT_VERSION,
                                  .frame_version = TCI_FRAME_VERSION,
                                  .kernel_count = TCI_ISA_COUNT,
                                  .best = tci_isa_best()};
    _Static_assert(TCI_LEN(features) == TCI_LEN(build->features), "each has its place");
    _Static_assert((int)TCI_ISA_COUNT <= (int)TCI_LEN(build->is_usable), "each has its place");
    memcpy(build->features, features, sizeof(features));
    for (int isa = 0; isa < TCI_ISA_COUNT; isa++)
        build->is_usable[isa] = tci_isa_usable((enum tci_isa)isa) != 0;
}
