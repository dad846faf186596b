/* tidy.c - reads the whole tree and fails where it breaks a rule of the house. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tidy/rules.h"
#include "tidy/samples.h"

#define SOURCES_MAX 4096
#define RULES_MAX   32

/* Where the tree's own files lie; docs are prose and not looked at. */
static const char *const tops[] = {"CMakeLists.txt", "dev",      "cmake", "include", "src",
                                   "tests",          "examples", "tools", "bench"};

static struct source sources[SOURCES_MAX];
static size_t source_count;

/* ---- Reading the tree ----------------------------------------------------------------------- */

static char *read_file(const char *path, size_t len)
{
    FILE *file = fopen(path, "r");
    char *text = calloc(len + 1, 1);

    if (file == NULL || text == NULL || fread(text, 1, len, file) != len) {
        fprintf(stderr, "tidy: cannot read %s: %s\n", path, strerror(errno));
        exit(1);
    }
    fclose(file);
    return text;
}

/* Adds the file at `path`, or what lies below it. */
static void add_tree(const char *path)
{
    struct stat status;
    enum source_kind kind;

    if (stat(path, &status) != 0)
        return;
    if (S_ISDIR(status.st_mode)) {
        DIR *folder = opendir(path);

        for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
            char below[1024];

            if (entry->d_name[0] == '.')
                continue;
            snprintf(below, sizeof(below), "%s/%s", path, entry->d_name);
            add_tree(below);
        }
        if (folder != NULL)
            closedir(folder);
    } else if (source_kind_of(path, &kind) && source_count < SOURCES_MAX) {
        char *text = read_file(path, (size_t)status.st_size);

        source_init(&sources[source_count++], strdup(path), kind, text);
        free(text);
    }
}

/* ---- The cases: each rule over the tree, and over its samples ------------------------------- */

static void tree_keeps(void **state)
{
    const struct rule *rule = *state;
    struct findings findings = {0};

    for (size_t i = 0; i < source_count; i++)
        rule->check(&sources[i], &findings);

    assert_int_equal(findings.count, 0);
}

static char *sample_text(const struct sample *sample)
{
    size_t size = strlen(sample->head) + strlen(sample->body) * (size_t)sample->times +
                  strlen(sample->tail) + 1;
    char *text = calloc(size, 1);
    size_t len = (size_t)snprintf(text, size, "%s", sample->head);

    for (int i = 0; i < sample->times; i++)
        len += (size_t)snprintf(text + len, size - len, "%s", sample->body);
    snprintf(text + len, size - len, "%s", sample->tail);
    return text;
}

static int findings_in(const struct rule *rule, const struct sample *sample)
{
    struct findings findings = {.is_quiet = true};
    struct source source;
    enum source_kind kind;
    char *text = sample_text(sample);

    assert_true(source_kind_of(sample->path, &kind));
    source_init(&source, sample->path, kind, text);
    rule->check(&source, &findings);
    source_fini(&source);
    free(text);
    return findings.count;
}

static void rule_tells_good_from_bad(void **state)
{
    const struct rule *rule = *state;
    int bad_count = 0;
    int good_count = 0;

    for (size_t i = 0; i < sample_count; i++) {
        const struct sample *sample = &samples[i];

        if (strcmp(sample->rule, rule->name) != 0)
            continue;
        if (findings_in(rule, sample) != sample->findings)
            fail_msg("sample %zu, %s, has %d findings, not %d: %s", i, sample->path,
                     findings_in(rule, sample), sample->findings, sample->head);
        bad_count += sample->findings > 0;
        good_count += sample->findings == 0;
    }

    assert_true(bad_count > 0);
    assert_true(good_count > 0);
}

static void tree_has_sources(void **state)
{
    (void)state;
    assert_true(source_count > 0 && source_count < SOURCES_MAX);
}

static void every_sample_has_its_rule(void **state)
{
    (void)state;
    for (size_t i = 0; i < sample_count; i++) {
        size_t rule = 0;

        while (rule < rule_count && strcmp(samples[i].rule, rules[rule].name) != 0)
            rule++;
        assert_true(rule < rule_count);
    }
}

int main(int argc, char **argv)
{
    static char names[RULES_MAX][128];
    struct CMUnitTest tests[2 + 2 * RULES_MAX] = {cmocka_unit_test(tree_has_sources),
                                                  cmocka_unit_test(every_sample_has_its_rule)};
    size_t test_count = 2;

    if (argc != 2 || chdir(argv[1]) != 0) {
        fprintf(stderr, "usage: tidy SOURCE_DIR\n");
        return 2;
    }
    for (size_t i = 0; i < sizeof(tops) / sizeof(tops[0]); i++)
        add_tree(tops[i]);
    add_tree(".ci/run");

    for (size_t i = 0; i < rule_count && i < RULES_MAX; i++) {
        void *rule = (void *)(uintptr_t)&rules[i];

        snprintf(names[i], sizeof(names[i]), "a_breach_is_found: %s", rules[i].name);
        tests[test_count++] = (struct CMUnitTest){
            .name = names[i], .test_func = rule_tells_good_from_bad, .initial_state = rule};
        tests[test_count++] = (struct CMUnitTest){
            .name = rules[i].name, .test_func = tree_keeps, .initial_state = rule};
    }
    return _cmocka_run_group_tests("tidy", tests, test_count, NULL, NULL);
}
