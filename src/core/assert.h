/* assert.h - what must hold; on in every build, a failure ends the process. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_ASSERT_H
#define TCI_ASSERT_H

/* Say what did not hold, and where, on standard error; abort. */
__attribute__((noreturn, cold)) void tci_assert_fail(const char *what, const char *file, int line);

#define TC_ASSERT(holds)                                                                           \
    (__builtin_expect(!!(holds), 1) ? (void)0 : tci_assert_fail(#holds, __FILE__, __LINE__))

#define TC_UNREACHABLE() tci_assert_fail("unreachable", __FILE__, __LINE__)

#endif
