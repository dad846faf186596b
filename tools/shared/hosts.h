/* hosts.h - the hosts of a job: a host file in any of its forms, or names on a command line. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_HOSTS_H
#define TOOLS_HOSTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum {
    HOSTS_MAX = 4096,        /* hosts of a file, and slots of a host */
    HOST_ADDRESSES_MAX = 64, /* of one host */
    HOST_DEVICES_MAX = 16,   /* from one host to one other */
    HOST_NAME_ROOM = 256,
    HOSTS_WHY_ROOM = 320
};

/* The RDMA devices from one host to another, one a cable. */
struct host_devices {
    char **names;
    size_t count;
};

struct host {
    char *name; /* as ssh is given it: "node3", "user@10.0.0.7" */
    char **ips; /* addresses or names by which ranks of other hosts reach it, the best first */
    size_t ip_count;
    unsigned slots;            /* ranks that it takes */
    struct host_devices *rdma; /* one for each host of the list; NULL: nothing is said */
};

/* Everything that is pointed to belongs to the list. */
struct hosts {
    struct host *at;
    size_t count, room;
    char **envs; /* NAME=VALUE, for every rank */
    size_t env_count;
    char *backend; /* NULL: nothing is said */
    struct hosts_block *blocks;
};

/* Reads a host file: JSON, as a list of {"ssh", "ips", "rdma", "slots"} or with "backend", "envs"
 * and "hosts" around it; or plain lines "name slots=2 ip=10.0.0.7", "name:2".
 * False: why says what is wrong, and the list is empty. */
bool hosts_read(struct hosts *hosts, const char *path, char why[HOSTS_WHY_ROOM]);

/* The same from memory. */
bool hosts_parse(struct hosts *hosts, const char *text, size_t len, char why[HOSTS_WHY_ROOM]);

/* Reads "a,b:2,[fd00::7]:2"; what is an address is also the one to reach the host by. */
bool hosts_parse_names(struct hosts *hosts, const char *names, char why[HOSTS_WHY_ROOM]);

void hosts_fini(struct hosts *hosts);

enum hosts_form { HOSTS_LIST, HOSTS_DICTIONARY, HOSTS_PLAIN };

/* Writes a host file that hosts_read() reads; a plain one has no devices. */
void hosts_write(FILE *file, const struct hosts *hosts, enum hosts_form form);

/* 1 to 255 letters of names, addresses and users, none that a shell or ssh takes for more. */
bool hosts_is_name(const char *name);
/* "10.0.0.7", "fd00::7", "fe80::7%eth0". */
bool hosts_is_address(const char *name);
/* A name of a variable, '=' and a value. */
bool hosts_is_setting(const char *setting);

/* A name of this host: localhost, its own name, or one of its addresses. */
bool hosts_is_own(const char *name);
bool hosts_is_loopback(const char *name);

/* ---- Inside: for the readers --------------------------------------------------------------- */

/* Memory that lives as long as the list; NULL: there is none. */
void *hosts_alloc(struct hosts *hosts, size_t count, size_t bytes);
/* A copy of len characters. */
char *hosts_copy(struct hosts *hosts, const char *text, size_t len);
/* A further host with one slot; NULL: why says what is wrong. */
struct host *hosts_add(struct hosts *hosts, const char *name, size_t len, char why[HOSTS_WHY_ROOM]);
/* Gives a host the addresses of "a,b". */
bool hosts_add_addresses(struct hosts *hosts, struct host *host, const char *list, size_t len,
                         char why[HOSTS_WHY_ROOM]);
bool hosts_parse_json(struct hosts *hosts, const char *text, size_t len, char why[HOSTS_WHY_ROOM]);
bool hosts_parse_plain(struct hosts *hosts, const char *text, size_t len, char why[HOSTS_WHY_ROOM]);

#endif
