/* source.h - one file of the tree as lines, as code without comments, and as functions. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_TIDY_SOURCE_H
#define TESTS_TIDY_SOURCE_H

#include <stdbool.h>

enum source_kind {
    SOURCE_C,     /* .c and .h */
    SOURCE_SCRIPT /* shell, awk, cmake, python */
};

struct source {
    const char *path; /* from the top of the tree: "src/core/heap.c"; borrowed */
    enum source_kind kind;
    char *text; /* owned, as are the arrays and the code below */
    char *code; /* the same lines; comments and the insides of strings are blanks */
    char **text_lines;
    char **code_lines;
    int line_count;
};

/* A function's definition; lines are indexes into the arrays above. */
struct function {
    char name[128];
    int open;  /* the line of its "{" */
    int close; /* the line of its "}" */
    int parameter_count;
};

/* Whether a file of this name is looked at, and as what. */
bool source_kind_of(const char *path, enum source_kind *kind_out);

/* Takes a copy of `text`. */
void source_init(struct source *source, const char *path, enum source_kind kind, const char *text);
void source_fini(struct source *source);

const char *source_basename(const struct source *source);
bool source_is_in(const struct source *source, const char *folder);

/* The first function that opens at or below `line`; false when there is none.  Relies on the
 * braces of functions standing in the first column, and on no other brace standing there alone. */
bool source_next_function(const struct source *source, int line, struct function *function_out);

/* Where `word` stands in `line` as a whole word, without regard to case; NULL when it does not. */
const char *find_word(const char *line, const char *word);

#endif
