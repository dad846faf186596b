/* test_jaccl.c - device files of JACCL: meshes and rings, and which cell is wrong. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 60, needs libcjson, single */
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
#include "launch/jaccl.h"
#include "launch/launch.h"

static tc_status_t parse(const char *text, int rank, bool prefers_ring, struct tci_jaccl *jaccl_out,
                         struct tci_error *error)
{
    *error = (struct tci_error){.pub = {.status = TC_OK}};
    *jaccl_out = (struct tci_jaccl){.size = 0};
    return tci_jaccl_parse(text, strlen(text),
                           &(struct tci_jaccl_asked){"devices.json", rank, prefers_ring}, jaccl_out,
                           error);
}

/* Refused, with these words. */
static void refuse(const char *text, int rank, const char *words)
{
    struct tci_error error;
    struct tci_jaccl jaccl;

    assert_int_equal(parse(text, rank, false, &jaccl, &error), TC_ERR_INVALID_ARG);
    if (strstr(error.text, words) == NULL || strstr(error.text, "devices.json") == NULL)
        fail_msg("\"%s\" is not in \"%s\"", words, error.text);
    assert_null(jaccl.cables);
}

static void two_ranks_with_a_cable_are_a_mesh(void **state)
{
    struct tci_error error;
    struct tci_jaccl jaccl;

    (void)state;
    assert_int_equal(
        parse("[[null, \"rdma_en5\"], [\"rdma_en3\", null]]", 1, false, &jaccl, &error), TC_OK);

    assert_int_equal(jaccl.size, 2);
    assert_false(jaccl.is_ring);
    assert_int_equal(jaccl.cables[1].count, 0);
    assert_int_equal(jaccl.cables[0].count, 1);
    assert_string_equal(jaccl.cables[0].device[0], "rdma_en3");
    tci_jaccl_fini(&jaccl);
}

static void lists_of_up_to_four_names_are_cables(void **state)
{
    struct tci_error error;
    struct tci_jaccl jaccl;

    (void)state;
    assert_int_equal(
        parse("[[[], [\"a\", \"b\", \"c\", \"d\"]], [[\"e\", \"f\", \"g\", \"h\"], []]]", 0, true,
              &jaccl, &error),
        TC_OK);

    assert_true(jaccl.is_ring);
    assert_int_equal(jaccl.cables[1].count, 4);
    assert_string_equal(jaccl.cables[1].device[3], "d");
    tci_jaccl_fini(&jaccl);
    refuse("[[null, [\"a\", \"b\", \"c\", \"d\", \"e\"]], [\"a\", null]]", 0,
           "cell [0][1], from rank 0 to rank 1, has more than 4 devices");
}

#define RING4                                                                                      \
    "[[null, \"r\", null, \"l\"], [\"l\", null, \"r\", null], [null, \"l\", null, \"r\"], "        \
    "[\"r\", null, \"l\", null]]"

static void neighbours_alone_are_a_ring(void **state)
{
    struct tci_error error;
    struct tci_jaccl jaccl;

    (void)state;
    assert_int_equal(parse(RING4, 2, false, &jaccl, &error), TC_OK);

    assert_true(jaccl.is_ring);
    assert_int_equal(jaccl.cables[0].count, 0);
    assert_string_equal(jaccl.cables[1].device[0], "l");
    assert_string_equal(jaccl.cables[3].device[0], "r");
    tci_jaccl_fini(&jaccl);
}

/* Everybody linked with everybody. */
static char *mesh_text(uint32_t size)
{
    char *text = tci_alloc((size_t)size * size * 8 + 64), *at = text;

    *at++ = '[';
    for (uint32_t from = 0; from < size; from++) {
        at += sprintf(at, "%s[", from > 0 ? ", " : "");
        for (uint32_t to = 0; to < size; to++)
            at += sprintf(at, "%s%s", to > 0 ? "," : "", to == from ? "null" : "\"d\"");
        *at++ = ']';
    }
    strcpy(at, "]");
    return text;
}

static void what_is_both_is_a_mesh_unless_a_ring_is_preferred(void **state)
{
    struct tci_error error;
    struct tci_jaccl jaccl;
    char *text = mesh_text(4);

    (void)state;
    assert_int_equal(parse(text, 0, false, &jaccl, &error), TC_OK);
    assert_false(jaccl.is_ring);
    tci_jaccl_fini(&jaccl);
    assert_int_equal(parse(text, 0, true, &jaccl, &error), TC_OK);
    assert_true(jaccl.is_ring);
    tci_jaccl_fini(&jaccl);
    tci_free(text);
}

/* Of a ring it is looked at the neighbours alone. */
static void a_device_from_a_rank_to_itself_is_no_mesh(void **state)
{
    struct tci_error error;
    struct tci_jaccl jaccl;

    (void)state;
    assert_int_equal(parse("[[\"a\", \"b\"], [\"c\", null]]", 0, false, &jaccl, &error), TC_OK);
    assert_true(jaccl.is_ring);
    tci_jaccl_fini(&jaccl);
    refuse("[[\"x\", [\"a\", \"b\"], \"c\"], [\"a\", null, \"c\"], [\"a\", \"b\", null]]", 0,
           "from rank 0 to rank 0, has a device, but leads from a rank to itself: write null");
}

static void a_ring_is_preferred_in_vain_where_there_is_none(void **state)
{
    struct tci_error error;
    struct tci_jaccl jaccl;

    (void)state;
    assert_int_equal(parse("[[null, [\"a\", \"b\"], \"c\"], [\"a\", null, \"c\"], "
                           "[\"a\", \"b\", null]]",
                           0, true, &jaccl, &error),
                     TC_OK);
    assert_false(jaccl.is_ring);
    tci_jaccl_fini(&jaccl);
}

static void a_mesh_has_up_to_eight_ranks_and_a_ring_more(void **state)
{
    struct tci_error error;
    struct tci_jaccl jaccl;
    char *text = mesh_text(8);

    (void)state;
    assert_int_equal(parse(text, 7, false, &jaccl, &error), TC_OK);
    assert_int_equal(jaccl.size, 8);
    tci_jaccl_fini(&jaccl);
    tci_free(text);

    text = mesh_text(9);
    refuse(text, 0, "a mesh has up to 8 ranks, and it has 9: set MLX_JACCL_RING");
    assert_int_equal(parse(text, 8, true, &jaccl, &error), TC_OK);
    assert_true(jaccl.is_ring);
    tci_jaccl_fini(&jaccl);
    tci_free(text);
}

static void the_cell_that_is_wrong_is_named(void **state)
{
    (void)state;
    refuse("[[null, \"a\"], [7, null]]", 0,
           "cell [1][0], from rank 1 to rank 0, is none of null, a name and a list of names");
    refuse("[[null, [\"a\", {}]], [\"a\", null]]", 0, "cell [0][1]");
    refuse("[[null, \"\"], [\"a\", null]]", 0,
           "cell [0][1], from rank 0 to rank 1, names a device");
    refuse("[[null, \"../a\"], [\"a\", null]]", 0, "cell [0][1]");
}

static void neither_mesh_nor_ring_says_what_keeps_it_from_each(void **state)
{
    (void)state;
    refuse("[[null, \"a\"], [null, null]]", 0,
           "cell [1][0], from rank 1 to rank 0, has no device: that is no mesh; nor is it a ring: "
           "cell [1][0] has 0 cables to a neighbour, and cell [0][1] has 1");
    refuse("[[null, null], [null, null]]", 0, "nor is it a ring: cell [0][1] has no device");
}

static void what_is_no_matrix_is_refused(void **state)
{
    (void)state;
    refuse("", 0, "is no JSON list of rows");
    refuse("{\"ring\": 1}", 0, "is no JSON list of rows");
    refuse("[[null, \"a\"], [\"a\"", 0, "is no JSON list of rows");
    refuse("[]", 0, "has 0 rows");
    refuse("[[null]]", 0, "has 1 rows");
    refuse("[null, null]", 0, "row 0, of rank 0, is no list of 2 cells");
    refuse("[[null, \"a\"], [\"a\", null, \"b\"]]", 0, "row 1, of rank 1, is no list of 2 cells");
    refuse("[[null, \"a\"], [\"a\", null]]", 2, "has 2 rows, one a rank, and this is rank 2");
    refuse("[[null, \"a\"], [\"a\", null]]", -1, "this is rank -1");
}

static void files_are_read_or_refused_by_name(void **state)
{
    char path[] = "/tmp/tcdist-devices-XXXXXX";
    const struct tci_jaccl_asked asked = {.name = path, .rank = 3};
    struct tci_error error = {.pub = {.status = TC_OK}};
    struct tci_jaccl jaccl;
    int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, RING4, strlen(RING4)), strlen(RING4));
    close(fd);
    assert_int_equal(tci_jaccl_load(&asked, &jaccl, &error), TC_OK);
    assert_int_equal(jaccl.size, 4);
    tci_jaccl_fini(&jaccl);
    unlink(path);
    assert_int_equal(tci_jaccl_load(&asked, &jaccl, &error), TC_ERR_INVALID_ARG);
    assert_non_null(strstr(error.text, path));
    assert_non_null(strstr(error.text, "No such file"));
}

static void without_memory_it_says_so(void **state)
{
    struct tci_error error;
    struct tci_jaccl jaccl;
    tc_status_t status = TC_ERR_ALLOC;

    (void)state;
    for (int n = 1; status != TC_OK; n++) {
        assert_true(n < 100);
        tci_alloc_fail_at((uint64_t)n, 0);
        status = parse(RING4, 0, false, &jaccl, &error);
        tci_alloc_fail_at(0, 0);
        assert_true(status == TC_OK || status == TC_ERR_ALLOC);
        assert_true(status == TC_OK || error.text[0] != '\0');
    }
    tci_jaccl_fini(&jaccl);
}

/* By MLX's names, or by JACCL's own, which go first. */
static void the_environment_names_file_coordinator_and_ring(void **state)
{
    static const char *const names[][3] = {
        {"MLX_IBV_DEVICES", "MLX_JACCL_COORDINATOR", "MLX_JACCL_RING"},
        {"JACCL_IBV_DEVICES", "JACCL_COORDINATOR", "JACCL_RING"}};
    static const char matrix[] = "[[null,\"a\"],[\"b\",null]]";
    char path[] = "/tmp/test_jaccl_XXXXXX";
    int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, matrix, strlen(matrix)), strlen(matrix));
    close(fd);
    setenv("MLX_RANK", "1", 1);
    for (int k = 0; k < 2; k++) {
        struct tci_error error = {.pub = {.status = TC_OK}};
        struct tci_launch launch;

        setenv(names[k][0], path, 1);
        setenv(names[k][1], "10.0.0.7:99", 1);
        assert_int_equal(tci_launch_read(&launch, &error), TC_OK);
        assert_string_equal(launch.url, "rdma://10.0.0.7:99");
        assert_string_equal(launch.devices, path);
        assert_true(launch.rank == 1 && launch.size == 2);
        assert_false(launch.prefers_ring);
        setenv(names[k][2], "1", 1);
        assert_int_equal(tci_launch_read(&launch, &error), TC_OK);
        assert_true(launch.prefers_ring);
        unsetenv(names[k][2]);
        setenv(names[k][0], "/nonexistent", 1); /* the other's go first */
        setenv(names[k][1], "10.0.0.9:9", 1);
    }
    for (int k = 0; k < 2; k++)
        for (int name = 0; name < 3; name++)
            unsetenv(names[k][name]);
    unsetenv("MLX_RANK");
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_ranks_with_a_cable_are_a_mesh),
        cmocka_unit_test(lists_of_up_to_four_names_are_cables),
        cmocka_unit_test(neighbours_alone_are_a_ring),
        cmocka_unit_test(what_is_both_is_a_mesh_unless_a_ring_is_preferred),
        cmocka_unit_test(a_device_from_a_rank_to_itself_is_no_mesh),
        cmocka_unit_test(a_ring_is_preferred_in_vain_where_there_is_none),
        cmocka_unit_test(a_mesh_has_up_to_eight_ranks_and_a_ring_more),
        cmocka_unit_test(the_cell_that_is_wrong_is_named),
        cmocka_unit_test(neither_mesh_nor_ring_says_what_keeps_it_from_each),
        cmocka_unit_test(what_is_no_matrix_is_refused),
        cmocka_unit_test(files_are_read_or_refused_by_name),
        cmocka_unit_test(the_environment_names_file_coordinator_and_ring),
        cmocka_unit_test(without_memory_it_says_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
