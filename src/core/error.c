/* error.c - names of statuses, and the records of what went wrong. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/error.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static _Thread_local struct tci_error last_error; /* of this thread; TC_OK: none */

const char *tc_status_string(tc_status_t status)
{
    static const struct {
        tc_status_t status;
        const char *name;
    } names[] = {
        {TC_PENDING, "pending"},
        {TC_OK, "ok"},
        {TC_ERR_NOT_INITIALIZED, "not_initialized"},
        {TC_ERR_ALREADY_INITIALIZED, "already_initialized"},
        {TC_ERR_NO_DEVICE, "no_device"},
        {TC_ERR_UNSUPPORTED_FAMILY, "unsupported_family"},
        {TC_ERR_UNSUPPORTED_DTYPE, "unsupported_dtype"},
        {TC_ERR_INVALID_SHAPE, "invalid_shape"},
        {TC_ERR_INVALID_ARG, "invalid_arg"},
        {TC_ERR_ALLOC, "alloc"},
        {TC_ERR_KERNEL_NOT_FOUND, "kernel_not_found"},
        {TC_ERR_PIPELINE, "pipeline"},
        {TC_ERR_DISPATCH, "dispatch"},
        {TC_ERR_TIMEOUT, "timeout"},
        {TC_ERR_PEER_LOST, "peer_lost"},
        {TC_ERR_MISMATCH, "mismatch"},
        {TC_ERR_BUSY, "busy"},
        {TC_ERR_CANCELLED, "cancelled"},
        {TC_ERR_CLOSED, "closed"},
        {TC_ERR_AUTH, "auth"},
        {TC_ERR_ABI_MISMATCH, "abi_mismatch"},
        {TC_ERR_RENDEZVOUS, "rendezvous"},
        {TC_ERR_TRANSPORT, "transport"},
        {TC_ERR_UNSUPPORTED, "unsupported"},
        {TC_ERR_INTERNAL, "internal"},
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (names[i].status == status)
            return names[i].name;
    }
    return "unknown status";
}

const char *tc_reason_string(tc_reason_t reason)
{
    static const char *const names[] = {
        [TC_REASON_NONE] = "none",
        [TC_REASON_NEVER_STARTED] = "never_started",
        [TC_REASON_REFUSED_KEY] = "refused_key",
        [TC_REASON_REFUSED_IDENTITY] = "refused_identity",
        [TC_REASON_REFUSED_VERSION] = "refused_version",
        [TC_REASON_EXITED] = "exited",
        [TC_REASON_MACHINE_SILENT] = "machine_silent",
        [TC_REASON_LINK_DEAD] = "link_dead",
        [TC_REASON_LOOP_STALLED] = "loop_stalled",
        [TC_REASON_NOT_ENTERED] = "not_entered",
        [TC_REASON_SLOW] = "slow",
    };

    static_assert(sizeof(names) / sizeof(names[0]) == TCI_REASON_COUNT, "every reason has a name");
    return (unsigned)reason < TCI_REASON_COUNT ? names[reason] : "unknown reason";
}

const struct tci_error *tci_error_whole(const tc_error *error)
{
    const struct tci_error *whole = (const struct tci_error *)error; /* pub is its first member */

    /* A copy has nothing behind it, but its sentence lies elsewhere. */
    return error == NULL || error->message != whole->text ? NULL : whole;
}

tc_reason_t tc_error_reason(const tc_error *error)
{
    const struct tci_error *whole = tci_error_whole(error);

    return whole == NULL ? TC_REASON_NONE : whole->reason;
}

const tc_error *tc_last_error(void)
{
    return last_error.pub.status == TC_OK ? NULL : &last_error.pub;
}

__attribute__((format(printf, 3, 0))) static void set(struct tci_error *error, tc_error cause,
                                                      const char *fmt, va_list args)
{
    char text[sizeof(error->text)]; /* the arguments may lie in the record */

    if (vsnprintf(text, sizeof(text), fmt, args) < 0)
        text[0] = '\0';
    memcpy(error->text, text, strlen(text) + 1);
    error->reason = TC_REASON_NONE;
    error->says_at = 0;
    error->pub = cause;
    error->pub.message = error->text;
    if (cause.operation == NULL)
        error->pub.operation = ""; /* users print it */
}

void tci_error_set(struct tci_error *error, tc_status_t status, int rank, uint64_t tag,
                   const char *operation, const char *fmt, ...)
{
    tc_error cause = {.status = status, .rank = rank, .tag = tag, .operation = operation};
    va_list args;

    if (error->pub.status != TC_OK)
        return;
    va_start(args, fmt);
    set(error, cause, fmt, args);
    va_end(args);
}

void tci_error_blame(struct tci_error *error, tc_status_t status, int rank, tc_reason_t reason,
                     const char *operation, const char *fmt, ...)
{
    tc_error cause = {.status = status, .rank = rank, .operation = operation};
    va_list args;

    if (error->pub.status != TC_OK)
        return;
    va_start(args, fmt);
    set(error, cause, fmt, args);
    va_end(args);
    error->reason = reason;
}

tc_status_t tci_error_system(struct tci_error *error, tc_status_t status, const char *doing)
{
    int number = errno;

    tci_error_set(error, status, -1, 0, NULL, "%s: %s", doing, strerror(number));
    errno = number;
    return status;
}

static void copy(struct tci_error *to, const struct tci_error *from)
{
    if (to == from)
        return;
    to->pub = from->pub;
    to->reason = from->reason;
    to->says_at = from->says_at;
    memcpy(to->text, from->text, sizeof(to->text));
    to->pub.message = to->text;
}

void tci_error_copy(struct tci_error *to, const struct tci_error *from)
{
    if (to->pub.status == TC_OK && from->pub.status != TC_OK)
        copy(to, from);
}

tc_status_t tci_error_publish(const struct tci_error *error)
{
    if (error->pub.status != TC_OK)
        copy(&last_error, error);
    return error->pub.status;
}

tc_status_t tci_fail(tc_status_t status, const char *operation, const char *fmt, ...)
{
    tc_error cause = {.status = status, .rank = -1, .operation = operation};
    va_list args;

    va_start(args, fmt);
    set(&last_error, cause, fmt, args);
    va_end(args);
    return status;
}
