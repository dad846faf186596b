/* source.c - one file of the tree as lines, as code without comments, and as functions. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "tidy/source.h"

#include <ctype.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool ends_with(const char *text, const char *end)
{
    size_t text_len = strlen(text);
    size_t end_len = strlen(end);

    return text_len >= end_len && strcmp(text + text_len - end_len, end) == 0;
}

static const char *basename_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash == NULL ? path : slash + 1;
}

bool source_kind_of(const char *path, enum source_kind *kind_out)
{
    static const char *const scripts[] = {".sh", ".awk", ".cmake", ".py"};

    if (ends_with(path, ".c") || ends_with(path, ".h")) {
        *kind_out = SOURCE_C;
        return true;
    }
    for (size_t i = 0; i < sizeof(scripts) / sizeof(scripts[0]); i++)
        if (ends_with(path, scripts[i])) {
            *kind_out = SOURCE_SCRIPT;
            return true;
        }
    *kind_out = SOURCE_SCRIPT;
    return strcmp(basename_of(path), "CMakeLists.txt") == 0 || strcmp(path, "dev") == 0 ||
           strcmp(path, ".ci/run") == 0;
}

/* Blanks the comments and the insides of strings and characters of C, in place. */
static void strip(char *code)
{
    enum { CODE, STRING, CHARACTER, COMMENT, LINE_COMMENT } state = CODE;

    for (char *c = code; *c != '\0'; c++) {
        bool escaped = *c == '\\' && c[1] != '\0';

        if (*c == '\n') {
            if (state != COMMENT)
                state = CODE;
        } else if (state == CODE) {
            if (*c == '"')
                state = STRING;
            else if (*c == '\'' && (c == code || !isalnum((unsigned char)c[-1])))
                state = CHARACTER;
            else if (*c == '/' && (c[1] == '*' || c[1] == '/')) {
                state = c[1] == '*' ? COMMENT : LINE_COMMENT;
                *c++ = ' ';
                *c = ' ';
            }
        } else if (state == COMMENT) {
            bool ends = *c == '*' && c[1] == '/';

            *c = ' ';
            if (ends) {
                *++c = ' ';
                state = CODE;
            }
        } else if ((state == STRING && *c == '"') || (state == CHARACTER && *c == '\'')) {
            state = CODE;
        } else {
            *c = ' ';
            if (escaped && c[1] != '\n')
                *++c = ' ';
        }
    }
}

/* Cuts `text` into lines, in place. */
static char **cut(char *text, int line_count)
{
    char **lines = calloc((size_t)line_count + 1, sizeof(*lines));

    for (int i = 0; i < line_count; i++) {
        lines[i] = text;
        text += strcspn(text, "\n");
        if (*text == '\n')
            *text++ = '\0';
    }
    return lines;
}

void source_init(struct source *source, const char *path, enum source_kind kind, const char *text)
{
    source->path = path;
    source->kind = kind;
    source->text = strdup(text);
    source->code = strdup(text);
    source->line_count = 0;
    for (const char *c = text; *c != '\0'; c++)
        if (*c == '\n' || c[1] == '\0')
            source->line_count++;

    if (kind == SOURCE_C)
        strip(source->code);
    source->text_lines = cut(source->text, source->line_count);
    source->code_lines = cut(source->code, source->line_count);
}

void source_fini(struct source *source)
{
    free(source->text_lines);
    free(source->code_lines);
    free(source->text);
    free(source->code);
}

const char *source_basename(const struct source *source)
{
    return basename_of(source->path);
}

bool source_is_in(const struct source *source, const char *folder)
{
    size_t len = strlen(folder);

    return strncmp(source->path, folder, len) == 0 && source->path[len] == '/';
}

/* The first line of what ends in front of line `open`: the lines up to a blank one, to the end of
 * something else, or to a directive. */
static int signature_start(const struct source *source, int open)
{
    int line = open;

    while (line > 0) {
        const char *before = source->code_lines[line - 1];
        size_t len = strlen(before);

        while (len > 0 && before[len - 1] == ' ')
            len--;
        if (len == 0 || before[0] == '#' || strchr(";}\\", before[len - 1]) != NULL)
            break;
        line--;
    }
    return line;
}

/* Reads name and parameters from the last pair of outer parentheses in front of line `open`. */
static void read_signature(const struct source *source, int open, struct function *function)
{
    char before[128] = "";
    size_t before_len = 0;
    int depth = 0;

    for (int line = signature_start(source, open); line < open; line++) {
        for (const char *c = source->code_lines[line]; *c != '\0'; c++) {
            if (*c == '(' && depth++ == 0) {
                memcpy(function->name, before, sizeof(before));
                function->parameter_count = 1;
            } else if (*c == ')') {
                depth--;
            } else if (*c == ',' && depth == 1) {
                function->parameter_count++;
            } else if (strncmp(c, "...", 3) == 0 && depth == 1) {
                function->parameter_count--; /* what a format takes is no parameter of its own */
            }
            if (depth == 0 && (isalnum((unsigned char)*c) || *c == '_')) {
                if (before_len + 1 < sizeof(before))
                    before[before_len++] = *c;
            } else {
                before_len = 0;
            }
            before[before_len] = '\0';
        }
        before_len = 0;
    }
}

bool source_next_function(const struct source *source, int line, struct function *function_out)
{
    for (; line < source->line_count; line++) {
        if (strcmp(source->code_lines[line], "{") != 0)
            continue;

        memset(function_out, 0, sizeof(*function_out));
        function_out->open = line;
        read_signature(source, line, function_out);
        while (line + 1 < source->line_count && source->code_lines[line][0] != '}')
            line++;
        function_out->close = line;
        return true;
    }
    return false;
}

static bool is_word_char(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

const char *find_word(const char *line, const char *word)
{
    size_t len = strlen(word);

    for (const char *c = line; (c = strcasestr(c, word)) != NULL; c++)
        if ((c == line || !is_word_char(c[-1])) && !is_word_char(c[len]))
            return c;
    return NULL;
}
