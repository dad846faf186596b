/* config.h - settings of a context, from the application and from the environment. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_CONFIG_H
#define TCI_CONFIG_H

#include "algo/measure.h"
#include "core/error.h"
#include "tcdist/context.h"

/* Check `from` (NULL: the default) and fill what it leaves open; strings and the key are copied.
 * tci_config_fini frees those, also after a failure. */
tc_status_t tci_config_resolve(const tc_config *from, tc_config *to, struct tci_error *error);
void tci_config_fini(tc_config *config);

/* What config->tune, resolved, stands for. */
enum tci_tune tci_config_tune(const tc_config *config);

#endif
