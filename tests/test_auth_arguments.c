/* test_auth_arguments.c - identities and keys are checked before anybody is asked for a proof. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/world.h"
#include "tcdist/tcdist.h"

static const char secret[] = "0123456789abcdef0123456789abcdef";
static char places[2][32];
static const char *const urls[] = {places[0], places[1]};
static tc_context *context;

/* What a correct caller gives; each case spoils one thing of it. */
struct given {
    tc_transport_auth_key keys[3];
    tc_transport_auth_config config;
    const char *identities[2];
    size_t identity_count;
    int rank;
};

static void fill(struct given *given)
{
    *given = (struct given){
        .keys = {{"a", 1, secret, 32}, {"b", 1, secret, 32}, {"a", 2, secret, 32}},
        .config = {.abi_version = TC_TRANSPORT_AUTH_ABI_VERSION_CURRENT,
                   .local_identity = "a",
                   .active_key_id = 2,
                   .key_count = 3},
        .identities = {"a", "b"},
        .identity_count = 2,
    };
    given->config.keys = given->keys;
}

/* Both constructors answer alike. */
static tc_status_t ask(const struct given *given)
{
    tc_dist_ctx *group = NULL;
    tc_mesh_group_t *mesh = NULL;
    tc_status_t status = tc_dist_init_authenticated(context, TC_DIST_GLOO, 2, given->rank, urls[0],
                                                    given->identities, given->identity_count,
                                                    &given->config, &group);

    assert_null(group);
    assert_null(strstr(tc_last_error()->message, "0123456789"));
    if (given->identity_count == 2) {
        assert_int_equal(tc_mesh_group_init_authenticated(context, 2, given->rank, urls,
                                                          given->identities, &given->config, &mesh),
                         status);
        assert_null(mesh);
        assert_null(strstr(tc_last_error()->message, "0123456789"));
    }
    return status;
}

static void good_arguments_go_on_to_form_a_group(void **state)
{
    struct given given;

    (void)state;
    fill(&given);

    assert_int_equal(ask(&given), TC_ERR_TIMEOUT); /* alone */
}

static void each_wrong_argument_is_named(void **state)
{
    char longest[129] = "";
    struct given given;

    (void)state;
    memset(longest, 'x', 127);
    fill(&given);
    given.keys[1].identity = given.identities[1] = longest;
    assert_int_equal(ask(&given), TC_ERR_TIMEOUT);
    longest[127] = 'x';
    assert_int_equal(ask(&given), TC_ERR_INVALID_ARG);

#define REFUSED(spoil, word)                                                                       \
    do {                                                                                           \
        fill(&given);                                                                              \
        spoil;                                                                                     \
        assert_int_equal(ask(&given), TC_ERR_INVALID_ARG);                                         \
        assert_non_null(strstr(tc_last_error()->message, word));                                   \
    } while (0)
    REFUSED(given.config.keys = NULL, "no keys");
    REFUSED(given.config.key_count = 0, "no keys");
    REFUSED(given.keys[1].identity = NULL, "key 1");
    REFUSED(given.keys[1].identity = "", "key 1");
    REFUSED(given.keys[1].identity = "b\n", "key 1");
    REFUSED(given.keys[1].identity = "b\xc3\xa4", "key 1");
    REFUSED(given.keys[1].key_id = 0, "number 0");
    REFUSED(given.keys[1].secret = NULL, "shorter than 32");
    REFUSED(given.keys[1].secret_bytes = 31, "shorter than 32");
    REFUSED(given.keys[2].key_id = 1, "same number");
    REFUSED(given.config.local_identity = NULL, "local_identity");
    REFUSED(given.config.local_identity = "c", "active_key_id");
    REFUSED(given.config.active_key_id = 3, "active_key_id");
    REFUSED(given.identities[1] = "a", "both");
    REFUSED(given.identities[1] = NULL, "rank 1");
    REFUSED(given.identities[1] = "c", "no key for");
    REFUSED(given.identity_count = 1, "one a rank");
    REFUSED(given.rank = 1, "local_identity");
    REFUSED(given.rank = 2, "rank 2");
#undef REFUSED
}

static void another_version_is_told_apart(void **state)
{
    struct given given;

    (void)state;
    fill(&given);
    given.config.abi_version = 2;

    assert_int_equal(ask(&given), TC_ERR_ABI_MISMATCH);
}

static void null_is_refused(void **state)
{
    struct given given;
    tc_dist_ctx *group = NULL;
    tc_mesh_group_t *mesh = NULL;

    (void)state;
    fill(&given);
    assert_int_equal(tc_dist_init_authenticated(NULL, TC_DIST_GLOO, 2, 0, urls[0], given.identities,
                                                2, &given.config, &group),
                     TC_ERR_INVALID_ARG);
    assert_int_equal(tc_dist_init_authenticated(context, TC_DIST_GLOO, 2, 0, urls[0],
                                                given.identities, 2, NULL, &group),
                     TC_ERR_INVALID_ARG);
    assert_int_equal(tc_dist_init_authenticated(context, TC_DIST_GLOO, 2, 0, urls[0], NULL, 2,
                                                &given.config, &group),
                     TC_ERR_INVALID_ARG);
    assert_int_equal(
        tc_mesh_group_init_authenticated(context, 2, 0, urls, NULL, &given.config, &mesh),
        TC_ERR_INVALID_ARG);
    assert_int_equal(tc_mesh_group_init_authenticated(context, 2, 0, NULL, given.identities,
                                                      &given.config, &mesh),
                     TC_ERR_INVALID_ARG);
    assert_int_equal(
        tc_mesh_group_init_authenticated(context, 2, 0, urls, given.identities, NULL, &mesh),
        TC_ERR_INVALID_ARG);
}

/* Places that nobody else has just now, and little time. */
static int begin(void **state)
{
    int fds[] = {world_listen(places[0], sizeof(places[0])),
                 world_listen(places[1], sizeof(places[1]))};
    tc_config config;

    (void)state;
    close(fds[0]);
    close(fds[1]);
    tc_config_default(&config);
    config.timeout_ms = 100;
    return tc_init_config(&config, &context) == TC_OK ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    return tc_shutdown(context) == TC_OK ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_arguments_go_on_to_form_a_group),
        cmocka_unit_test(each_wrong_argument_is_named),
        cmocka_unit_test(another_version_is_told_apart),
        cmocka_unit_test(null_is_refused),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
