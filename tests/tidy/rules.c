/* rules.c - the rules of the house that a program can check, as one table. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "tidy/rules.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define FILE_LINES_MAX          600
#define FUNCTION_LINES_MAX      70
#define TEST_FUNCTION_LINES_MAX 100
#define PARAMETERS_MAX          6
#define NESTING_MAX             4
#define COLUMNS_MAX             100
#define LICENCE_LINES_MAX       40 /* a drawing may stand on top */

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* Lines count from 0 here, from 1 in what is told. */
static void __attribute__((format(printf, 4, 5)))
find(struct findings *findings, const struct source *source, int line, const char *format, ...)
{
    char message[512];
    va_list arguments;

    findings->count++;
    if (findings->is_quiet)
        return;
    va_start(arguments, format);
    vsnprintf(message, sizeof(message), format, arguments);
    va_end(arguments);
    print_error("%s:%d: %s\n", source->path, line + 1, message);
}

/* ---- Arrows: who may include whom ----------------------------------------------------------- */

/* The floors; src/group, the roof, sees all. */
static const struct floor {
    const char *folder;
    const char *may_see; /* beside itself and the public headers, each between blanks */
} floors[] = {
    {"src/core", ""},
    {"src/algo", " core "},
    {"src/loop", " core "},
    {"src/meet", " core loop "},
    {"src/launch", " core loop meet "},
    {"src/net", " core loop meet "},
    {"src/rdma", " core loop "},
    {"src/context", " algo core loop net rdma "},
    {"tests/sim", " core group "},
    {"include/tcdist", ""},
    {"examples", ""},
};

static bool arrow_is_allowed(const struct floor *floor, const char *target)
{
    const char *own = strrchr(floor->folder, '/');
    const char *slash = strchr(target, '/');
    char folder[64];

    if (slash == NULL)
        return strncmp(floor->folder, "include/", 8) != 0;
    snprintf(folder, sizeof(folder), " %.*s ", (int)(slash - target), target);
    if (strcmp(folder, " tcdist ") == 0 || strstr(floor->may_see, folder) != NULL)
        return true;
    return own != NULL && strlen(own) + 1 == strlen(folder) &&
           strncmp(own + 1, folder + 1, strlen(own + 1)) == 0;
}

static void check_arrows(const struct source *source, struct findings *findings)
{
    for (int line = 0; line < source->line_count; line++) {
        char target[128];

        if (sscanf(source->text_lines[line], "#include \"%127[^\"]\"", target) != 1)
            continue;
        if (strncmp(target, "../", 3) == 0)
            find(findings, source, line, "\"%s\" climbs: name the folder instead", target);
        for (size_t i = 0; i < COUNT_OF(floors); i++)
            if (source_is_in(source, floors[i].folder) && !arrow_is_allowed(&floors[i], target))
                find(findings, source, line,
                     "%s may not include \"%s\": stairs go down only; move what is shared down, or "
                     "go through a port of core",
                     floors[i].folder, target);
    }
}

/* core and algo know no descriptor and no network. */
static void check_ports(const struct source *source, struct findings *findings)
{
    static const char *const worldly[] = {"<sys/socket.h>", "<netinet/", "<arpa/", "<netdb.h>",
                                          "<sys/epoll.h>",  "<poll.h>",  "<event", "<infiniband/"};

    if (!source_is_in(source, "src/core") && !source_is_in(source, "src/algo"))
        return;
    for (int line = 0; line < source->line_count; line++)
        for (size_t i = 0; i < COUNT_OF(worldly); i++)
            if (strncmp(source->text_lines[line], "#include ", 9) == 0 &&
                strstr(source->text_lines[line], worldly[i]) != NULL)
                find(findings, source, line, "%s belongs into loop, net or rdma, behind a port",
                     worldly[i]);
}

/* ---- Sizes ---------------------------------------------------------------------------------- */

static void check_file_length(const struct source *source, struct findings *findings)
{
    if (source->line_count > FILE_LINES_MAX)
        find(findings, source, FILE_LINES_MAX,
             "%d lines, more than %d: give a second purpose its "
             "own file",
             source->line_count, FILE_LINES_MAX);
}

static void check_function_length(const struct source *source, struct findings *findings)
{
    int limit = source_is_in(source, "tests") ? TEST_FUNCTION_LINES_MAX : FUNCTION_LINES_MAX;
    struct function function;

    for (int line = 0; source_next_function(source, line, &function); line = function.close + 1) {
        int length = function.close - function.open + 1;

        if (length > limit)
            find(findings, source, function.open, "%s has %d lines, more than %d: name its parts",
                 function.name, length, limit);
    }
}

/* The signatures of public functions are the interface's to decide. */
static void check_parameters(const struct source *source, struct findings *findings)
{
    struct function function;

    for (int line = 0; source_next_function(source, line, &function); line = function.close + 1)
        if (function.parameter_count > PARAMETERS_MAX && strncmp(function.name, "tc_", 3) != 0)
            find(findings, source, function.open,
                 "%s takes %d parameters, more than %d: put what belongs together into a struct",
                 function.name, function.parameter_count, PARAMETERS_MAX);
}

static void check_nesting(const struct source *source, struct findings *findings)
{
    struct function function;

    for (int line = 0; source_next_function(source, line, &function); line = function.close + 1) {
        int depth = 0;
        bool is_told = false;

        for (int i = function.open; i <= function.close; i++)
            for (const char *c = source->code_lines[i]; *c != '\0'; c++) {
                depth += (*c == '{') - (*c == '}');
                if (depth > NESTING_MAX + 1 && !is_told) {
                    find(findings, source, i,
                         "%s nests deeper than %d: return early, or make the "
                         "inside a function",
                         function.name, NESTING_MAX);
                    is_told = true;
                }
            }
    }
}

/* ---- Looks ---------------------------------------------------------------------------------- */

static int columns_of(const char *line)
{
    int columns = 0;

    for (; *line != '\0'; line++)
        columns += ((unsigned char)*line & 0xc0) != 0x80; /* not the rest of a UTF-8 character */
    return columns;
}

static void check_blanks(const struct source *source, struct findings *findings)
{
    for (int line = 0; line < source->line_count; line++) {
        const char *text = source->text_lines[line];
        size_t len = strlen(text);

        if (strchr(text, '\t') != NULL && source->kind == SOURCE_C)
            find(findings, source, line, "a tab: use blanks (./dev fmt)");
        if (len > 0 && isspace((unsigned char)text[len - 1]))
            find(findings, source, line, "blanks at the end: remove them (./dev fmt)");
        if (columns_of(text) > COLUMNS_MAX)
            find(findings, source, line, "%d columns, more than %d: break the line",
                 columns_of(text), COLUMNS_MAX);
    }
}

/* The first line says what the file is; a script's may follow its interpreter. */
static void check_top(const struct source *source, struct findings *findings)
{
    const char *mark = source->kind == SOURCE_C ? "/*" : "#";
    bool has_name = false;
    bool has_licence = false;
    char wanted[256];

    snprintf(wanted, sizeof(wanted), "%s %s - ", mark, source_basename(source));
    for (int line = 0; line < source->line_count && line < LICENCE_LINES_MAX; line++) {
        const char *text = source->text_lines[line];

        if (line == 0 || (line == 1 && source->kind == SOURCE_SCRIPT))
            has_name = has_name || strncmp(text, wanted, strlen(wanted)) == 0;
        has_licence = has_licence || strstr(text, "SPDX-License-Identifier: Apache-2.0") != NULL;
    }
    if (!has_name)
        find(findings, source, 0, "begin with `%sone sentence` that says what the file is", wanted);
    if (!has_licence)
        find(findings, source, 0, "add the licence line, SPDX-License-Identifier: Apache-2.0");
}

/* ---- Words ---------------------------------------------------------------------------------- */

static const struct banned_call {
    const char *name;
    const char *allowed_in; /* start of a path; NULL: nowhere */
    const char *instead;
} banned_calls[] = {
    {"strcpy", NULL, "copy with a bound: snprintf or memcpy"},
    {"strcat", NULL, "write with a bound: snprintf"},
    {"sprintf", NULL, "write with a bound: snprintf"},
    {"vsprintf", NULL, "write with a bound: vsnprintf"},
    {"gets", NULL, "read with a bound"},
    {"strtok", NULL, "use strcspn, or strtok_r"},
    {"system", NULL, "a library starts no programs"},
    {"popen", NULL, "a library starts no programs"},
    {"exit", NULL, "return a status"},
    {"_exit", NULL, "return a status"},
    {"abort", "src/core/assert", "return a status, or TC_ASSERT for a bug of ours"},
    {"signal", NULL, "signals are the application's"},
    {"sigaction", NULL, "signals are the application's"},
    {"sched_setaffinity", NULL, "the placement of threads is the application's"},
    {"pthread_setaffinity_np", NULL, "the placement of threads is the application's"},
    {"alloca", NULL, "reserve memory when the operation starts"},
    {"rand", NULL, "use the seeded generator"},
    {"random", NULL, "use the seeded generator"},
    {"setenv", NULL, "the environment is the application's"},
    {"printf", "src/core/log", "log a line"},
    {"puts", "src/core/log", "log a line"},
    {"perror", "src/core/log", "fill a tc_error"},
    {"constructor", NULL, "nothing runs before the first call"},
};

/* A call, or an attribute: members of the same name, also `(*name)(…)`, are somebody else. */
static bool is_called(const char *line, const char *name)
{
    size_t len = strlen(name);

    for (const char *c = line; (c = find_word(c, name)) != NULL; c += len) {
        const char *next = c + len + strspn(c + len, " ");
        bool is_member = c > line && (c[-1] == '.' || c[-1] == '>' || c[-1] == '*');

        if (strncmp(c, name, len) == 0 && !is_member && (*next == '(' || *next == ')'))
            return true;
    }
    return false;
}

static void check_calls(const struct source *source, struct findings *findings)
{
    if (!source_is_in(source, "src"))
        return;
    for (int line = 0; line < source->line_count; line++)
        for (size_t i = 0; i < COUNT_OF(banned_calls); i++) {
            const struct banned_call *call = &banned_calls[i];

            if (call->allowed_in != NULL &&
                strncmp(source->path, call->allowed_in, strlen(call->allowed_in)) == 0)
                continue;
            if (is_called(source->code_lines[line], call->name))
                find(findings, source, line, "%s is not used here: %s", call->name, call->instead);
        }
}

/* Cut in two, or this file would break the rule. */
static void check_words(const struct source *source, struct findings *findings)
{
    static const char *const reminders[] = {"to"
                                            "do",
                                            "fix"
                                            "me",
                                            "xx"
                                            "x",
                                            "ha"
                                            "ck"};
    static const char *const places[] = {"/ho"
                                         "me/",
                                         "/ro"
                                         "ot/",
                                         "/Us"
                                         "ers/"};

    for (int line = 0; line < source->line_count; line++) {
        for (size_t i = 0; i < COUNT_OF(reminders); i++)
            if (find_word(source->text_lines[line], reminders[i]) != NULL)
                find(findings, source, line, "\"%s\": do it, or open an issue", reminders[i]);
        for (size_t i = 0; i < COUNT_OF(places); i++)
            if (strstr(source->text_lines[line], places[i]) != NULL)
                find(findings, source, line, "%s is a path of one machine", places[i]);
    }
}

static void check_docs(const struct source *source, struct findings *findings)
{
    if (!source_is_in(source, "include/tcdist"))
        return;
    for (int line = 0; line < source->line_count; line++)
        if (strncmp(source->text_lines[line], "TC_API ", 7) == 0 &&
            (line == 0 || strstr(source->text_lines[line - 1], "*/") == NULL))
            find(findings, source, line,
                 "a public function without a comment directly above it: "
                 "say meaning, arguments, thread and errors");
}

const struct rule rules[] = {
    {"arrows_go_down", check_arrows},
    {"core_and_algo_see_the_world_through_ports", check_ports},
    {"files_are_short", check_file_length},
    {"functions_are_short", check_function_length},
    {"parameters_are_few", check_parameters},
    {"nesting_is_shallow", check_nesting},
    {"lines_have_no_tabs_no_trailing_blanks_and_100_columns", check_blanks},
    {"files_begin_with_a_sentence_and_the_licence", check_top},
    {"banned_calls_are_not_made", check_calls},
    {"no_reminders_and_no_paths_of_one_machine", check_words},
    {"public_functions_are_documented", check_docs},
};
const size_t rule_count = COUNT_OF(rules);
