/* notice.c - notices to bytes, and back after every check. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/notice.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "core/bytes.h"

/* Where its fields are. */
enum {
    NOTICE_KIND = 0,
    NOTICE_REASON = 1,
    NOTICE_NUMBER = 4,
    NOTICE_STATUS = 8,
    NOTICE_CULPRIT = 12,
    NOTICE_ARG = 16,
    NOTICE_TEXT = 24
};

static_assert(NOTICE_TEXT + sizeof(((struct tci_notice *)0)->text) == TCI_NOTICE_BYTES,
              "a notice has the size that docs/wire.md says");

void tci_notice_pack(const struct tci_notice *notice, uint8_t *payload)
{
    size_t len = strnlen(notice->text, sizeof(notice->text) - 1);

    memset(payload, 0, TCI_NOTICE_BYTES);
    payload[NOTICE_KIND] = notice->kind;
    payload[NOTICE_REASON] = notice->reason;
    tci_put32(payload + NOTICE_NUMBER, (uint32_t)notice->number);
    tci_put32(payload + NOTICE_STATUS, (uint32_t)notice->status);
    tci_put32(payload + NOTICE_CULPRIT, (uint32_t)notice->culprit);
    tci_put64(payload + NOTICE_ARG, notice->arg);
    memcpy(payload + NOTICE_TEXT, notice->text, len);
}

static const char *check(const struct tci_notice *notice)
{
    if (notice->kind >= TCI_NOTICE_KINDS)
        return "a notice of an unknown kind";
    if (notice->status > TC_PENDING || notice->status < TC_ERR_INTERNAL)
        return "a notice with an unknown status";
    if (notice->kind == TCI_NOTICE_END && notice->status >= TC_OK)
        return "a notice of a failure that is none";
    if (notice->reason >= TCI_REASON_COUNT)
        return "a notice with an unknown reason";
    if (notice->culprit < -1)
        return "a notice that blames no rank there is";
    return NULL;
}

const char *tci_notice_unpack(const uint8_t *payload, struct tci_notice *notice_out)
{
    struct tci_notice notice = *notice_out;
    const char *wrong;

    notice.kind = payload[NOTICE_KIND];
    notice.reason = payload[NOTICE_REASON];
    notice.number = (int32_t)tci_get32(payload + NOTICE_NUMBER);
    notice.status = (int32_t)tci_get32(payload + NOTICE_STATUS);
    notice.culprit = (int32_t)tci_get32(payload + NOTICE_CULPRIT);
    notice.arg = tci_get64(payload + NOTICE_ARG);
    wrong = check(&notice);
    if (wrong != NULL)
        return wrong;
    if (memchr(payload + NOTICE_TEXT, 0, sizeof(notice.text)) == NULL)
        return "a notice whose text does not end";
    memcpy(notice.text, payload + NOTICE_TEXT, sizeof(notice.text));
    /* It will be printed: no escape sequences from strangers. */
    for (char *at = notice.text; *at != 0; at++)
        if ((unsigned char)*at < 0x20 || *at == 0x7f)
            *at = '?';
    if (notice.text[0] == 0 && notice.kind <= TCI_NOTICE_LOST) /* of an end or a loss */
        (void)snprintf(notice.text, sizeof(notice.text), "a failure that was told without a cause");
    *notice_out = notice;
    return NULL;
}
