/* boot_world.h - ranks of one rendezvous on one loop, for tests. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOOT_WORLD_H
#define BOOT_WORLD_H

#include "core/base.h"
#include "net/boot.h"
#include "net/boot_wire.h"
#include "net/sock.h"

enum { BOOT_PLACES = 72 };

/* One rank of a world; all ranks of a test share one boot_loop. */
struct boot_place {
    const char *listen_url, *advertise; /* set before the start; NULL: beside */
    struct tci_keyring *keyring;        /* likewise; unref'd at the end; NULL: none */
    struct tci_meeting meeting;         /* likewise */
    struct tci_boot *boot;
    bool is_done;
    tc_status_t status;
    struct tci_error error;
    struct tci_boot_result result;
};

extern struct tci_loop *boot_loop; /* all ranks of a test share it */
extern struct boot_place boot_places[BOOT_PLACES];
extern char boot_url[TCI_ADDR_TEXT + 8];
extern struct tci_addr boot_meeting; /* where rank 0 listens */

/* Of each test. */
int boot_world_setup(void **state);
int boot_world_teardown(void **state);

/* Listen for rank 0, and make the URL say where; -1: the host has no such address. */
int boot_world_listen(const char *host);
/* Rank `rank` begins, in a place that may be another; false without memory. */
bool boot_world_start_at(int place, int rank, int size, int fd, uint64_t timeout_ms);
void boot_world_start(int rank, int size, int fd);
void boot_world_cancel(struct boot_place *place);

/* Whether the places from first to last are done; turn until they are; turn a few times. */
bool boot_world_is_at(int first, int last);
void boot_world_run(int first, int last);
void boot_world_turn(int turns);
/* The place failed like this, and its sentence holds these words. */
void boot_world_check_text(int place, tc_status_t status, int rank, const char *says);

/* A connection to rank 0 that says something. */
int boot_world_knock(const char *says, size_t len);
int boot_world_knock_text(const char *says);

#endif
