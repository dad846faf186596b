/* test_rdma_options.c - settings of RDMA are read from one line, and nonsense is refused. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 60, single */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/base.h"
#include "rdma/options.h"

static void settings_are_read(void **state)
{
    struct tci_rdma_options options;

    (void)state;
    assert_true(tci_rdma_options_parse(NULL, &options));
    assert_int_equal(options.mode, TCI_RDMA_AUTO);
    assert_int_equal(options.gid_index, -1);
    assert_true(tci_rdma_options_parse("0", &options));
    assert_int_equal(options.mode, TCI_RDMA_OFF);
    assert_true(tci_rdma_options_parse(
        "1,device=mlx5_0,port=2,gid=3,mtu=1024,traffic_class=106,timeout=18,retries=5", &options));
    assert_int_equal(options.mode, TCI_RDMA_ON);
    assert_string_equal(options.device, "mlx5_0");
    assert_int_equal(options.port, 2);
    assert_int_equal(options.gid_index, 3);
    assert_int_equal(options.mtu, 1024);
    assert_int_equal(options.traffic_class, 106);
    assert_int_equal(options.timeout, 18);
    assert_int_equal(options.retries, 5);
    assert_false(options.is_uc);
    assert_true(tci_rdma_options_parse("1,service=uc", &options) && options.is_uc);
    assert_true(tci_rdma_options_parse("1,service=rc", &options) && !options.is_uc);
}

static void nonsense_is_refused(void **state)
{
    static const char *const wrong[] = {"2",
                                        "on",
                                        "auto,",
                                        "auto,device",
                                        "auto,device=",
                                        "1,mtu=1000",
                                        "1,mtu=128",
                                        "1,mtu=8192",
                                        "1,port=0",
                                        "1,port=256",
                                        "1,timeout=32",
                                        "1,retries=8",
                                        "1,service=ud",
                                        "1,gid=-1",
                                        "1,colour=3",
                                        "1, port=1",
                                        "device=x",
                                        "1,port=1x",
                                        ",",
                                        "1,,port=1",
                                        "1,port=9999999999999999999999"};

    (void)state;
    for (size_t i = 0; i < TCI_LEN(wrong); i++) {
        struct tci_rdma_options options = {.port = 77};

        assert_false(tci_rdma_options_parse(wrong[i], &options));
        assert_int_equal(options.port, 77);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings_are_read),
        cmocka_unit_test(nonsense_is_refused),
    };

    return cmocka_run_group_tests_name("rdma options", tests, NULL, NULL);
}
