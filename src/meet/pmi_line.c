/* pmi_line.c - lines of the process manager: "cmd=get_result rc=0 value=…". */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "meet/pmi.h"

/* What stands behind "key=", which begins the line or follows a blank. */
static const char *find(const char *line, const char *key)
{
    size_t len = strlen(key);

    for (const char *at = line; *at != '\0'; at += strcspn(at, " ")) {
        at += strspn(at, " ");
        if (strncmp(at, key, len) == 0 && at[len] == '=')
            return at + len + 1;
    }
    return NULL;
}

bool tci_pmi_value(const char *line, const char *key, char *value, size_t room)
{
    const char *found = find(line, key);
    size_t len = found == NULL ? 0 : strcspn(found, " \r\n");

    if (found == NULL || len >= room)
        return false;
    memcpy(value, found, len);
    value[len] = '\0';
    return true;
}

bool tci_pmi_is(const char *line, const char *name)
{
    char value[64];

    return tci_pmi_value(line, "cmd", value, sizeof(value)) && strcmp(value, name) == 0;
}
