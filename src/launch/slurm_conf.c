/* slurm_conf.c - where Slurm says that a node is: its configuration, and its aliases. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/slurm_conf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define BLANKS " \t\r\n"

/* A file with more, or longer, lines is not read to its end. */
enum { LINE_MAX_LEN = 8192, LINES_MAX = 100000 };

/* The value of "Key=value" among the words of a line; keys are written in any case. */
static bool get_value(const char *line, const char *key, char *value, size_t room)
{
    size_t key_len = strlen(key);

    for (const char *at = line + strspn(line, BLANKS); *at != '\0'; at += strspn(at, BLANKS)) {
        size_t len = strcspn(at, BLANKS);

        if (len > key_len + 1 && at[key_len] == '=' && strncasecmp(at, key, key_len) == 0 &&
            len - key_len - 1 < room) {
            memcpy(value, at + key_len + 1, len - key_len - 1);
            value[len - key_len - 1] = '\0';
            return true;
        }
        at += len;
    }
    return false;
}

bool tci_slurm_line_address(const char *line, const char *node, char address[TCI_NODE_NAME])
{
    char names[2048], addresses[2048];
    size_t index;

    /* What a node is called for the network is its address where no other is given. */
    if (!get_value(line, "NodeName", names, sizeof(names)) ||
        !tci_nodelist_find(names, node, &index))
        return false;
    if (!get_value(line, "NodeAddr", addresses, sizeof(addresses)) &&
        !get_value(line, "NodeHostname", addresses, sizeof(addresses)))
        return false;
    /* Several nodes of one machine have one address. */
    return tci_nodelist_at(addresses, index, address) ||
           (!tci_nodelist_at(addresses, 1, address) && tci_nodelist_at(addresses, 0, address));
}

static bool search(FILE *file, const char *node, char address[TCI_NODE_NAME])
{
    char line[LINE_MAX_LEN];
    size_t len = 0;

    for (int count = 0; count < LINES_MAX && fgets(line + len, (int)(sizeof(line) - len), file);
         count++) {
        len += strlen(line + len);
        /* A line may go on in the next. */
        if (len >= 2 && line[len - 1] == '\n' && line[len - 2] == '\\') {
            len -= 2;
            continue;
        }
        len = 0;
        line[strcspn(line, "#")] = '\0';
        if (tci_slurm_line_address(line, node, address))
            return true;
    }
    return false;
}

bool tci_slurm_conf_address(const char *path, const char *node, char address[TCI_NODE_NAME])
{
    static const char *const usual[] = {"/etc/slurm/slurm.conf", "/run/slurm/conf/slurm.conf",
                                        "/etc/slurm-llnl/slurm.conf"};
    FILE *file = path != NULL ? fopen(path, "re") : NULL;
    bool is_found;

    for (size_t i = 0; file == NULL && i < sizeof(usual) / sizeof(usual[0]); i++)
        file = fopen(usual[i], "re");
    if (file == NULL)
        return false;
    is_found = search(file, node, address);
    (void)fclose(file);
    return is_found;
}

bool tci_slurm_alias(const char *aliases, const char *node, char address[TCI_NODE_NAME])
{
    size_t node_len = strlen(node);

    while (aliases != NULL && *aliases != '\0') {
        const char *value = aliases + node_len + 1;

        if (strncmp(aliases, node, node_len) == 0 && aliases[node_len] == ':') {
            bool is_bracketed = *value == '['; /* an IPv6 address has colons of its own */
            size_t len = strcspn(value + is_bracketed, is_bracketed ? "]" : ":,");

            if (len == 0 || len >= TCI_NODE_NAME)
                return false;
            memcpy(address, value + is_bracketed, len);
            address[len] = '\0';
            return true;
        }
        aliases += strcspn(aliases, ",");
        aliases += *aliases == ',';
    }
    return false;
}
