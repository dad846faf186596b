/* share.c - whether ranks of one host share memory: what the environment says. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "share.h"

#include <stdlib.h>
#include <string.h>

#include "net/shm.h"

enum { IS_ON = 1, MAY_READ = 1 };

/* 0 or 1; -1: another word. */
static int read_switch(const char *name, int standard)
{
    const char *text = getenv(name);

    if (text == NULL)
        return standard;
    if (strcmp(text, "0") == 0 || strcmp(text, "1") == 0)
        return text[0] - '0';
    return -1;
}

tc_status_t tci_share_check(struct tci_error *error)
{
    static const char *const names[] = {"TCDIST_SHM", "TCDIST_SHM_CMA"};

    for (int i = 0; i < 2; i++)
        if (read_switch(names[i], 0) < 0) {
            tci_error_set(error, TC_ERR_INVALID_ARG, -1, 0, "init",
                          "%s is \"%.40s\", but must be 0 or 1", names[i], getenv(names[i]));
            return TC_ERR_INVALID_ARG;
        }
    return TC_OK;
}

bool tci_share_is_on(const tc_context *context)
{
    return tci_shm_is_built() && read_switch("TCDIST_SHM", IS_ON) == 1 &&
           context->config.encryption <= 0;
}

bool tci_share_may_read(void)
{
    return read_switch("TCDIST_SHM_CMA", MAY_READ) == 1;
}
