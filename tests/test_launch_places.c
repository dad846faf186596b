/* test_launch_places.c - where ranks are to meet, as launchers say it and TCDIST_RENDEZVOUS. */
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

#include "core/alloc.h"
#include "core/base.h"
#include "launch/hostfile.h"
#include "launch/launch.h"

static const char *const variables[] = {
    "TCDIST_RANK",          "TCDIST_RENDEZVOUS", "SLURM_PROCID", "SLURM_NTASKS",
    "SLURM_STEP_ID",        "SLURM_JOB_ID",      "SLURM_CONF",   "SLURM_STEP_NODELIST",
    "SLURM_STEP_NUM_NODES", "TCDIST_WORLD_SIZE", "MLX_RANK",     "MLX_HOSTFILE",
};

static int forget(void **state)
{
    (void)state;
    for (size_t i = 0; i < TCI_LEN(variables); i++)
        unsetenv(variables[i]);
    return 0;
}

static int set_slurm(void **state)
{
    (void)forget(state);
    setenv("SLURM_PROCID", "1", 1);
    setenv("SLURM_NTASKS", "2", 1);
    setenv("SLURM_STEP_ID", "0", 1);
    setenv("SLURM_JOB_ID", "71", 1);
    setenv("SLURM_CONF", "/nonexistent", 1);
    setenv("SLURM_STEP_NODELIST", "n[1-2]", 1);
    return 0;
}

static void read_launch(struct tci_launch *launch)
{
    struct tci_error error = {.pub = {.status = TC_OK}};

    if (tci_launch_read(launch, &error) != TC_OK)
        fail_msg("%s", error.text);
}

/* ---- Slurm ---- */

/* The first of several ports that is free: nobody has handed one round. */
static void steps_of_slurm_meet_at_one_of_several_ports(void **state)
{
    struct tci_launch launch;

    (void)state;
    read_launch(&launch);
    assert_int_equal(strncmp(launch.url, "tcp://n1:", 9), 0);
    assert_true(launch.ports > 1);
    assert_true(launch.is_loose);
}

static void ranks_of_one_node_need_no_name_of_it(void **state)
{
    struct tci_launch launch;

    (void)state;
    setenv("SLURM_STEP_NUM_NODES", "1", 1);
    read_launch(&launch);
    assert_int_equal(strncmp(launch.url, "tcp://127.0.0.1:", 16), 0);
    setenv("SLURM_STEP_NUM_NODES", "2", 1);
    read_launch(&launch);
    assert_int_equal(strncmp(launch.url, "tcp://n1:", 9), 0);
}

/* ---- The user's own place ---- */

static void a_place_that_is_said_is_the_one_place(void **state)
{
    struct tci_launch launch;

    (void)state;
    setenv("TCDIST_RENDEZVOUS", "tcp://h:7", 1);
    read_launch(&launch);
    assert_string_equal(launch.name, "slurm");
    assert_string_equal(launch.url, "tcp://h:7");
    assert_int_equal(launch.ports, 1);
    assert_false(launch.is_loose);
}

static void a_port_that_ends_in_0_is_one(void **state)
{
    struct tci_launch launch;

    (void)state;
    setenv("TCDIST_RENDEZVOUS", "tcp://h:10", 1);
    read_launch(&launch);
    assert_string_equal(launch.url, "tcp://h:10");
    assert_string_equal(launch.advertise, "");
}

/* ---- Host files ---- */

static struct tci_launch read_mlx(const char *text)
{
    char path[] = "/tmp/tcdist-places-XXXXXX";
    int fd = mkstemp(path);
    struct tci_launch launch;

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    setenv("MLX_HOSTFILE", path, 1);
    setenv("MLX_RANK", "1", 1);
    read_launch(&launch);
    unlink(path);
    return launch;
}

static bool has_host_files(void)
{
    struct tci_error error = {.pub = {.status = TC_OK}};
    struct tci_hostfile file;

    if (tci_hostfile_parse("f", "[[\"a:1\"]]", &file, &error) == TC_ERR_UNSUPPORTED)
        return false;
    tci_hostfile_fini(&file);
    return true;
}

/* Elsewhere than the host file says a rank is where it finds itself. */
static void a_place_that_is_said_is_instead_of_a_host_file(void **state)
{
    static const char text[] = "[\"10.0.0.1:5000\", \"10.0.0.2:5001\"]";
    struct tci_launch launch;

    (void)state;
    if (!has_host_files())
        skip();
    launch = read_mlx(text);
    assert_string_equal(launch.url, "tcp://10.0.0.1:5000");
    assert_string_equal(launch.listen_url, "tcp://10.0.0.2:5001");
    setenv("TCDIST_RENDEZVOUS", "tcp://h:7", 1);
    launch = read_mlx(text);
    assert_string_equal(launch.url, "tcp://h:7");
    assert_string_equal(launch.listen_url, "");
}

static void backends_of_mlx_are_ours_or_left_to_choice(void **state)
{
    static const char *const rows[][2] = {
        {"jaccl-ring", "jaccl"}, {"ring", "ring"}, {"mpi", ""}, {"nccl", ""}};

    (void)state;
    if (!has_host_files())
        skip();
    for (size_t i = 0; i < TCI_LEN(rows); i++) {
        struct tci_launch launch;
        char text[120];

        snprintf(text, sizeof(text), "{\"backend\": \"%s\", \"hosts\": [[\"a:1\"], [\"b:2\"]]}",
                 rows[i][0]);
        launch = read_mlx(text);
        assert_string_equal(launch.backend, rows[i][1]);
    }
}

/* Entries of a host file: so many, with as many addresses each. */
struct many {
    const char *begin, *each, *end;
    size_t hosts, addresses;
};

static tc_status_t parse_many(const struct many *many, struct tci_hostfile *file,
                              struct tci_error *error)
{
    size_t room = many->hosts * (many->addresses * (strlen(many->each) + 1) + 32) + 32;
    char *text = tci_alloc(room), *at = text;
    tc_status_t status;

    assert_non_null(text);
    *error = (struct tci_error){.pub = {.status = TC_OK}};
    for (size_t h = 0; h < many->hosts; h++) {
        at += sprintf(at, "%s%s", h == 0 ? "[" : ",", many->begin);
        for (size_t k = 0; k < many->addresses; k++)
            at += sprintf(at, "%s%s", k == 0 ? "" : ",", many->each);
        at += sprintf(at, "%s", many->end);
    }
    (void)sprintf(at, "]");
    status = tci_hostfile_parse("f", text, file, error);
    tci_free(text);
    return status;
}

static void a_rank_has_sixteen_addresses_at_most(void **state)
{
    struct tci_hostfile file;
    struct tci_error error;

    (void)state;
    if (!has_host_files())
        skip();
    assert_int_equal(parse_many(&(struct many){"[", "\"a:1\"", "]", 2, 16}, &file, &error), TC_OK);
    assert_int_equal(file.ranks[1].count, 16);
    tci_hostfile_fini(&file);
    assert_int_equal(parse_many(&(struct many){"[", "\"a:1\"", "]", 2, 17}, &file, &error),
                     TC_ERR_INVALID_ARG);
    assert_non_null(strstr(error.text, "has more than 16 addresses"));
}

static void ports_that_are_given_end_with_the_last_port(void **state)
{
    enum { PORTS = 65536 - 32323 };
    struct tci_hostfile file;
    struct tci_error error;

    (void)state;
    if (!has_host_files())
        skip();
    assert_int_equal(
        parse_many(&(struct many){"{\"ips\":[", "\"a\"", "]}", PORTS, 1}, &file, &error), TC_OK);
    assert_string_equal(tci_hostfile_at(&file, PORTS - 1, 0), "a:65535");
    tci_hostfile_fini(&file);
    assert_int_equal(
        parse_many(&(struct many){"{\"ips\":[", "\"a\"", "]}", PORTS + 1, 1}, &file, &error),
        TC_ERR_INVALID_ARG);
    assert_non_null(strstr(error.text, "is beyond the last port"));
}

#define CASE(test, setup) cmocka_unit_test_setup_teardown(test, setup, forget)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(steps_of_slurm_meet_at_one_of_several_ports, set_slurm),
        CASE(ranks_of_one_node_need_no_name_of_it, set_slurm),
        CASE(a_place_that_is_said_is_the_one_place, set_slurm),
        CASE(a_port_that_ends_in_0_is_one, set_slurm),
        CASE(a_place_that_is_said_is_instead_of_a_host_file, forget),
        CASE(backends_of_mlx_are_ours_or_left_to_choice, forget),
        CASE(a_rank_has_sixteen_addresses_at_most, forget),
        CASE(ports_that_are_given_end_with_the_last_port, forget),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
