/* test_adapter_glib.c - tcdist in an application's GLib main loop. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: needs glib-2.0, serial */
#include "tcdist/adapters/glib.h"

#include <glib-unix.h>

#include "support/adapter_suite.h"

static GMainContext *main_context;
static GSource *own[2]; /* tick and watch */

static gboolean call_tick(gpointer arg)
{
    (*(void (**)(void))arg)();
    return TRUE;
}

static gboolean call_ready(gint fd, GIOCondition condition, gpointer arg)
{
    (void)fd;
    (void)condition;
    return call_tick(arg);
}

static void open_loop(void)
{
    main_context = g_main_context_new();
}

static void *lend(void)
{
    return tc_glib_create(main_context);
}

static void take_back(void *lent)
{
    tc_glib_destroy(lent);
}

static void close_loop(void)
{
    for (int i = 0; i < 2; i++) {
        if (own[i] == NULL)
            continue;
        g_source_destroy(own[i]);
        g_source_unref(own[i]);
        own[i] = NULL;
    }
    g_main_context_unref(main_context);
}

static void step(void)
{
    g_main_context_iteration(main_context, TRUE);
}

static void tick(unsigned ms, void (*fn)(void))
{
    static void (*on_tick)(void);

    on_tick = fn;
    own[0] = g_timeout_source_new(ms);
    g_source_set_callback(own[0], call_tick, &on_tick, NULL);
    g_source_attach(own[0], main_context);
}

static void watch(int fd, void (*fn)(void))
{
    static void (*on_ready)(void);

    on_ready = fn;
    own[1] = g_unix_fd_source_new(fd, G_IO_IN);
    g_source_set_callback(own[1], (GSourceFunc)(void (*)(void))call_ready, &on_ready, NULL);
    g_source_attach(own[1], main_context);
}

int main(void)
{
    static const struct adapter_host host = {tc_glib_ops, open_loop, close_loop, lend,
                                             take_back,   step,      tick,       watch};

    return adapter_suite(&host);
}
