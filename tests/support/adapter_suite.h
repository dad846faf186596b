/* adapter_suite.h - what every adapter has to stand: one body of tests over all host loops. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_ADAPTER_SUITE_H
#define TEST_ADAPTER_SUITE_H

#include "tcdist/reactor.h"

/* A host's loop as an application has it, lent to tcdist through the adapter under test. */
struct adapter_host {
    const tc_reactor_ops *(*ops)(void);
    void (*open)(void);  /* make the loop */
    void (*close)(void); /* when it is not lent any more */
    void *(*lend)(void); /* give a reactor_arg; several may be out at a time */
    void (*take_back)(void *lent);
    void (*step)(void); /* run the loop once: sleeps until something was called */
    /* The application's own: call fn every ms milliseconds; when fd is readable. */
    void (*tick)(unsigned ms, void (*fn)(void));
    void (*watch)(int fd, void (*fn)(void));
};

/* Runs all tests; the exit status of the program. */
int adapter_suite(const struct adapter_host *host);

#endif
