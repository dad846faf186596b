/* fuzz_config.c - feeds values to the readers of the environment. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "context/config.h"
#include "context/environment.h"
#include "fuzz/fuzz.h"
#include "tcdist/log.h"

enum { TEXT_ROOM = 512 };

static void want(bool holds)
{
    if (!holds)
        abort();
}

static void hear_nothing(tc_log_level_t level, const char *line, void *arg)
{
    (void)level, (void)line, (void)arg;
}

/* A file is opened where the name of one may stand: a harmless one. */
static bool is_let_through(const char *name, const char *value)
{
    return strcmp(name, "TCDIST_TUNE") != 0 || strcmp(value, "off") == 0 ||
           strcmp(value, "auto") == 0 || strcmp(value, "measure") == 0;
}

/* "NAME=value" of a line into the environment; other lines are misspelt names. */
static void set_line(char *line)
{
    char *equals = strchr(line, '=');

    if (equals == NULL) {
        (void)tci_environment_nearest(line);
        return;
    }
    *equals = '\0';
    if (strncmp(line, "TCDIST_", 7) == 0 && is_let_through(line, equals + 1))
        (void)setenv(line, equals + 1, 1);
}

static void check_config(const tc_config *config)
{
    want(config->timeout_ms == -1 || config->timeout_ms > 0);
    want(config->start_timeout_ms >= -1);
    want(config->segment_bytes > 0 && config->eager_bytes > 0 && config->trace_events > 0);
    want(config->spin_us >= -1);
    want(config->loop_mode == TC_LOOP_THREAD || config->loop_mode == TC_LOOP_MANUAL);
    want(config->hosts != NULL && config->tune != NULL);
    (void)tci_config_tune(config);
}

/* Lines "NAME=value". */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[TEXT_ROOM], *rest = text, *line;
    struct tci_error error = {0};
    tc_config config;

    tc_log_set_sink(hear_nothing, NULL);
    (void)clearenv();
    fuzz_text(data, size, text, sizeof(text));
    while ((line = strsep(&rest, "\n")) != NULL)
        set_line(line);
    if (tci_config_resolve(NULL, &config, &error) == TC_OK)
        check_config(&config);
    else
        want(error.text[0] != '\0' && memchr(error.text, 0, sizeof(error.text)) != NULL);
    tci_config_fini(&config);
    return 0;
}

size_t fuzz_seed(unsigned i, uint8_t *data, size_t room)
{
    static const char *const texts[] = {
        "TCDIST_TIMEOUT=30\nTCDIST_LOOP_MODE=manual\nTCDIST_NUMERICS=fast",
        "TCDIST_TIMEOUT=0.0001\nTCDIST_LOG=debug\nTCDIST_TUNE=off",
        "TCDIST_TIMEOUT=none\nTCDIST_SEGMENT_BYTES=1048576",
        "TCDIST_EAGER_BYTES=1099511627776\nTCDIST_TRACE_EVENTS=16777216",
        "TCDIST_SPIN_US=adaptive\nTCDIST_HOSTS=8*16",
        "TCDIST_SPIN_US=50\nTCDIST_ALGORITHM=ring\nTCDIST_HOSTS==0,1,0,1",
        "TCDIST_TIMEOUTS=1\nTCDIST_WORLD_SIZ=3",
        "TCDIST_LOOP_MODE=thread\nTCDIST_NUMERICS=exact\nTCDIST_HOSTS=auto",
        NULL};

    return fuzz_seed_text(texts, i, data, room);
}
