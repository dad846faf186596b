/* command_line.c - what the command lines of several tools have in common. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "command_line.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hosts.h"

enum { NAME_MAX_LEN = 32, TYPING_ERRORS_MAX = 2 }; /* of an option that one may mean */

struct words {
    const struct argp *argp;
    int argc;
    char **argv;
};

__attribute__((format(printf, 2, 3), noreturn)) static void refuse(const struct words *words,
                                                                   const char *fmt, ...)
{
    const char *slash = strrchr(words->argv[0], '/');
    const char *name = slash == NULL ? words->argv[0] : slash + 1;
    va_list args;

    fprintf(stderr, "%s: ", name);
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fprintf(stderr, "\nTry `%s --help' or `%s --usage' for more information.\n", name, name);
    exit(argp_err_exit_status);
}

static bool is_end(const struct argp_option *option)
{
    return option->name == NULL && option->key == 0 && option->doc == NULL && option->group == 0;
}

/* By the whole name, or by its beginning, as getopt_long() does; argp has some of its own. */
static bool is_known(const struct words *words, const char *name, size_t len,
                     const struct argp_option **option_out)
{
    static const char *const own[] = {"help", "usage", "version"};
    const struct argp_option *begins = NULL;

    *option_out = NULL;
    for (const struct argp_option *at = words->argp->options; !is_end(at); at++) {
        if (at->name == NULL || strncmp(at->name, name, len) != 0)
            continue;
        begins = at;
        if (at->name[len] == '\0')
            break;
    }
    *option_out = begins;
    for (size_t i = 0; i < sizeof own / sizeof *own && begins == NULL; i++)
        if (strncmp(own[i], name, len) == 0)
            return true;
    return begins != NULL;
}

/* Letters to put in, to leave out or to change. */
static size_t distance(const char *from, size_t from_len, const char *to)
{
    size_t row[NAME_MAX_LEN + 1], to_len = strlen(to);

    if (from_len > NAME_MAX_LEN || to_len > NAME_MAX_LEN)
        return NAME_MAX_LEN;
    for (size_t t = 0; t <= to_len; t++)
        row[t] = t;
    for (size_t f = 1; f <= from_len; f++) {
        size_t corner = row[0];

        row[0] = f;
        for (size_t t = 1; t <= to_len; t++) {
            size_t best = corner + (from[f - 1] != to[t - 1]);

            corner = row[t];
            best = row[t] + 1 < best ? row[t] + 1 : best;
            row[t] = row[t - 1] + 1 < best ? row[t - 1] + 1 : best;
        }
    }
    return row[to_len];
}

/* The option that differs by little, or has the first words of the name; NULL: none. */
static const struct argp_option *nearest(const struct words *words, const char *name, size_t len)
{
    const struct argp_option *found = NULL;
    size_t least = TYPING_ERRORS_MAX + 1;

    for (const struct argp_option *at = words->argp->options; !is_end(at); at++) {
        size_t errors, at_len = at->name == NULL ? 0 : strlen(at->name);

        if (at_len == 0 || (at->flags & OPTION_HIDDEN) != 0)
            continue;
        errors = distance(name, len, at->name);
        if (at_len < len && (name[at_len] == '-' || name[at_len] == '_') &&
            strncmp(at->name, name, at_len) == 0)
            errors = TYPING_ERRORS_MAX;
        if (errors >= least || 2 * errors >= len)
            continue;
        least = errors;
        found = at;
    }
    return found;
}

static bool takes_value(const struct argp_option *option)
{
    return option != NULL && option->arg != NULL && (option->flags & OPTION_ARG_OPTIONAL) == 0;
}

/* The value of an option is the word behind it; gives whether there is one to skip. */
static bool skips_value(const struct words *words, int index, const struct argp_option *option)
{
    const char *value = index + 1 < words->argc ? words->argv[index + 1] : NULL;

    if (!takes_value(option) || value == NULL)
        return false;
    if (strncmp(value, "--", 2) == 0 && (option->flags & OPTION_HIDDEN) == 0)
        refuse(words, "the value of --%s is missing: --%s %s", option->name, option->name,
               option->arg);
    return true;
}

static bool read_long(const struct words *words, int index)
{
    const char *name = words->argv[index] + 2;
    size_t len = strcspn(name, "=");
    const struct argp_option *option, *meant;

    if (!is_known(words, name, len, &option)) {
        meant = nearest(words, name, len);
        if (meant != NULL)
            refuse(words, "there is no option --%.*s; did you mean --%s%s%s?", (int)len, name,
                   meant->name, meant->arg != NULL ? " " : "",
                   meant->arg != NULL ? meant->arg : "");
        return false;
    }
    return name[len] == '\0' && skips_value(words, index, option);
}

/* Several letters may share a word; one that takes a value has the rest of it, or the next one. */
static bool read_short(const struct words *words, int index)
{
    for (const char *at = words->argv[index] + 1; *at != '\0'; at++) {
        const struct argp_option *option = words->argp->options;

        while (!is_end(option) && option->key != *at)
            option++;
        if (!is_end(option) && takes_value(option))
            return at[1] == '\0' && skips_value(words, index, option);
    }
    return false;
}

error_t command_line_parse(const struct argp *argp, int argc, char **argv, unsigned flags,
                           void *input)
{
    struct words words = {argp, argc, argv};

    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (argv[i][0] != '-' || argv[i][1] == '\0') {
            if ((flags & ARGP_IN_ORDER) != 0)
                break;
            continue;
        }
        if (argv[i][1] == '-' ? read_long(&words, i) : read_short(&words, i))
            i++;
    }
    return argp_parse(argp, argc, argv, flags, NULL, input);
}

double command_line_number(const char *arg, double least, double most, struct argp_state *state)
{
    char *end;
    double value;

    errno = 0;
    value = strtod(arg, &end);
    if (errno != 0 || end == arg || *end != '\0' || !(value >= least && value <= most))
        argp_error(state, "'%s' is not a number from %g to %g", arg, least, most);
    return value;
}

void command_line_hosts(struct hosts *hosts, const char *arg, bool is_file,
                        struct argp_state *state)
{
    char why[HOSTS_WHY_ROOM];

    if (hosts->count > 0)
        argp_error(state, "give --hosts or --hostfile once");
    if (!(is_file ? hosts_read(hosts, arg, why) : hosts_parse_names(hosts, arg, why)))
        argp_error(state, "%s", why);
}
