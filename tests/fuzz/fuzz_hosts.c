/* fuzz_hosts.c - feeds host files to their reader, and what it makes of them to the writer. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz.h"
#include "hosts.h"

static void want(bool holds)
{
    if (!holds)
        abort();
}

static void check(const struct hosts *hosts)
{
    want(hosts->count > 0 && hosts->count <= HOSTS_MAX);
    for (size_t i = 0; i < hosts->count; i++) {
        const struct host *host = &hosts->at[i];

        want(hosts_is_name(host->name) && host->slots >= 1 && host->slots <= HOSTS_MAX);
        want(host->ip_count <= HOST_ADDRESSES_MAX);
        for (size_t k = 0; k < host->ip_count; k++)
            want(hosts_is_name(host->ips[k]));
        for (size_t k = 0; host->rdma != NULL && k < hosts->count; k++) {
            want(host->rdma[k].count <= HOST_DEVICES_MAX && (k != i || host->rdma[k].count == 0));
            for (size_t d = 0; d < host->rdma[k].count; d++)
                want(hosts_is_name(host->rdma[k].names[d]));
        }
    }
    for (size_t i = 0; i < hosts->env_count; i++)
        want(hosts_is_setting(hosts->envs[i]));
}

/* What is written is read, with as many hosts. */
static void write_and_read(const struct hosts *hosts, enum hosts_form form)
{
    char why[HOSTS_WHY_ROOM] = "", *text = NULL;
    struct hosts again;
    size_t len;
    FILE *file = open_memstream(&text, &len);

    want(file != NULL);
    hosts_write(file, hosts, form);
    want(fclose(file) == 0);
    want(hosts_parse(&again, text, len, why) && again.count == hosts->count);
    hosts_fini(&again);
    free(text);
}

/* The input is the file, and a list of names. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char why[HOSTS_WHY_ROOM] = "", text[4096];
    struct hosts hosts;

    if (hosts_parse(&hosts, (const char *)data, size, why)) {
        check(&hosts);
        write_and_read(&hosts, HOSTS_LIST);
        write_and_read(&hosts, HOSTS_DICTIONARY);
        hosts_fini(&hosts);
    } else {
        want(why[0] != '\0' && memchr(why, 0, sizeof why) != NULL && hosts.count == 0);
    }
    if (hosts_parse_names(&hosts, fuzz_text(data, size, text, sizeof text), why)) {
        check(&hosts);
        hosts_fini(&hosts);
    }
    return 0;
}

size_t fuzz_seed(unsigned i, uint8_t *data, size_t room)
{
    static const char *const texts[] = {
        "node1 slots=2 max_slots=4\nme@node2:3 ip=10.0.0.2,fd00::2 # two\n[fd00::7]:2\n",
        "a,b:2,[fe80::1%eth0]:3,10.0.0.7",
        "[{\"ssh\": \"a\", \"ips\": [\"10.0.0.1\"], \"rdma\": [null, \"mlx5_0\"]}, "
        "{\"ssh\": \"b\", \"ips\": [], \"rdma\": [[\"d0\", \"d1\"], null], \"slots\": 4}]",
        "{\"backend\": \"jaccl\", \"envs\": [\"A=1\", \"B=\"], "
        "\"hosts\": [{\"ssh\": \"a\"}, \"b\"]}",
        "{\"envs\": {\"A\": \"x\\\"y\\u0007\"}, \"hosts\": [{\"ssh\": \"10.0.0.9\"}]}",
        NULL};

    return fuzz_seed_text(texts, i, data, room);
}
