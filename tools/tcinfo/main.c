/* main.c - tcinfo tells what tcdist finds on this machine, and what a group would be. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "command_line.h"
#include "core/alloc.h"
#include "facts.h"

enum { KEY_JSON = 256 };

const char *argp_program_version = COMMAND_LINE_VERSION("tcinfo");

static const struct argp_option argp_options[] = {
    {"json", KEY_JSON, NULL, 0, "Print one JSON object instead of text", 0},
    {0},
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    bool *is_json = state->input;

    switch (key) {
    case KEY_JSON:
        *is_json = true;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "unexpected argument '%s'", arg);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

bool find_facts(struct facts *facts)
{
    *facts = (struct facts){.build = {.best = 0}};
    find_build(&facts->build);
    find_rdma(&facts->rdma);
    find_memory(&facts->memory);
    if (find_interfaces(&facts->interfaces) && find_environment(&facts->environment))
        return true;
    fprintf(stderr, "tcinfo: no memory left\n");
    return false;
}

void free_facts(struct facts *facts)
{
    tci_free(facts->interfaces.at);
    tci_free(facts->rdma.ports);
    tci_free(facts->environment.at);
    tci_jaccl_fini(&facts->environment.cables);
}

int main(int argc, char **argv)
{
    static const struct argp argp = {
        .options = argp_options,
        .parser = parse_option,
        .doc = "Tell what tcdist was built with, what it finds on this machine, and what group a "
               "program would form in this environment.\vThe exit code is 0, 1 when the "
               "environment is wrong, or 2 when an option is or nothing can be printed.",
    };
    bool is_json = false, is_told;
    struct facts facts;
    int code;

    argp_err_exit_status = EXIT_TROUBLE;
    if (argp_parse(&argp, argc, argv, 0, NULL, &is_json) != 0)
        return EXIT_TROUBLE;
    is_told = find_facts(&facts);
    if (is_told && is_json)
        is_told = print_json(&facts);
    else if (is_told)
        print_text(&facts);
    code = facts.environment.error[0] != '\0' ? EXIT_WRONG : 0;
    free_facts(&facts);
    if (!is_told || fflush(stdout) != 0)
        return EXIT_TROUBLE;
    return code;
}
