/* main.c - tcconfig finds out what hosts have and who reaches whom, and writes a host file. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "choose.h"
#include "options.h"
#include "report.h"
#include "setup.h"
#include "survey.h"

/* Where people read: beside a host file that goes to standard output. */
static FILE *talk(const struct options *options)
{
    return options->output == NULL ? stderr : stdout;
}

static bool write_hosts(const struct options *options, const struct survey *survey,
                        const struct choice *choice)
{
    char why[HOSTS_WHY_ROOM] = "";
    struct hosts hosts;
    FILE *file = stdout;
    bool is_good = choice_hosts(choice, survey, options, &hosts, why);

    if (is_good && options->output != NULL && strcmp(options->output, "-") != 0) {
        file = fopen(options->output, "we");
        if (file == NULL) {
            (void)snprintf(why, sizeof why, "%.200s: %s", options->output, strerror(errno));
            is_good = false;
        }
    }
    if (is_good)
        hosts_write(file, &hosts, options->form);
    if (file != NULL && (file == stdout ? fflush(file) : fclose(file)) != 0 && is_good) {
        (void)snprintf(why, sizeof why, "%.200s: %s",
                       options->output != NULL ? options->output : "standard output",
                       strerror(errno));
        is_good = false;
    }
    hosts_fini(&hosts);
    if (!is_good)
        fprintf(stderr, "tcconfig: no host file: %s\n", why);
    return is_good;
}

/* Hosts that are missing; the first of them is told. */
static int count_missing(const struct survey *survey)
{
    int count = 0;

    for (int i = 0; i < survey->size; i++)
        count += survey->is_here[i] == 0;
    return count;
}

/* Gives addresses, and looks again. */
static bool set_up(struct survey *survey, const struct options *options)
{
    struct setup setup;
    bool is_good = setup_find(&setup, survey, options);

    if (is_good && setup.count > 0 && options->sets_up) {
        size_t failed = setup_run(&setup, survey, options);

        report_setup(talk(options), survey, &setup);
        if (failed > 0)
            fprintf(stderr,
                    "tcconfig: %zu of %zu commands failed: is sudo allowed without a "
                    "password there?\n",
                    failed, setup.count);
        fprintf(talk(options), "\nafter that:\n");
        survey_run(survey, options);
        report_write(talk(options), survey, options);
    } else if (is_good) {
        report_setup(talk(options), survey, &setup);
    }
    setup_fini(&setup);
    return is_good;
}

static int conclude(const struct options *options, const struct survey *survey)
{
    struct choice choice;
    int exit_code = EXIT_FOUND;

    if (!choice_make(&choice, survey, options))
        return EXIT_TROUBLE;
    report_choice(talk(options), survey, &choice);
    if (choice.backend == NULL)
        fprintf(stderr, "tcconfig: no host file: the hosts can't be a group%s%s: %s\n",
                options->backend != NULL ? " for " : "",
                options->backend != NULL ? options->backend : "",
                choice.why[0] != '\0' ? choice.why : "there are too many, or none");
    else
        exit_code = write_hosts(options, survey, &choice) ? 0 : EXIT_TROUBLE;
    choice_fini(&choice);
    return exit_code;
}

static int run(const struct options *options)
{
    struct survey survey;
    int exit_code = EXIT_TROUBLE, missing;

    if (!survey_init(&survey, &options->hosts)) {
        fprintf(stderr, "tcconfig: out of memory\n");
        return EXIT_TROUBLE;
    }
    survey_run(&survey, options);
    missing = count_missing(&survey);
    if (options->draws) {
        report_dot(stdout, &survey, options);
        exit_code = missing > 0 && !options->ignores_unreachable ? EXIT_FOUND : 0;
    } else {
        report_write(talk(options), &survey, options);
        if (missing == survey.size || (missing > 0 && !options->ignores_unreachable)) {
            fprintf(stderr, "tcconfig: %d of %d hosts can't be reached%s\n", missing, survey.size,
                    missing < survey.size ? "; --ignore-unreachable goes on without them" : "");
            exit_code = EXIT_FOUND;
        } else if (set_up(&survey, options)) {
            exit_code = conclude(options, &survey);
        }
    }
    survey_fini(&survey);
    return exit_code;
}

int main(int argc, char **argv)
{
    static const char agent[] = "--agent=";
    struct options options;
    int exit_code;

    if (argc == 2 && strncmp(argv[1], agent, sizeof agent - 1) == 0)
        return agent_run(argv[1] + sizeof agent - 1);
    (void)signal(SIGPIPE, SIG_IGN);
    options_parse(&options, argc, argv);
    exit_code = run(&options);
    options_fini(&options);
    return exit_code;
}
