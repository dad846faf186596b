/* test_shm_map.c - what a peer says of its memory is checked before it is mapped, and read. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "net/shm_link.h"
#include "net/shm_region.h"

enum { BYTES = 1 << 16, HALF = BYTES / 2 };

/* This process is its own peer. */
static struct tci_shm_link *new_link(void)
{
    struct tci_shm_link *link = test_calloc(1, sizeof(*link));

    link->pid = getpid();
    return link;
}

static void end_link(struct tci_shm_link *link)
{
    tci_shm_unmap_all(link);
    test_free(link);
}

static uint64_t number_of(int fd)
{
    struct stat info;

    assert_int_equal(fstat(fd, &info), 0);
    return info.st_ino;
}

static int make_sealed(int seals, off_t bytes)
{
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, bytes), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

static struct tci_shm_lend lend_of(int fd)
{
    return (struct tci_shm_lend){.total = HALF, .memory = number_of(fd), .fd = fd, .bytes = BYTES};
}

/* ---- Memory that is mapped at all ----------------------------------------------------------- */

static void nothing_of_it_is_mapped(int fd, size_t bytes, uint64_t number)
{
    const char *why = NULL;

    assert_null(tci_shm_map_lent(getpid(), fd, bytes, number));
    if (number == number_of(fd)) {
        assert_null(tci_shm_map(getpid(), fd, bytes, &why));
        assert_string_equal(why, "has another size, or could shrink");
    }
    close(fd);
}

static void memory_that_could_shrink_is_not_mapped(void **state)
{
    int fd = make_sealed(F_SEAL_GROW, BYTES);

    (void)state;
    nothing_of_it_is_mapped(fd, BYTES, number_of(fd));
}

static void memory_that_is_shorter_than_it_is_said_to_be_is_not_mapped(void **state)
{
    int fd = make_sealed(F_SEAL_SHRINK, BYTES);

    (void)state;
    nothing_of_it_is_mapped(fd, BYTES + 4096, number_of(fd));
}

static void memory_of_another_number_is_not_mapped(void **state)
{
    int fd = tci_shm_make(BYTES);

    (void)state;
    nothing_of_it_is_mapped(fd, BYTES, number_of(fd) + 1);
}

static void memory_of_no_length_is_not_mapped(void **state)
{
    int fd = make_sealed(F_SEAL_SHRINK, 0);

    (void)state;
    assert_null(tci_shm_map_lent(getpid(), fd, 0, number_of(fd)));
    close(fd);
}

/* ---- What is lent of it --------------------------------------------------------------------- */

static void a_loan_lies_within_its_memory(void **state)
{
    struct tci_shm_link *link = new_link();
    int fd = tci_shm_make(BYTES);
    struct tci_shm_lend lend = lend_of(fd);

    (void)state;
    lend.offset = HALF;
    assert_non_null(tci_shm_map_loan(link, &lend));
    lend.offset = HALF + 1;
    assert_null(tci_shm_map_loan(link, &lend));
    lend.offset = UINT64_MAX - HALF + 1; /* the sum of both is 0 */
    assert_null(tci_shm_map_loan(link, &lend));
    lend.offset = 0;
    lend.total = BYTES + 1;
    assert_null(tci_shm_map_loan(link, &lend));
    close(fd);
    end_link(link);
}

/* The peer lends more of the same memory than it has said that there is. */
static void memory_that_is_mapped_has_the_length_that_it_had(void **state)
{
    struct tci_shm_link *link = new_link();
    int fd = tci_shm_make(BYTES);
    struct tci_shm_lend lend = lend_of(fd);

    (void)state;
    assert_non_null(tci_shm_map_loan(link, &lend));
    lend.bytes = 2 * BYTES;
    lend.offset = BYTES;
    assert_null(tci_shm_map_loan(link, &lend));
    close(fd);
    end_link(link);
}

static void what_is_being_read_stays_mapped(void **state)
{
    struct tci_shm_mapped *mapped[TCI_SHM_MAPPED_MAX], *last;
    struct tci_shm_link *link = new_link();
    struct tci_shm_lend lend;
    int fd;

    (void)state;
    for (int i = 0; i < TCI_SHM_MAPPED_MAX; i++) {
        fd = tci_shm_make(BYTES);
        lend = lend_of(fd);
        mapped[i] = tci_shm_map_loan(link, &lend);
        assert_non_null(mapped[i]);
        mapped[i]->pulls++;
        close(fd); /* the mapping holds its number */
    }
    fd = tci_shm_make(BYTES);
    lend = lend_of(fd);
    assert_null(tci_shm_map_loan(link, &lend));
    mapped[7]->pulls--;
    last = tci_shm_map_loan(link, &lend);
    assert_ptr_equal(last, mapped[7]);
    assert_int_equal(last->memory, lend.memory);
    close(fd);
    end_link(link);
}

/* The one that was not used for the longest time makes room. */
static void what_was_used_lately_stays_mapped(void **state)
{
    struct tci_shm_mapped *mapped[TCI_SHM_MAPPED_MAX];
    struct tci_shm_link *link = new_link();
    struct tci_shm_lend lend, first = {0};
    int fd;

    (void)state;
    for (int i = 0; i < TCI_SHM_MAPPED_MAX; i++) {
        fd = tci_shm_make(BYTES);
        lend = lend_of(fd);
        mapped[i] = tci_shm_map_loan(link, &lend);
        assert_non_null(mapped[i]);
        if (i == 0)
            first = lend;
        else
            assert_ptr_not_equal(mapped[i], mapped[i - 1]);
        close(fd);
    }
    assert_ptr_equal(tci_shm_map_loan(link, &first), mapped[0]);
    fd = tci_shm_make(BYTES);
    lend = lend_of(fd);
    assert_ptr_equal(tci_shm_map_loan(link, &lend), mapped[1]);
    close(fd);
    end_link(link);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_that_could_shrink_is_not_mapped),
        cmocka_unit_test(memory_that_is_shorter_than_it_is_said_to_be_is_not_mapped),
        cmocka_unit_test(memory_of_another_number_is_not_mapped),
        cmocka_unit_test(memory_of_no_length_is_not_mapped),
        cmocka_unit_test(a_loan_lies_within_its_memory),
        cmocka_unit_test(memory_that_is_mapped_has_the_length_that_it_had),
        cmocka_unit_test(what_is_being_read_stays_mapped),
        cmocka_unit_test(what_was_used_lately_stays_mapped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
