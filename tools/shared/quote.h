/* quote.h - a word as a shell must be given it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_QUOTE_H
#define TOOLS_QUOTE_H

/* The word, in quotes if it needs them; the caller frees it.  NULL: out of memory. */
char *quote(const char *word);

#endif
