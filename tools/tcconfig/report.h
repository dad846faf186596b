/* report.h - what a survey has found, for people and for GraphViz. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCCONFIG_REPORT_H
#define TCCONFIG_REPORT_H

#include <stdio.h>

#include "choose.h"
#include "setup.h"

void report_write(FILE *file, const struct survey *survey, const struct options *options);
void report_choice(FILE *file, const struct survey *survey, const struct choice *choice);
void report_setup(FILE *file, const struct survey *survey, const struct setup *setup);
void report_dot(FILE *file, const struct survey *survey, const struct options *options);

#endif
