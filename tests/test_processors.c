/* test_processors.c - which processors each of several ranks of a host gets. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 60, single */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "processors.h"

/* ---- A machine ----------------------------------------------------------------------------- */

/* Two sockets, each a node, with four cores of two processors: even numbers on the first, odd ones
 * on the second, and 8 more is the other processor of the core. */
enum { MACHINE = 16 };

static char folder[] = "/tmp/tcrun-processors-XXXXXX";

static void write_file(unsigned cpu, const char *name, const char *text)
{
    char path[128];
    FILE *file;

    snprintf(path, sizeof path, "%s/cpu%u/topology/%s", folder, cpu, name);
    file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static int make_machine(void **state)
{
    char text[128];

    (void)state;
    assert_non_null(mkdtemp(folder));
    for (unsigned cpu = 0; cpu < MACHINE; cpu++) {
        snprintf(text, sizeof text, "%s/cpu%u", folder, cpu);
        assert_int_equal(mkdir(text, 0700), 0);
        snprintf(text, sizeof text, "%s/cpu%u/topology", folder, cpu);
        assert_int_equal(mkdir(text, 0700), 0);
        snprintf(text, sizeof text, "%s/cpu%u/node%u", folder, cpu, cpu % 2);
        assert_int_equal(mkdir(text, 0700), 0);
        snprintf(text, sizeof text, "%u\n", cpu % 2);
        write_file(cpu, "physical_package_id", text);
        snprintf(text, sizeof text, "%u,%u\n", cpu % 8, cpu % 8 + 8);
        write_file(cpu, "thread_siblings_list", text);
    }
    return 0;
}

static int remove_machine(void **state)
{
    static const char *const format[] = {"%s/cpu%u/topology/physical_package_id",
                                         "%s/cpu%u/topology/thread_siblings_list"};
    char path[128];

    (void)state;
    for (unsigned cpu = 0; cpu < MACHINE; cpu++) {
        snprintf(path, sizeof path, format[0], folder, cpu);
        unlink(path);
        snprintf(path, sizeof path, format[1], folder, cpu);
        unlink(path);
        snprintf(path, sizeof path, "%s/cpu%u/topology", folder, cpu);
        rmdir(path);
        snprintf(path, sizeof path, "%s/cpu%u/node%u", folder, cpu, cpu % 2);
        rmdir(path);
        snprintf(path, sizeof path, "%s/cpu%u", folder, cpu);
        rmdir(path);
    }
    return rmdir(folder);
}

/* Those from first on, `step` apart. */
static void have(struct processors *processors, unsigned first, unsigned step, unsigned count,
                 const char *root)
{
    *processors = (struct processors){.at = calloc(count, sizeof *processors->at), .count = count};
    assert_non_null(processors->at);
    for (unsigned i = 0; i < count; i++)
        processors->at[i].number = first + i * step;
    processors_order(processors, root);
}

static void gets(const struct processors *processors, unsigned index, unsigned of, const char *what)
{
    char *text = processors_text(processors, processors_share(processors, index, of));

    assert_non_null(text);
    assert_string_equal(text, what);
    free(text);
}

/* ---- Shares -------------------------------------------------------------------------------- */

static void one_rank_has_all(void **state)
{
    struct processors processors;

    (void)state;
    have(&processors, 0, 1, MACHINE, folder);

    assert_int_equal(processors.cores, 8);
    gets(&processors, 0, 1, "0-15");
    processors_fini(&processors);
}

static void two_ranks_have_a_node_each(void **state)
{
    struct processors processors;

    (void)state;
    have(&processors, 0, 1, MACHINE, folder);

    gets(&processors, 0, 2, "0,2,4,6,8,10,12,14");
    gets(&processors, 1, 2, "1,3,5,7,9,11,13,15");
    processors_fini(&processors);
}

static void ranks_have_whole_cores_while_there_are_enough(void **state)
{
    struct processors processors;

    (void)state;
    have(&processors, 0, 1, MACHINE, folder);

    gets(&processors, 0, 8, "0,8");
    gets(&processors, 1, 8, "2,10");
    gets(&processors, 7, 8, "7,15");
    gets(&processors, 0, 3, "0,2,8,10");
    gets(&processors, 1, 3, "1,4,6,9,12,14");
    gets(&processors, 2, 3, "3,5,7,11,13,15");
    processors_fini(&processors);
}

static void then_processors_and_then_one_in_turn(void **state)
{
    struct processors processors;

    (void)state;
    have(&processors, 0, 1, MACHINE, folder);

    gets(&processors, 0, 16, "0");
    gets(&processors, 1, 16, "8");
    gets(&processors, 15, 16, "15");
    for (unsigned rank = 0; rank < 32; rank += 16) {
        gets(&processors, rank, 32, "0");
        gets(&processors, rank + 1, 32, "8");
        gets(&processors, rank + 15, 32, "15");
    }
    processors_fini(&processors);
}

static void of_a_part_of_the_machine_all_is_used(void **state)
{
    struct processors processors;

    (void)state;
    have(&processors, 3, 1, 3, folder); /* one core on node 0, two on node 1 */

    gets(&processors, 0, 2, "4");
    gets(&processors, 1, 2, "3,5");
    gets(&processors, 0, 3, "4");
    gets(&processors, 1, 3, "3");
    gets(&processors, 2, 3, "5");
    gets(&processors, 3, 5, "4");
    gets(&processors, 4, 5, "3");
    processors_fini(&processors);
}

static void where_nothing_is_said_each_is_a_core(void **state)
{
    struct processors processors;

    (void)state;
    have(&processors, 100, 100, 4, "/nowhere");

    assert_int_equal(processors.cores, 4);
    gets(&processors, 0, 2, "100,200");
    gets(&processors, 1, 2, "300,400");
    processors_fini(&processors);
}

/* ---- This machine -------------------------------------------------------------------------- */

static void a_process_is_bound_to_its_share_alone(void **state)
{
    cpu_set_t before, after;
    struct processors processors;
    struct share share;

    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    assert_int_equal(processors_read(&processors), 0);
    assert_int_equal(processors.count, CPU_COUNT(&before));
    share = processors_share(&processors, processors.count - 1, processors.count);

    assert_int_equal(processors_bind(&processors, share), 0);

    assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
    assert_int_equal(CPU_COUNT(&after), 1);
    assert_true(CPU_ISSET(processors.at[share.first].number, &after));
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    processors_fini(&processors);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank_has_all),
        cmocka_unit_test(two_ranks_have_a_node_each),
        cmocka_unit_test(ranks_have_whole_cores_while_there_are_enough),
        cmocka_unit_test(then_processors_and_then_one_in_turn),
        cmocka_unit_test(of_a_part_of_the_machine_all_is_used),
        cmocka_unit_test(where_nothing_is_said_each_is_a_core),
        cmocka_unit_test(a_process_is_bound_to_its_share_alone),
    };

    return cmocka_run_group_tests(tests, make_machine, remove_machine);
}
