/* fuzz_launch.c - feeds texts to what reads launchers' words: lists, host files, cards, answers. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "fuzz/fuzz.h"
#include "launch/hostfile.h"
#include "launch/nodelist.h"
#include "launch/slurm_conf.h"
#include "meet/card.h"
#include "meet/etcd_text.h"
#include "meet/meet.h"
#include "meet/pmi.h"
#include "meet/store.h"

enum { TEXT_ROOM = 2048 };

static void want(bool holds)
{
    if (!holds)
        abort();
}

static void try_nodes(const char *text)
{
    char name[TCI_NODE_NAME];

    for (size_t k = 0; k < 3 && tci_nodelist_at(text, k, name); k++)
        want(memchr(name, 0, sizeof(name)) != NULL);
    want(tci_nodecounts_at(text, 1) >= -1);
    (void)tci_slurm_line_address(text, "n2", name);
    (void)tci_slurm_alias(text, "n2", name);
}

static void try_hosts(const char *text)
{
    struct tci_error error = {.pub = {.status = TC_OK}};
    struct tci_hostfile file;

    if (tci_hostfile_parse("file", text, &file, &error) != TC_OK) {
        want(error.text[0] != '\0');
        return;
    }
    for (size_t rank = 0; rank < file.size; rank++)
        for (size_t k = 0; k < file.ranks[rank].count; k++)
            want(tci_hostfile_at(&file, rank, k)[0] != '\0' || k < TCI_HOSTFILE_ADDRS);
    tci_hostfile_fini(&file);
}

/* What was read can be written, and is read again as the same. */
static void try_card(const char *text)
{
    struct tci_card card, again;
    char printed[TCI_CARD_TEXT];

    if (!tci_card_parse(text, &card))
        return;
    want(card.count > 0 && card.size >= 2);
    tci_card_print(&card, printed);
    want(tci_card_parse(printed, &again));
    want(memcmp(card.job, again.job, sizeof(card.job)) == 0 && card.count == again.count);
}

static void try_answers(const char *text)
{
    char value[TCI_CARD_TEXT], reason[40];

    if (tci_pmi_value(text, "value", value, sizeof(value)))
        want(memchr(value, 0, sizeof(value)) != NULL);
    (void)tci_pmi_is(text, "get_result");
    if (tci_etcd_value(text, value, sizeof(value)) == 1)
        want(memchr(value, 0, sizeof(value)) != NULL);
    tci_etcd_reason(text, reason, sizeof(reason));
    want(memchr(reason, 0, sizeof(reason)) != NULL);
}

static void try_url(const char *text)
{
    struct tci_error error = {.pub = {.status = TC_OK}};

    if (tci_meet_is_meant(text))
        want((tci_meet_check(text, &error) == TC_OK) == (error.text[0] == '\0'));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[TEXT_ROOM];

    fuzz_text(data, size, text, sizeof(text));
    try_nodes(text);
    try_hosts(text);
    try_card(text);
    try_answers(text);
    try_url(text);
    return 0;
}

size_t fuzz_seed(unsigned i, uint8_t *data, size_t room)
{
    static const char *const texts[] = {
        "n[1-3,7],m[01-04]-ib[0-1]",
        "3,2(x2),1",
        "NodeName=n[1-3] NodeAddr=10.79.0.[1-3] Port=[1-3]",
        "n1:10.0.0.1:host,n2:[fd00::2]:other",
        "[[\"10.0.0.1:5000\", \"10.0.1.1:5000\"], [\"10.0.0.2:5000\", \"10.0.1.2:5000\"]]",
        "{\"backend\": \"ring\", \"hosts\": [{\"ssh\": \"a\", \"ips\": [\"10.0.0.1\"]}]}",
        "tcdist1/00112233445566778899aabbccddeeff/a.b.c.d/2/10.0.0.7:4100/[fd00::7]:4100",
        "cmd=get_result rc=0 msg=success value=tcdist1/00",
        "{\"header\": {}, \"kvs\": [{\"key\": \"YQ==\", \"value\": \"dGNkaXN0\"}]}",
        "{\"error\": \"etcdserver: no leader\", \"code\": 14}",
        "redis://[fd00::1]:6379/jobs/17",
        "etcds://etcd.example:2379/jobs/17",
        "file:///shared/jobs/17",
        "pmix://",
        NULL};

    return fuzz_seed_text(texts, i, data, room);
}
