/* glib.h - lends a GLib main context to tcdist. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCDIST_ADAPTERS_GLIB_H
#define TCDIST_ADAPTERS_GLIB_H

/*   GMainLoop *loop = g_main_loop_new(NULL, FALSE);
 *   tc_glib   *lent = tc_glib_create(NULL);
 *   tc_config  config;
 *
 *   tc_config_default(&config);
 *   config.loop_mode = TC_LOOP_HOST;
 *   config.reactor = tc_glib_ops();
 *   config.reactor_arg = lent;
 *   tc_init_config(&config, &context);
 *   ... start operations, tc_future_then(), g_main_loop_run(loop) ...
 *   tc_shutdown(context);
 *   tc_glib_destroy(lent);
 *
 * All on the thread that runs that main context (NULL: the default one). */

#include <errno.h>
#include <glib.h>
#include <stdint.h>
#include <stdlib.h>

#include "tcdist/reactor.h"

/* A source of ours: a watch, or the timer (then fd is -1). */
struct tc_glib_source {
    GSource base; /* first */
    gpointer tag; /* of the descriptor; NULL without interest */
    int fd;
    tc_reactor_fn fn;
    void *arg;
};

typedef struct tc_glib {
    GMainContext *main; /* borrowed; NULL: the default one */
    struct tc_glib_source *timer;
} tc_glib;

static inline GIOCondition tc_glib_condition(uint32_t interest)
{
    return (GIOCondition)(((interest & TC_READABLE) ? G_IO_IN : 0) |
                          ((interest & TC_WRITABLE) ? G_IO_OUT : 0));
}

static inline gboolean tc_glib_dispatch(GSource *source, GSourceFunc callback, gpointer data)
{
    struct tc_glib_source *self = (struct tc_glib_source *)source;
    uint32_t ready = 0;

    (void)callback;
    (void)data;
    if (self->fd < 0) {
        g_source_set_ready_time(source, -1);
    } else {
        int events = self->tag == NULL ? 0 : (int)g_source_query_unix_fd(source, self->tag);

        if (events & (G_IO_IN | G_IO_ERR | G_IO_HUP | G_IO_NVAL))
            ready |= (uint32_t)TC_READABLE;
        if (events & (G_IO_OUT | G_IO_ERR | G_IO_HUP | G_IO_NVAL))
            ready |= (uint32_t)TC_WRITABLE;
        if (ready == 0)
            return TRUE;
    }
    self->fn(self->arg, ready);
    return TRUE;
}

static inline struct tc_glib_source *tc_glib_source_new(tc_glib *self, int fd)
{
    static GSourceFuncs funcs = {NULL, NULL, tc_glib_dispatch, NULL, NULL, NULL};
    GSource *source = g_source_new(&funcs, sizeof(struct tc_glib_source));

    ((struct tc_glib_source *)source)->fd = fd;
    g_source_set_can_recurse(source, TRUE); /* for hosts that nest main loops */
    g_source_attach(source, self->main);
    return (struct tc_glib_source *)source;
}

static inline void tc_glib_source_free(struct tc_glib_source *source)
{
    g_source_destroy(&source->base);
    g_source_unref(&source->base);
}

static inline int tc_glib_watch_change(void *reactor, void *handle, uint32_t interest)
{
    struct tc_glib_source *watch = (struct tc_glib_source *)handle;

    (void)reactor;
    if (interest == 0 && watch->tag != NULL) {
        g_source_remove_unix_fd(&watch->base, watch->tag);
        watch->tag = NULL;
    } else if (interest != 0 && watch->tag != NULL) {
        g_source_modify_unix_fd(&watch->base, watch->tag, tc_glib_condition(interest));
    } else if (interest != 0) {
        watch->tag = g_source_add_unix_fd(&watch->base, watch->fd, tc_glib_condition(interest));
    }
    return 0;
}

static inline int tc_glib_watch_add(void *reactor, int fd, uint32_t interest, tc_reactor_fn fn,
                                    void *arg, void **watch_out)
{
    struct tc_glib_source *watch;

    if (fd < 0) {
        errno = EBADF;
        return -1;
    }
    watch = tc_glib_source_new((tc_glib *)reactor, fd);
    watch->fn = fn;
    watch->arg = arg;
    *watch_out = watch;
    return tc_glib_watch_change(reactor, watch, interest);
}

static inline void tc_glib_watch_del(void *reactor, void *handle)
{
    (void)reactor;
    tc_glib_source_free((struct tc_glib_source *)handle);
}

static inline int tc_glib_timer_arm(void *reactor, uint64_t timeout_ns, tc_reactor_fn fn, void *arg)
{
    struct tc_glib_source *timer = ((tc_glib *)reactor)->timer;
    uint64_t us = timeout_ns / 1000 + (timeout_ns % 1000 != 0);

    timer->fn = fn;
    timer->arg = arg;
    g_source_set_ready_time(&timer->base, g_get_monotonic_time() + (gint64)us);
    return 0;
}

static inline void tc_glib_timer_cancel(void *reactor)
{
    g_source_set_ready_time(&((tc_glib *)reactor)->timer->base, -1);
}

/* The verbs, for tc_config.reactor. */
static inline const tc_reactor_ops *tc_glib_ops(void)
{
    static const tc_reactor_ops ops = {TC_REACTOR_ABI_VERSION, tc_glib_watch_add,
                                       tc_glib_watch_change,   tc_glib_watch_del,
                                       tc_glib_timer_arm,      tc_glib_timer_cancel};

    return &ops;
}

/* What goes into tc_config.reactor_arg; NULL without memory. */
static inline tc_glib *tc_glib_create(GMainContext *main_context)
{
    tc_glib *self = (tc_glib *)calloc(1, sizeof(*self));

    if (self == NULL)
        return NULL;
    self->main = main_context;
    self->timer = tc_glib_source_new(self, -1);
    return self;
}

/* After tc_shutdown(). */
static inline void tc_glib_destroy(tc_glib *self)
{
    if (self != NULL)
        tc_glib_source_free(self->timer);
    free(self);
}

#endif
