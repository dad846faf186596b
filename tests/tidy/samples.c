/* samples.c - small sources that break a rule or keep it: the proof that tidy can fail. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "tidy/samples.h"

#define SPDX "SPDX-License-Identifier: Apache-2.0"

/* One whole text. */
#define SAMPLE(rule, findings, path, text)                                                         \
    {                                                                                              \
        rule, findings, path, text, "", 0, ""                                                      \
    }

#define ARROWS    "arrows_go_down"
#define PORTS     "core_and_algo_see_the_world_through_ports"
#define FILES     "files_are_short"
#define FUNCTIONS "functions_are_short"
#define PARAMS    "parameters_are_few"
#define NESTING   "nesting_is_shallow"
#define BLANKS    "lines_have_no_tabs_no_trailing_blanks_and_100_columns"
#define TOP       "files_begin_with_a_sentence_and_the_licence"
#define CALLS     "banned_calls_are_not_made"
#define WORDS     "no_reminders_and_no_paths_of_one_machine"
#define DOCS      "public_functions_are_documented"

#define TEN     "0123456789"
#define HUNDRED TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN

const struct sample samples[] = {
    SAMPLE(ARROWS, 0, "src/core/a.c", "#include \"a.h\"\n#include \"core/b.h\"\n"),
    SAMPLE(ARROWS, 0, "src/core/a.c", "#include \"tcdist/status.h\"\n#include <stdio.h>\n"),
    SAMPLE(ARROWS, 1, "src/core/a.c", "#include \"loop/loop.h\"\n"),
    SAMPLE(ARROWS, 2, "src/core/a.c", "#include \"../algo/a.h\"\n"),
    SAMPLE(ARROWS, 1, "src/algo/a.c", "#include \"core/a.h\"\n#include \"net/tcp.h\"\n"),
    SAMPLE(ARROWS, 1, "src/algo/a.c", "#include \"loop/loop.h\"\n"),
    SAMPLE(ARROWS, 1, "src/loop/a.c", "#include \"core/a.h\"\n#include \"net/tcp.h\"\n"),
    SAMPLE(ARROWS, 0, "src/net/a.c", "#include \"core/a.h\"\n#include \"loop/loop.h\"\n"),
    SAMPLE(ARROWS, 2, "src/net/a.c", "#include \"rdma/a.h\"\n#include \"algo/ring.h\"\n"),
    SAMPLE(ARROWS, 1, "src/rdma/a.c", "#include \"net/tcp.h\"\n#include \"loop/loop.h\"\n"),
    SAMPLE(ARROWS, 1, "src/context/a.c", "#include \"group/a.h\"\n#include \"net/tcp.h\"\n"),
    SAMPLE(ARROWS, 0, "src/group/a.c", "#include \"net/tcp.h\"\n#include \"algo/algo.h\"\n"),
    SAMPLE(ARROWS, 1, "tests/sim/a.c", "#include \"sim/a.h\"\n#include \"loop/loop.h\"\n"),
    SAMPLE(ARROWS, 0, "tests/test_a.c", "#include \"net/tcp.h\"\n"),
    SAMPLE(ARROWS, 2, "include/tcdist/a.h", "#include \"core/a.h\"\n#include \"status.h\"\n"),
    SAMPLE(ARROWS, 1, "examples/a/a.c", "#include \"a.h\"\n#include \"core/a.h\"\n"),

    SAMPLE(PORTS, 0, "src/core/a.c", "#include <string.h>\n/* <sys/socket.h> */\n"),
    SAMPLE(PORTS, 1, "src/core/a.c", "#include <sys/socket.h>\n"),
    SAMPLE(PORTS, 1, "src/algo/a.c", "#include <event2/event.h>\n"),
    SAMPLE(PORTS, 0, "src/net/a.c", "#include <sys/socket.h>\n"),

    {FILES, 0, "src/a.c", "", "\n", 600, ""},
    {FILES, 1, "src/a.c", "", "\n", 601, ""},

    {FUNCTIONS, 0, "src/a.c", "int f(void)\n{\n", "    g();\n", 68, "}\n"},
    {FUNCTIONS, 1, "src/a.c", "int f(void)\n{\n", "    g();\n", 69, "}\n"},
    {FUNCTIONS, 0, "tests/a.c", "int f(void)\n{\n", "    g();\n", 98, "}\n"},
    {FUNCTIONS, 1, "tests/a.c", "int f(void)\n{\n", "    g();\n", 99, "}\n"},
    {FUNCTIONS, 0, "src/a.c", "static int t[] = {\n", "    1,\n", 200, "};\n"},

    SAMPLE(PARAMS, 0, "src/a.c",
           "int f(int a, int b, int c, int d, int e, int (*g)(int, int))\n{\n}\n"),
    SAMPLE(PARAMS, 1, "src/a.c",
           "int f(int a, int b, int c, int d,\n      int e, int f, int g)\n{\n}\n"),
    SAMPLE(PARAMS, 1, "src/a.c",
           "int tci_f(int a, int b, int c, int d, int e, int f, int g)\n{\n}\n"),
    SAMPLE(PARAMS, 0, "src/a.c",
           "int tc_f(int a, int b, int c, int d, int e, int f, int g)\n{\n}\n"),

    SAMPLE(NESTING, 0, "src/a.c", "int f(void)\n{\n {\n {\n {\n {\n }\n }\n }\n }\n}\n"),
    SAMPLE(NESTING, 1, "src/a.c", "int f(void)\n{\n {\n {\n {\n {\n {\n }\n }\n }\n }\n }\n}\n"),
    SAMPLE(NESTING, 0, "src/a.c", "int f(void)\n{\n g(\"{{{{{{\", '{'); /* {{{{{{ */\n}\n"),

    SAMPLE(BLANKS, 0, "src/a.c", "int a;\n" HUNDRED "\n"),
    SAMPLE(BLANKS, 0, "src/a.c", "/* \xe2\x80\xa6 */" TEN TEN TEN TEN TEN TEN TEN TEN TEN "\n"),
    SAMPLE(BLANKS, 1, "src/a.c", "int\ta;\n"),
    SAMPLE(BLANKS, 1, "src/a.c", "int a; \n"),
    SAMPLE(BLANKS, 1, "src/a.c", HUNDRED "0\n"),
    SAMPLE(BLANKS, 1, "tests/a.sh", "echo \n"),

    SAMPLE(TOP, 0, "src/a.c", "/* a.c - a sentence. */\n/* " SPDX " */\n"),
    SAMPLE(TOP, 0, "src/a.c", "/* a.c - a drawing.\n *\n */\n/* " SPDX " */\n"),
    SAMPLE(TOP, 1, "src/a.c", "/* a.c - a sentence. */\n"),
    SAMPLE(TOP, 1, "src/a.c", "/* b.c - a sentence. */\n/* " SPDX " */\n"),
    SAMPLE(TOP, 2, "src/a.c", "int a;\n"),
    SAMPLE(TOP, 0, "tests/a.sh", "#!/bin/sh\n# a.sh - a sentence.\n# " SPDX "\n"),
    SAMPLE(TOP, 1, "cmake/a.cmake", "# a.cmake - a sentence.\n"),

    SAMPLE(CALLS, 0, "src/a.c", "snprintf(a, b, \"exit()\"); /* exit() */\nops.exit(1);\n"),
    SAMPLE(CALLS, 1, "src/a.c", "    strcpy(a, b);\n"),
    SAMPLE(CALLS, 2, "src/a.c", "    sprintf(a, \"x\");\n    exit (1);\n"),
    SAMPLE(CALLS, 1, "src/a.c", "static void __attribute__((constructor)) f(void);\n"),
    SAMPLE(CALLS, 1, "src/net/a.c", "abort();\n"),
    SAMPLE(CALLS, 0, "src/core/assert.h", "abort();\n"),
    SAMPLE(CALLS, 0, "src/core/log.c", "printf(\"x\");\n"),
    SAMPLE(CALLS, 1, "src/core/heap.c", "printf(\"x\");\n"),
    SAMPLE(CALLS, 0, "tools/a.c", "exit(1);\n"),

    SAMPLE(WORDS, 0, "src/a.c",
           "/* mastodon; mkstemp(\"a-XX"
           "XXXX\") */\n"),
    SAMPLE(WORDS, 1, "src/a.c",
           "/* TO"
           "DO: later */\n"),
    SAMPLE(WORDS, 1, "tests/a.sh",
           "# fix"
           "me\n"),
    SAMPLE(WORDS, 1, "tests/a.c",
           "open(\"/ho"
           "me/somebody\");\n"),

    SAMPLE(DOCS, 0, "include/tcdist/a.h", "/* What it does. */\nTC_API int tc_a(void);\n"),
    SAMPLE(DOCS, 1, "include/tcdist/a.h", "/* Elsewhere. */\n\nTC_API int tc_a(void);\n"),
    SAMPLE(DOCS, 1, "include/tcdist/a.h", "TC_API int tc_a(void);\n"),
    SAMPLE(DOCS, 0, "src/a.h", "TC_API int tc_a(void);\n"),
};
const size_t sample_count = sizeof(samples) / sizeof(samples[0]);
