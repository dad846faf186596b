/* slurm_conf.h - where Slurm says that a node is: its configuration, and its aliases. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_SLURM_CONF_H
#define TCI_SLURM_CONF_H

#include <stdbool.h>

#include "launch/nodelist.h"

/* The address of a node in the file at `path`, or where Slurm has it by itself for NULL; false:
 * there is none, or none that can be read. */
bool tci_slurm_conf_address(const char *path, const char *node, char address[TCI_NODE_NAME]);
/* The same in one line of such a file, "NodeName=n[1-3] NodeAddr=10.0.0.[1-3] …". */
bool tci_slurm_line_address(const char *line, const char *node, char address[TCI_NODE_NAME]);

/* The address in what a cloud's nodes are told, "n1:10.0.0.1:host1,n2:…"; NULL is fine. */
bool tci_slurm_alias(const char *aliases, const char *node, char address[TCI_NODE_NAME]);

#endif
