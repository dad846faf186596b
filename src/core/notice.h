/* notice.h - notices to bytes and back, for every transport. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_NOTICE_H
#define TCI_NOTICE_H

#include "core/transport.h"

enum { TCI_NOTICE_BYTES = 280 }; /* docs/wire.md has the table */

/* All of it but key and call, which are in the header of whatever carries it. */
void tci_notice_pack(const struct tci_notice *notice, uint8_t *payload);
/* The same back, with every check; key and call of notice_out are left alone, and all of it on
 * failure.  NULL, or what is wrong with it: a static text that continues "the peer sent ". */
const char *tci_notice_unpack(const uint8_t *payload, struct tci_notice *notice_out);

#endif
