/* test_launch.c - what launchers say in the environment: read in order, half-set ones refused. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: single */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base.h"
#include "launch/hostfile.h"
#include "launch/launch.h"
#include "launch/nodelist.h"
#include "launch/slurm_conf.h"
#include "net/shm.h"
#include "tcdist/dist.h"

enum { VARIABLES_MAX = 12 };

static const char *const all[] = {
    "TCDIST_RANK",
    "TCDIST_WORLD_SIZE",
    "TCDIST_RENDEZVOUS",
    "TCDIST_RENDEZVOUS_FD",
    "TCDIST_RENDEZVOUS_UP",
    "TCDIST_BACKEND",
    "MLX_RANK",
    "MLX_HOSTFILE",
    "MLX_IBV_DEVICES",
    "MLX_JACCL_COORDINATOR",
    "MLX_WORLD_SIZE",
    "NCCL_HOST_IP",
    "NCCL_PORT",
    "MLX_NCCL_TIMEOUT",
    "JACCL_RANK",
    "RANK",
    "WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_USE_AGENT_STORE",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "PMIX_NAMESPACE",
    "PMIX_RANK",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "PMIX_SERVER_TMPDIR",
    "PMI_RANK",
    "PMI_SIZE",
    "PMI_FD",
    "PMI_PORT",
    "PMI_ID",
    "MPI_LOCALRANKID",
    "MPI_LOCALNRANKS",
    "SLURM_PROCID",
    "SLURM_NTASKS",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_STEP_ID",
    "SLURM_JOB_ID",
    "SLURM_STEP_NODELIST",
    "SLURM_STEP_NUM_NODES",
    "SLURM_LOCALID",
    "SLURM_NODEID",
    "SLURM_STEP_TASKS_PER_NODE",
    "SLURM_CONF",
    "SLURM_NODE_ALIASES",
    "OMPI_FILE_LOCATION",
    "SLURM_NPROCS",
};

static int forget(void **state)
{
    (void)state;
    for (size_t i = 0; i < TCI_LEN(all); i++)
        unsetenv(all[i]);
    return 0;
}

/* "NAME=value" each, NULL behind the last. */
static void set(const char *const *settings)
{
    (void)forget(NULL);
    for (; *settings != NULL; settings++) {
        char name[64];
        size_t len = strcspn(*settings, "=");

        snprintf(name, sizeof(name), "%.*s", (int)len, *settings);
        setenv(name, *settings + len + 1, 1);
    }
}

#define SLURM                                                                                      \
    "SLURM_PROCID=3", "SLURM_NTASKS=6", "SLURM_STEP_ID=0", "SLURM_JOB_ID=71",                      \
        "SLURM_STEP_NODELIST=n[1-3]", "SLURM_STEP_NUM_NODES=3", "SLURM_NODEID=1",                  \
        "SLURM_STEP_TASKS_PER_NODE=3,2,1"
/* 640 characters, more than any host's name has. */
#define TEN       "0123456789"
#define EIGHTY    TEN TEN TEN TEN TEN TEN TEN TEN
#define LONG_NAME EIGHTY EIGHTY EIGHTY EIGHTY EIGHTY EIGHTY EIGHTY EIGHTY
#define TORCH     "RANK=1", "WORLD_SIZE=4", "MASTER_ADDR=node0", "MASTER_PORT=29500"

static const struct {
    const char *settings[VARIABLES_MAX + 1];
    const char *launcher;
    int rank, size, local_rank, local_size;
    const char *url;
} launchers[] = {
    {{NULL}, "none", 0, 1, -1, -1, ""},
    {{"RANK=3", NULL}, "none", 0, 1, -1, -1, ""}, /* a plain name that may mean anything */
    {{"MASTER_ADDR=h", "MASTER_PORT=1", NULL}, "none", 0, 1, -1, -1, ""},
    {{"SLURM_PROCID=0", "SLURM_NTASKS=6", NULL}, "none", 0, 1, -1, -1, ""}, /* a batch script */
    {{"SLURM_PROCID=0", "SLURM_NTASKS=6", "SLURM_STEP_ID=4294967291", NULL},
     "none",
     0,
     1,
     -1,
     -1,
     ""},
    {{"TCDIST_RANK=1", "TCDIST_WORLD_SIZE=2", "TCDIST_RENDEZVOUS=tcp://h:1", NULL},
     "tcdist",
     1,
     2,
     -1,
     -1,
     "tcp://h:1"},
    {{"TCDIST_WORLD_SIZE=1", NULL}, "tcdist", 0, 1, -1, -1, ""},
    {{TORCH, "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=2", NULL},
     "torchrun",
     1,
     4,
     1,
     2,
     "tcp://node0:29500"},
    {{TORCH, "TORCHELASTIC_USE_AGENT_STORE=True", NULL},
     "torchrun",
     1,
     4,
     -1,
     -1,
     "tcp://node0:29501"},
    {{"RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=h", "MASTER_PORT=65530",
      "TORCHELASTIC_USE_AGENT_STORE=True", NULL}, /* there are no eight ports behind it */
     "torchrun",
     0,
     2,
     -1,
     -1,
     "tcp://h:65522"},
    {{"RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=fd00::1", "MASTER_PORT=5", NULL},
     "torchrun",
     0,
     2,
     -1,
     -1,
     "tcp://[fd00::1]:5"},
    {{"RANK=0", "WORLD_SIZE=1", NULL}, "torchrun", 0, 1, -1, -1, ""},
    {{"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_LOCAL_RANK=0",
      "OMPI_COMM_WORLD_LOCAL_SIZE=2", "PMIX_NAMESPACE=77", "PMIX_SERVER_TMPDIR=/tmp/x", NULL},
     "openmpi",
     1,
     4,
     0,
     2,
     "pmix://"},
    {{"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_LOCAL_SIZE=4",
      "PMIX_NAMESPACE=77", "PMIX_SERVER_TMPDIR=/tmp/x", NULL},
     "openmpi",
     1,
     4,
     -1,
     4,
     "file:///tmp/x/tcdist-77"},
    {{"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=4", "TCDIST_RENDEZVOUS=file:///a", NULL},
     "openmpi",
     1,
     4,
     -1,
     -1,
     "file:///a"},
    {{"PMI_RANK=1", "PMI_SIZE=3", "PMI_FD=9", "MPI_LOCALRANKID=1", "MPI_LOCALNRANKS=3", NULL},
     "pmi",
     1,
     3,
     1,
     3,
     "pmi://"},
    {{"PMI_RANK=1", "PMI_SIZE=3", "PMI_FD=9", "TCDIST_RENDEZVOUS=tcp://10.0.0.7:0", NULL},
     "pmi",
     1,
     3,
     -1,
     -1,
     "pmi://"},
    {{SLURM, "SLURM_NODE_ALIASES=n2:10.0.0.2:b,n1:10.0.0.1:a", NULL},
     "slurm",
     3,
     6,
     -1,
     2,
     "tcp://10.0.0.1:"},
    {{SLURM, "SLURM_CONF=/nonexistent", NULL}, "slurm", 3, 6, -1, 2, "tcp://n1:"},
    /* What is started by another one counts. */
    {{TORCH, SLURM, NULL}, "torchrun", 1, 4, -1, -1, "tcp://node0:29500"},
    {{"PMI_RANK=4", "PMI_SIZE=6", "PMI_FD=9", SLURM, NULL}, "pmi", 4, 6, -1, -1, "pmi://"},
    {{"TCDIST_RANK=0", "TCDIST_WORLD_SIZE=1", TORCH, NULL}, "tcdist", 0, 1, -1, -1, ""},
    {{"MLX_RANK=1", "MLX_WORLD_SIZE=2", "NCCL_HOST_IP=10.0.0.7", "NCCL_PORT=123", TORCH, NULL},
     "mlx",
     1,
     2,
     -1,
     -1,
     "tcp://10.0.0.7:123"},
};

static void each_launcher_says_rank_size_and_place(void **state)
{
    (void)state;
    for (size_t i = 0; i < TCI_LEN(launchers); i++) {
        tc_dist_env env;

        set(launchers[i].settings);
        if (tc_dist_env_read(&env) != TC_OK)
            fail_msg("row %zu: %s", i, tc_last_error()->message);
        if (strcmp(env.launcher, launchers[i].launcher) != 0 || env.rank != launchers[i].rank ||
            env.world_size != launchers[i].size || env.local_rank != launchers[i].local_rank ||
            env.local_size != launchers[i].local_size ||
            strncmp(env.rendezvous, launchers[i].url, strlen(launchers[i].url)) != 0 ||
            (launchers[i].url[0] == '\0') != (env.rendezvous[0] == '\0'))
            fail_msg("row %zu: %s, rank %d of %d, local %d of %d, %s", i, env.launcher, env.rank,
                     env.world_size, env.local_rank, env.local_size, env.rendezvous);
    }
}

static const struct {
    const char *settings[VARIABLES_MAX + 1];
    const char *says, *too;
} mistakes[] = {
    {{"TCDIST_RANK=1", NULL}, "TCDIST_RANK is set, but TCDIST_WORLD_SIZE is not set", "tcrun"},
    {{"TCDIST_RANK=1", "TCDIST_WORLD_SIZE=2", NULL},
     "TCDIST_WORLD_SIZE, TCDIST_RANK are set, but TCDIST_RENDEZVOUS is not set",
     "tcrun"},
    {{"RANK=1", "MASTER_ADDR=h", NULL}, "WORLD_SIZE is not set", "torchrun"},
    {{"WORLD_SIZE=2", "MASTER_ADDR=h", NULL}, "RANK is not set", "torchrun"},
    {{"RANK=1", "WORLD_SIZE=2", "MASTER_PORT=5", NULL}, "MASTER_ADDR is not set", "torchrun"},
    {{"RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=h", NULL}, "MASTER_PORT is not set", "torchrun"},
    {{"RANK=2", "WORLD_SIZE=2", NULL}, "RANK is \"2\"", "0 … 1"},
    {{"RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=h", "MASTER_PORT=x", NULL},
     "MASTER_PORT is \"x\"",
     "65535"},
    {{"RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=h", "MASTER_PORT=5x", NULL},
     "MASTER_PORT is \"5x\"",
     "65535"},
    {{"RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=" LONG_NAME, "MASTER_PORT=5", NULL},
     "longer than the name of a host",
     "0123456789"},
    {{"PMIX_NAMESPACE=77", NULL}, "PMIX_RANK is not set", "variables of pmix are there"},
    {{"PMIX_RANK=0", NULL}, "PMIX_NAMESPACE is not set", "variables of pmix are there"},
    {{"OMPI_COMM_WORLD_RANK=1", NULL}, "OMPI_COMM_WORLD_SIZE is not set", "openmpi"},
    {{"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2", NULL},
     "PMIX_NAMESPACE is not set",
     "TCDIST_RENDEZVOUS"},
    {{"PMI_RANK=1", "PMI_SIZE=2", NULL}, "neither PMI_FD nor PMI_PORT", "TCDIST_RENDEZVOUS"},
    {{"PMI_FD=9", "PMI_SIZE=2", NULL}, "PMI_RANK is not set", "pmi"},
    {{"PMI_PORT=127.0.0.1:1", NULL}, "PMI_ID is not set", "pmi"},
    {{"SLURM_PROCID=1", "SLURM_STEP_ID=0", NULL}, "SLURM_STEP_NUM_TASKS is not set", "slurm"},
    {{"SLURM_PROCID=1", "SLURM_STEP_ID=0", "SLURM_NTASKS=2", NULL},
     "SLURM_JOBID is not set",
     "slurm"},
    {{"SLURM_PROCID=1", "SLURM_STEP_ID=0", "SLURM_NTASKS=2", "SLURM_JOB_ID=5",
      "SLURM_STEP_NODELIST=n[1-", NULL},
     "SLURM_STEP_NODELIST is \"n[1-\"",
     "no list of nodes"},
    {{"MLX_RANK=1", NULL}, "MLX_RANK is set, but there is no MLX_HOSTFILE", "mlx.launch"},
    {{"MLX_RANK=1", "MLX_WORLD_SIZE=2", "NCCL_HOST_IP=h", "NCCL_PORT=5", "MLX_NCCL_TIMEOUT=5s",
      NULL},
     "MLX_NCCL_TIMEOUT is \"5s\"",
     "a whole number from 1 on"},
    {{"MLX_RANK=1", "MLX_HOSTFILE=/nonexistent", NULL}, "/nonexistent", "No such file"},
    {{"MLX_RANK=1", "MLX_JACCL_COORDINATOR=h:1", NULL}, "MLX_IBV_DEVICES is not set", "mlx"},
    {{TORCH, "TCDIST_BACKEND=carrier-pigeon", NULL},
     "TCDIST_BACKEND is \"carrier-pigeon\"",
     "any, ring, tcp, shm, rdma, jaccl, gloo, single"},
    {{TORCH, "TCDIST_RENDEZVOUS=tcp://h:0", NULL},
     "TCDIST_RENDEZVOUS is \"tcp://h:0\"",
     "handed round"},
};

static void what_is_half_set_or_wrong_is_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < TCI_LEN(mistakes); i++) {
        tc_dist_env env;

        set(mistakes[i].settings);
        if (tc_dist_env_read(&env) != TC_ERR_INVALID_ARG)
            fail_msg("row %zu is not refused, or otherwise", i);
        if (strstr(tc_last_error()->message, mistakes[i].says) == NULL ||
            strstr(tc_last_error()->message, mistakes[i].too) == NULL)
            fail_msg("row %zu: %s", i, tc_last_error()->message);
    }
}

static void others_that_are_there_are_told_of(void **state)
{
    static const char *const settings[] = {TORCH, SLURM, NULL};
    tc_dist_env env;

    (void)state;
    set(settings);
    assert_int_equal(tc_dist_env_read(&env), TC_OK);
    assert_string_equal(env.others, "srun of Slurm (SLURM_PROCID 3, SLURM_NTASKS 6)");
    assert_non_null(strstr(env.variables, "WORLD_SIZE, RANK"));
}

/* What a launcher says of its own socket is inherited by whoever goes on to another place. */
static void a_socket_counts_at_its_own_place_alone(void **state)
{
#define OF_TWO "TCDIST_WORLD_SIZE=2", "TCDIST_RENDEZVOUS=tcp://h:1", "TCDIST_RENDEZVOUS_FD=7"
    static const struct {
        const char *settings[VARIABLES_MAX + 1];
        bool is_up;
        int fd;
    } rows[] = {
        {{OF_TWO, "TCDIST_RANK=0", NULL}, false, 7},
        {{OF_TWO, "TCDIST_RANK=0", "TCDIST_RENDEZVOUS_UP=tcp://h:1", NULL}, true, 7},
        {{OF_TWO, "TCDIST_RANK=0", "TCDIST_RENDEZVOUS_UP=tcp://h:2", NULL}, false, -1},
        {{OF_TWO, "TCDIST_RANK=1", NULL}, false, -1},
        {{OF_TWO, "TCDIST_RANK=1", "TCDIST_RENDEZVOUS_UP=", NULL}, false, -1},
        {{OF_TWO, "TCDIST_RANK=1", "TCDIST_RENDEZVOUS_UP=tcp://h:1", NULL}, true, -1},
        {{OF_TWO, "TCDIST_RANK=1", "TCDIST_RENDEZVOUS_UP=tcp://h:2", NULL}, false, -1},
    };

    (void)state;
    for (size_t i = 0; i < TCI_LEN(rows); i++) {
        struct tci_error error = {.pub = {.status = TC_OK}};
        struct tci_launch launch;

        set(rows[i].settings);
        assert_int_equal(tci_launch_read(&launch, &error), TC_OK);
        if (launch.is_up != rows[i].is_up || launch.listen_fd != rows[i].fd)
            fail_msg("row %zu: %d, descriptor %d", i, launch.is_up, launch.listen_fd);
    }
}

static void backends_are_known_by_name(void **state)
{
    static const char *const there[] = {"any", "ring", "tcp", "gloo", "single"};

    (void)state;
    for (size_t i = 0; i < TCI_LEN(there); i++)
        assert_int_equal(tc_dist_available(there[i]), TC_OK);
    assert_int_equal(tc_dist_available(NULL), TC_OK);
    assert_int_equal(tc_dist_available("shm"), tci_shm_is_built() ? TC_OK : TC_ERR_UNSUPPORTED);
    setenv("TCDIST_SHM", "0", 1);
    setenv("TCDIST_RDMA", "0", 1);
    assert_int_equal(tc_dist_available("shm"), TC_ERR_UNSUPPORTED);
    assert_non_null(strstr(tc_last_error()->message, "TCDIST_SHM=0"));
    assert_int_equal(tc_dist_available("jaccl"), TC_ERR_UNSUPPORTED);
    unsetenv("TCDIST_SHM");
    unsetenv("TCDIST_RDMA");
    assert_int_equal(tc_dist_available("nccl"), TC_ERR_INVALID_ARG);
    assert_non_null(strstr(tc_last_error()->message, "any, ring, tcp, shm, rdma, jaccl, gloo"));
}

/* ---- Lists of nodes ------------------------------------------------------------------------ */

static void lists_of_nodes_are_expanded(void **state)
{
    static const struct {
        const char *list;
        size_t index;
        const char *name; /* NULL: there is none */
    } rows[] = {
        {"n[1-3]", 0, "n1"},
        {"n[1-3]", 2, "n3"},
        {"n[1-3]", 3, NULL},
        {"a,b", 1, "b"},
        {"n[1-3,7],m", 3, "n7"},
        {"n[1-3,7],m", 4, "m"},
        {"n[08-11]", 2, "n10"},
        {"n[08-11]", 1, "n09"},
        {"gpu[01-02]-ib[0-1].x", 2, "gpu02-ib0.x"},
        {"10.0.0.[7-9]", 1, "10.0.0.8"},
        {"[1-2]", 1, "2"},
        {"", 0, NULL},
        {",a", 0, NULL},
        {"n[1-", 0, NULL},
        {"n[]", 0, NULL},
        {"n[1,]", 0, NULL},
        {"n[3-1]", 0, NULL},
        {"n]", 0, NULL},
        {"n[1-2", 0, NULL},
        {"n[1-99999999]", 0, NULL},
        {"n[1-1000000][1-1000000]", 0, NULL},
        {"n[1234567890]", 0, NULL},
        {"n[1-0000000003]", 0, NULL},
        {"n[123456789]", 0, "n123456789"},
        {EIGHTY EIGHTY EIGHTY TEN "01234", 0, EIGHTY EIGHTY EIGHTY TEN "01234"},
        {EIGHTY EIGHTY EIGHTY TEN "012345", 0, NULL},
        {EIGHTY EIGHTY EIGHTY TEN "01234[5]", 0, NULL},
        {"[1][2][3][4][5][6][7][8]x", 0, "12345678x"},
        {"[1][2][3][4][5][6][7][8][9]", 0, NULL},
        {"[1][2][3][4][5][6][7][8][1-2][3]", 0, NULL},
    };

    (void)state;
    for (size_t i = 0; i < TCI_LEN(rows); i++) {
        char name[TCI_NODE_NAME] = "untouched";
        size_t index;

        if (tci_nodelist_at(rows[i].list, rows[i].index, name) != (rows[i].name != NULL))
            fail_msg("row %zu: %s", i, name);
        assert_string_equal(name, rows[i].name != NULL ? rows[i].name : "untouched");
        if (rows[i].name == NULL)
            continue;
        assert_true(tci_nodelist_find(rows[i].list, rows[i].name, &index));
        assert_int_equal(index, rows[i].index);
    }
}

static void counts_of_tasks_are_read(void **state)
{
    (void)state;
    assert_int_equal(tci_nodecounts_at("3,1", 1), 1);
    assert_int_equal(tci_nodecounts_at("2(x2)", 1), 2);
    assert_int_equal(tci_nodecounts_at("4,1(x2)", 2), 1);
    assert_int_equal(tci_nodecounts_at("4,1(x2)", 3), -1);
    assert_int_equal(tci_nodecounts_at("4(x", 0), -1);
    assert_int_equal(tci_nodecounts_at("", 0), -1);
    assert_int_equal(tci_nodecounts_at("9999999999", 0), -1);
}

static void addresses_of_nodes_stand_in_slurms_configuration(void **state)
{
    static const struct {
        const char *line, *node, *address;
    } rows[] = {
        {"NodeName=n[1-3] NodeAddr=10.79.0.[1-3] CPUs=4", "n2", "10.79.0.2"},
        {"nodename=n[1-3] Port=[1-3] NODEADDR=127.0.0.1 State=UNKNOWN", "n3", "127.0.0.1"},
        {"NodeName=a,b NodeHostname=x,y", "b", "y"},
        {"NodeName=n[1-3] NodeAddr=10.79.0.[1-3]", "m1", NULL},
        {"NodeName=n1", "n1", NULL},
        {"NodeName=n[1-3] NodeAddr=10.0.0.1,10.0.0.2", "n3", NULL},
        {"PartitionName=p Nodes=ALL", "n1", NULL},
    };

    (void)state;
    for (size_t i = 0; i < TCI_LEN(rows); i++) {
        char address[TCI_NODE_NAME];
        bool is_there = tci_slurm_line_address(rows[i].line, rows[i].node, address);

        assert_int_equal(is_there, rows[i].address != NULL);
        if (is_there)
            assert_string_equal(address, rows[i].address);
    }
}

static void a_configuration_is_read_from_its_file(void **state)
{
    char path[] = "/tmp/tcdist-slurm-XXXXXX", address[TCI_NODE_NAME];
    static const char text[] = "# NodeName=n2 NodeAddr=10.9.9.9\nClusterName=c\n"
                               "NodeName=n[1-2] \\\n  NodeAddr=10.79.0.[1-2]\n";
    int fd = mkstemp(path);

    (void)state;
    assert_int_equal(write(fd, text, sizeof(text) - 1), sizeof(text) - 1);
    close(fd);
    assert_true(tci_slurm_conf_address(path, "n2", address));
    assert_string_equal(address, "10.79.0.2");
    assert_false(tci_slurm_conf_address(path, "n3", address));
    unlink(path);
    assert_true(tci_slurm_alias("n1:[fd00::1]:x,n2:10.0.0.2:y", "n1", address));
    assert_string_equal(address, "fd00::1");
    assert_false(tci_slurm_alias("n1:10.0.0.1:x", "n", address));
    assert_false(tci_slurm_alias(NULL, "n", address));
}

/* ---- Host files ---------------------------------------------------------------------------- */

static void host_files_of_mlx_are_read_in_all_forms(void **state)
{
    static const struct {
        const char *text;
        size_t rank, k;
        const char *address;
    } rows[] = {
        {"[[\"10.0.0.1:5000\"], [\"10.0.0.2:5001\"]]", 1, 0, "10.0.0.2:5001"},
        {"[[\"10.0.0.1:1\", \"10.0.1.1:2\"], [\"10.0.0.2:3\", \"10.0.1.2:4\"]]", 1, 1,
         "10.0.1.2:4"},
        {"[\"10.0.0.1:1\", \"10.0.0.2:2\"]", 0, 0, "10.0.0.1:1"},
        {"[{\"ssh\": \"a\", \"ips\": [\"10.0.0.1\"]}, {\"ssh\": \"b\", \"ips\": [\"fd00::2\"]}]", 1,
         0, "[fd00::2]:32324"},
        {"{\"backend\": \"ring\", \"envs\": [], \"hosts\": [{\"ips\": [\"a\", \"b\"]}, "
         "{\"ips\": [\"c\", \"d\"]}]}",
         1, 0, "c:32325"},
    };

    (void)state;
    for (size_t i = 0; i < TCI_LEN(rows); i++) {
        struct tci_error error = {.pub = {.status = TC_OK}};
        struct tci_hostfile file;
        tc_status_t status = tci_hostfile_parse("f", rows[i].text, &file, &error);

        if (status == TC_ERR_UNSUPPORTED) {
            print_message("skipped: built without cJSON\n");
            skip();
        }
        if (status != TC_OK)
            fail_msg("row %zu: %s", i, error.text);
        assert_int_equal(file.size, 2);
        assert_string_equal(tci_hostfile_at(&file, rows[i].rank, rows[i].k), rows[i].address);
        tci_hostfile_fini(&file);
    }
}

static void host_files_that_are_wrong_are_refused(void **state)
{
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"", "no JSON"},
        {"{}", "no JSON list"},
        {"[]", "no ranks"},
        {"[[]]", "entry 0, of rank 0, has no address"},
        {"[[\"a:1\"], 7]", "entry 1"},
        {"[[\"a:1\"], [7]]", "entry 1"},
        {"[{\"ssh\": \"a\"}]", "has no list \"ips\""},
        {"[[\"a:1\", \"b:2\"], [\"c:3\"]]", "rank 0 has 2 addresses and rank 1 has 1"},
    };

    (void)state;
    for (size_t i = 0; i < TCI_LEN(rows); i++) {
        struct tci_error error = {.pub = {.status = TC_OK}};
        struct tci_hostfile file;

        if (tci_hostfile_parse("f", rows[i].text, &file, &error) == TC_ERR_UNSUPPORTED)
            skip();
        assert_int_equal(error.pub.status, TC_ERR_INVALID_ARG);
        if (strstr(error.text, rows[i].says) == NULL)
            fail_msg("row %zu: %s", i, error.text);
    }
}

static void an_environment_of_mlx_names_place_and_connections(void **state)
{
    char path[] = "/tmp/tcdist-hosts-XXXXXX";
    static const char text[] = "[[\"10.0.0.1:5000\", \"10.0.1.1:5001\"], "
                               "[\"10.0.0.2:5000\", \"10.0.1.2:5001\"]]";
    int fd = mkstemp(path);
    tc_dist_env env;

    (void)state;
    assert_int_equal(write(fd, text, sizeof(text) - 1), sizeof(text) - 1);
    close(fd);
    setenv("MLX_HOSTFILE", path, 1);
    setenv("MLX_RANK", "1", 1);
    if (tc_dist_env_read(&env) == TC_ERR_UNSUPPORTED)
        skip();
    assert_int_equal(env.rank, 1);
    assert_int_equal(env.world_size, 2);
    assert_string_equal(env.rendezvous, "tcp://10.0.0.1:5000");
    setenv("JACCL_RANK", "2", 1); /* it counts before MLX's, and there is no such rank */
    assert_int_equal(tc_dist_env_read(&env), TC_ERR_INVALID_ARG);
    assert_non_null(strstr(tc_last_error()->message, "JACCL_RANK is \"2\""));
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_launcher_says_rank_size_and_place, forget, forget),
        cmocka_unit_test_setup_teardown(what_is_half_set_or_wrong_is_named, forget, forget),
        cmocka_unit_test_setup_teardown(others_that_are_there_are_told_of, forget, forget),
        cmocka_unit_test_setup_teardown(a_socket_counts_at_its_own_place_alone, forget, forget),
        cmocka_unit_test(backends_are_known_by_name),
        cmocka_unit_test(lists_of_nodes_are_expanded),
        cmocka_unit_test(counts_of_tasks_are_read),
        cmocka_unit_test(addresses_of_nodes_stand_in_slurms_configuration),
        cmocka_unit_test(a_configuration_is_read_from_its_file),
        cmocka_unit_test(host_files_of_mlx_are_read_in_all_forms),
        cmocka_unit_test(host_files_that_are_wrong_are_refused),
        cmocka_unit_test_setup_teardown(an_environment_of_mlx_names_place_and_connections, forget,
                                        forget),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
