/* setup.c - addresses for links that are wired but have none. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "setup.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quote.h"

/* 192.168.0 … 192.168.255: one for each cable or switch. */
enum { NETWORKS = 256, HOSTS_OF_SWITCH = 254 };

/* Links of all hosts, in sets that hear each other. */
struct wires {
    const struct survey *survey;
    int *set; /* owned; the set of link k of host h is at h * LINKS_MAX + k; -1: no wire */
};

__attribute__((format(printf, 3, 4))) static bool add(struct setup *setup, int host,
                                                      const char *format, ...)
{
    va_list args;

    if (setup->count == setup->room) {
        size_t room = setup->room == 0 ? 16 : 2 * setup->room;
        struct setup_command *at = reallocarray(setup->at, room, sizeof *at);

        if (at == NULL)
            return false;
        setup->at = at;
        setup->room = room;
    }
    setup->at[setup->count].host = host;
    va_start(args, format);
    (void)vsnprintf(setup->at[setup->count].text, SETUP_COMMAND, format, args);
    va_end(args);
    setup->count++;
    return true;
}

/* ---- Which links are wired together ---------------------------------------------------------- */

static void join(struct wires *wires, int a, int b)
{
    int from = wires->set[b], to = wires->set[a];

    for (int i = 0; i < wires->survey->size * LINKS_MAX; i++)
        if (wires->set[i] == from)
            wires->set[i] = to;
}

static bool is_wanted(const struct options *options, unsigned kind)
{
    if (options->over == OVER_THUNDERBOLT)
        return kind == LINK_THUNDERBOLT;
    if (options->over == OVER_ETHERNET)
        return kind == LINK_ETHERNET;
    return kind == LINK_ETHERNET || kind == LINK_THUNDERBOLT;
}

/* Who reaches a scoped address by a link of his is wired to it. */
static void find_wires(struct wires *wires, const struct options *options)
{
    const struct survey *survey = wires->survey;

    for (int i = 0; i < survey->size * LINKS_MAX; i++)
        wires->set[i] = i;
    for (int a = 0; a < survey->size; a++) {
        for (int b = 0; b < survey->size; b++) {
            const struct facts *from = &survey->facts[a], *to = &survey->facts[b];

            for (uint32_t i = 0; a != b && i < to->address_count; i++) {
                const struct attempt *attempt = &survey_tried(survey, a, b)->attempts[i];
                int link = to->addresses[i].link;

                if (attempt->outcome == REACHED && to->addresses[i].is_scoped != 0 &&
                    attempt->via >= 0 && from->machine != to->machine &&
                    is_wanted(options, from->links[attempt->via].kind) &&
                    is_wanted(options, to->links[link].kind))
                    join(wires, a * LINKS_MAX + attempt->via, b * LINKS_MAX + link);
            }
        }
    }
}

/* An address that is neither loopback nor scoped. */
static bool has_address(const struct facts *facts, int link)
{
    for (uint32_t i = 0; i < facts->address_count; i++)
        if (facts->addresses[i].link == link && facts->addresses[i].is_scoped == 0)
            return true;
    return false;
}

/* ---- Networks -------------------------------------------------------------------------------- */

static bool is_taken(const struct survey *survey, int network)
{
    char start[24];

    (void)snprintf(start, sizeof start, "192.168.%d.", network);
    for (int h = 0; h < survey->size; h++)
        for (uint32_t i = 0; survey->is_here[h] != 0 && i < survey->facts[h].address_count; i++)
            if (strncmp(survey->facts[h].addresses[i].text, start, strlen(start)) == 0)
                return true;
    return false;
}

static int count_members(const struct wires *wires, int set, int *bare_out)
{
    int count = 0;

    *bare_out = 0;
    for (int i = 0; i < wires->survey->size * LINKS_MAX; i++) {
        if (wires->set[i] != set)
            continue;
        count++;
        if (!has_address(&wires->survey->facts[i / LINKS_MAX], i % LINKS_MAX))
            (*bare_out)++;
    }
    return count;
}

/* A set of which none has an address gets a network of its own. */
static bool number_set(struct setup *setup, const struct wires *wires, int set, int network)
{
    const struct survey *survey = wires->survey;
    int bare, count = count_members(wires, set, &bare), number = 0;

    for (int i = 0; i < survey->size * LINKS_MAX; i++) {
        const char *link = survey->facts[i / LINKS_MAX].links[i % LINKS_MAX].name;

        if (wires->set[i] != set || number == HOSTS_OF_SWITCH)
            continue;
        if (!hosts_is_name(link)) /* it goes to a shell, and came from another host */
            continue;
        number++;
        if (!add(setup, i / LINKS_MAX, "ip addr add 192.168.%d.%d/%d dev %s && ip link set %s up",
                 network, number, count == 2 ? 30 : 24, link, link))
            return false;
    }
    return true;
}

static bool number_all(struct setup *setup, const struct wires *wires)
{
    int network = 0;

    for (int set = 0; set < wires->survey->size * LINKS_MAX; set++) {
        int bare, count = count_members(wires, set, &bare);

        if (count < 2 || bare < count)
            continue;
        while (network < NETWORKS && is_taken(wires->survey, network))
            network++;
        if (network == NETWORKS)
            return true;
        if (!number_set(setup, wires, set, network++))
            return false;
    }
    return true;
}

static bool leave_bridges(struct setup *setup, const struct survey *survey)
{
    for (int h = 0; h < survey->size; h++) {
        for (uint32_t k = 0; survey->is_here[h] != 0 && k < survey->facts[h].link_count; k++) {
            const struct link_facts *link = &survey->facts[h].links[k];

            if (link->kind == LINK_THUNDERBOLT && link->master[0] != '\0' &&
                hosts_is_name(link->name) && !add(setup, h, "ip link set %s nomaster", link->name))
                return false;
        }
    }
    return true;
}

bool setup_find(struct setup *setup, const struct survey *survey, const struct options *options)
{
    struct wires wires = {.survey = survey};
    bool is_good;

    *setup = (struct setup){.count = 0};
    wires.set = calloc((size_t)survey->size * LINKS_MAX, sizeof *wires.set);
    if (wires.set == NULL)
        return false;
    find_wires(&wires, options);
    is_good = leave_bridges(setup, survey) && number_all(setup, &wires);
    free(wires.set);
    return is_good;
}

void setup_fini(struct setup *setup)
{
    free(setup->at);
    *setup = (struct setup){.count = 0};
}

size_t setup_run(const struct setup *setup, const struct survey *survey,
                 const struct options *options)
{
    size_t failed = 0;

    for (size_t i = 0; i < setup->count; i++) {
        char script[2 * SETUP_COMMAND + 128], *quoted = quote(setup->at[i].text), *whole = NULL;

        (void)snprintf(script, sizeof script,
                       "if [ \"$(id -u)\" = 0 ]; then sh -c %s; else sudo -n sh -c %s; fi",
                       quoted != NULL ? quoted : "false", quoted != NULL ? quoted : "false");
        free(quoted);
        quoted = quote(script);
        if (quoted == NULL || asprintf(&whole, "-c %s", quoted) < 0)
            whole = NULL;
        if (whole == NULL ||
            !survey_command(options, survey->hosts->at[setup->at[i].host].name, whole))
            failed++;
        free(quoted);
        free(whole);
    }
    return failed;
}
