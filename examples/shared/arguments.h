/* arguments.h - what the examples' command lines have in common. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHARED_ARGUMENTS_H
#define SHARED_ARGUMENTS_H

#include <argp.h>
#include <stddef.h>
#include <stdint.h>

/* The exit code after a mistake in the options. */
enum { EXIT_USAGE = 2 };

/* Each ends the program with EXIT_USAGE after having said what is wrong. */
size_t argument_count(const char *arg, size_t max, const char *what, struct argp_state *state);
uint64_t argument_seed(const char *arg, struct argp_state *state);
float argument_rate(const char *arg, struct argp_state *state);

/* Under a launcher one rank's help is enough: to be called at ARGP_KEY_INIT. */
void argument_hush_others(struct argp_state *state);

#endif
