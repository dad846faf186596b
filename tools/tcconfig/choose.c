/* choose.c - what the hosts form together: a mesh or a ring, over which addresses and devices. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "choose.h"

#include <stdlib.h>
#include <string.h>

enum { MESH_MAX = 8, CABLES_MAX = 4, STEPS_MAX = 1 << 22 /* of a search for a ring */ };

/* ---- Who reaches whom ------------------------------------------------------------------------ */

static bool is_counted(const struct options *options, unsigned kind)
{
    if (options->over == OVER_ETHERNET)
        return kind == LINK_ETHERNET;
    if (options->over == OVER_THUNDERBOLT)
        return kind == LINK_THUNDERBOLT;
    return kind != LINK_LOOPBACK;
}

bool choice_counts(const struct survey *survey, const struct options *options, int a, int b,
                   uint32_t i)
{
    const struct attempt *attempt = &survey_tried(survey, a, b)->attempts[i];
    const struct facts *from = &survey->facts[a], *to = &survey->facts[b];
    const struct address_facts *address = &to->addresses[i];

    if (attempt->outcome != REACHED || address->is_loopback != 0 || address->is_scoped != 0 ||
        attempt->mb_per_s < 0 || !is_counted(options, to->links[address->link].kind))
        return false;
    return attempt->via < 0 || from->machine == to->machine ||
           is_counted(options, from->links[attempt->via].kind);
}

static bool reaches(const struct survey *survey, const struct options *options, int a, int b)
{
    for (uint32_t i = 0; i < survey->facts[b].address_count; i++)
        if (choice_counts(survey, options, a, b, i))
            return true;
    return false;
}

/* The devices of host a whose port is the one by which it reaches host b. */
static int count_devices(const struct survey *survey, int a, int b, const char *names[CABLES_MAX])
{
    const struct facts *from = &survey->facts[a];
    const struct tried *tried = survey_tried(survey, a, b);
    int count = 0;

    for (uint32_t d = 0; d < from->device_count && count < CABLES_MAX; d++) {
        for (int i = 0; i < ADDRESSES_MAX; i++) {
            const struct attempt *attempt = &tried->attempts[i];

            if (from->devices[d].is_active == 0 || attempt->outcome != REACHED ||
                attempt->via < 0 ||
                strcmp(from->links[attempt->via].name, from->devices[d].link) != 0)
                continue;
            names[count++] = from->devices[d].name;
            break;
        }
    }
    return count;
}

/* ---- Rings ----------------------------------------------------------------------------------- */

struct search {
    const struct survey *survey;
    const struct options *options;
    bool by_devices;
    int *order, count, steps;
};

static bool is_linked(const struct search *search, int a, int b)
{
    const char *names[CABLES_MAX];

    if (search->by_devices)
        return count_devices(search->survey, a, b, names) > 0 &&
               count_devices(search->survey, a, b, names) ==
                   count_devices(search->survey, b, a, names);
    return reaches(search->survey, search->options, a, b) &&
           reaches(search->survey, search->options, b, a);
}

/* Extends a path of `len` hosts to a ring, trying hosts in their order. */
static bool extend(struct search *search, int len)
{
    int *order = search->order;

    if (len == search->count)
        return len <= 2 || is_linked(search, order[len - 1], order[0]);
    for (int i = len; i < search->count && search->steps < STEPS_MAX; i++) {
        int next = order[i];

        search->steps++;
        if (!is_linked(search, order[len - 1], next))
            continue;
        memmove(order + len + 1, order + len, (size_t)(i - len) * sizeof *order);
        order[len] = next;
        if (extend(search, len + 1))
            return true;
        memmove(order + len, order + len + 1, (size_t)(i - len) * sizeof *order);
        order[i] = next;
    }
    return false;
}

/* Puts the hosts into the order of a ring, if there is one. */
static bool find_ring(struct choice *choice, const struct survey *survey,
                      const struct options *options, bool by_devices)
{
    int *order = malloc((size_t)choice->count * sizeof *order);
    struct search search = {survey, options, by_devices, order, choice->count, 0};
    bool is_found = order != NULL;

    if (is_found) {
        memcpy(order, choice->order, (size_t)choice->count * sizeof *order);
        is_found = extend(&search, 1);
    }
    if (is_found)
        memcpy(choice->order, order, (size_t)choice->count * sizeof *order);
    free(order);
    return is_found;
}

/* ---- The choice ------------------------------------------------------------------------------ */

static bool is_mesh(struct choice *choice, const struct survey *survey,
                    const struct options *options, bool by_devices)
{
    struct search search = {survey, options, by_devices, NULL, choice->count, 0};

    if (by_devices && choice->count < 2)
        return false;
    for (int a = 0; a < choice->count; a++) {
        for (int b = a + 1; b < choice->count; b++) {
            int one = choice->order[a], other = choice->order[b];

            if (is_linked(&search, one, other))
                continue;
            if (choice->why[0] == '\0')
                (void)snprintf(choice->why, sizeof choice->why,
                               "%.120s and %.120s are not linked%s", survey->hosts->at[one].name,
                               survey->hosts->at[other].name,
                               by_devices ? " by active devices" : " both ways");
            return false;
        }
    }
    return true;
}

/* The name for the host file, of what was asked for or of the best there is. */
static const char *pick_backend(const struct choice *choice, const struct options *options)
{
    const char *wanted = options->backend;
    bool fits = choice->is_mesh || choice->is_ring;

    if (wanted == NULL && choice->is_rdma_mesh && choice->count > 1 && choice->count <= MESH_MAX)
        return "jaccl";
    if (wanted == NULL && choice->is_rdma_ring && choice->count > 1)
        return "jaccl-ring";
    if (wanted == NULL)
        return fits ? "ring" : NULL;
    if (strcmp(wanted, "jaccl") == 0)
        return choice->is_rdma_mesh && choice->count <= MESH_MAX ? wanted : NULL;
    if (strcmp(wanted, "jaccl-ring") == 0)
        return choice->is_rdma_ring ? wanted : NULL;
    if (strcmp(wanted, "rdma") == 0)
        return choice->is_rdma_mesh ? wanted : NULL;
    return fits ? wanted : NULL;
}

bool choice_make(struct choice *choice, const struct survey *survey, const struct options *options)
{
    bool wants_devices = options->backend != NULL && (strncmp(options->backend, "jaccl", 5) == 0 ||
                                                      strcmp(options->backend, "rdma") == 0);
    bool wants_ring = options->backend != NULL && strcmp(options->backend, "jaccl-ring") == 0;

    *choice = (struct choice){.count = 0};
    choice->order = calloc((size_t)survey->size + 1, sizeof *choice->order);
    if (choice->order == NULL)
        return false;
    for (int i = 0; i < survey->size; i++)
        if (survey->is_here[i] != 0)
            choice->order[choice->count++] = i;
    if (choice->count == 0)
        return true;
    if (wants_devices)
        choice->is_rdma_mesh = is_mesh(choice, survey, options, true);
    choice->is_mesh = is_mesh(choice, survey, options, false);
    if (!wants_devices)
        choice->is_rdma_mesh = is_mesh(choice, survey, options, true);
    if (choice->count > 1 && (!choice->is_rdma_mesh || wants_ring))
        choice->is_rdma_ring = find_ring(choice, survey, options, true);
    if (!choice->is_mesh && !choice->is_rdma_ring)
        choice->is_ring = find_ring(choice, survey, options, false);
    choice->backend = pick_backend(choice, options);
    return true;
}

void choice_fini(struct choice *choice)
{
    free(choice->order);
    choice->order = NULL;
}

/* ---- The host file --------------------------------------------------------------------------- */

/* Whether those who have to reach address i of a host do: all others, or a ring's one before. */
static bool is_useful(const struct choice *choice, const struct survey *survey,
                      const struct options *options, int at, uint32_t i)
{
    int host = choice->order[at];

    if (!choice->is_mesh)
        return choice_counts(survey, options,
                             choice->order[(at + choice->count - 1) % choice->count], host, i);
    for (int other = 0; other < choice->count; other++)
        if (other != at && !choice_counts(survey, options, choice->order[other], host, i))
            return false;
    return true;
}

static float speed_to(const struct choice *choice, const struct survey *survey, int at, uint32_t i)
{
    float sum = 0;

    for (int other = 0; other < choice->count; other++)
        if (other != at)
            sum +=
                survey_tried(survey, choice->order[other], choice->order[at])->attempts[i].mb_per_s;
    return sum;
}

static bool is_six(const struct facts *facts, uint32_t i)
{
    return strchr(facts->addresses[i].text, ':') != NULL;
}

/* One address for each link of the host: two of one link are one cable.  Those of IPv4 come first,
 * since MLX knows no others, and the clearly faster ones before the others. */
static bool add_addresses(const struct choice *choice, const struct survey *survey,
                          const struct options *options, int at, struct hosts *hosts,
                          char why[HOSTS_WHY_ROOM])
{
    const struct facts *facts = &survey->facts[choice->order[at]];
    struct host *host = &hosts->at[at];
    bool is_used[LINKS_MAX] = {false};

    for (;;) {
        int best = -1;

        for (uint32_t i = 0; choice->count > 1 && i < facts->address_count; i++)
            if (!is_used[facts->addresses[i].link] && is_useful(choice, survey, options, at, i) &&
                (best < 0 || (is_six(facts, i) == is_six(facts, (uint32_t)best) &&
                              speed_to(choice, survey, at, i) >
                                  1.5F * speed_to(choice, survey, at, (uint32_t)best))))
                best = (int)i;
        if (best < 0)
            return true;
        is_used[facts->addresses[best].link] = true;
        for (size_t k = 0; k < host->ip_count; k++)
            if (strcmp(host->ips[k], facts->addresses[best].text) == 0)
                best = -1;
        if (best >= 0 && !hosts_add_addresses(hosts, host, facts->addresses[best].text,
                                              strlen(facts->addresses[best].text), why))
            return false;
    }
}

static bool add_devices(const struct choice *choice, const struct survey *survey,
                        struct hosts *hosts, int at)
{
    struct host *host = &hosts->at[at];

    host->rdma = hosts_alloc(hosts, (size_t)choice->count, sizeof *host->rdma);
    for (int other = 0; host->rdma != NULL && other < choice->count; other++) {
        const char *names[CABLES_MAX];
        int count =
            other == at ? 0 : count_devices(survey, choice->order[at], choice->order[other], names);

        host->rdma[other].names = hosts_alloc(hosts, CABLES_MAX, sizeof *host->rdma[other].names);
        for (int k = 0; host->rdma[other].names != NULL && k < count; k++)
            host->rdma[other].names[host->rdma[other].count++] =
                hosts_copy(hosts, names[k], strlen(names[k]));
    }
    return host->rdma != NULL;
}

bool choice_hosts(const struct choice *choice, const struct survey *survey,
                  const struct options *options, struct hosts *hosts, char why[HOSTS_WHY_ROOM])
{
    bool has_devices = choice->is_rdma_mesh || choice->is_rdma_ring;

    *hosts = (struct hosts){.count = 0};
    hosts->backend = (char *)choice->backend; /* lives longer */
    hosts->envs = options->env_count > 0 ? options->env : survey->hosts->envs;
    hosts->env_count = options->env_count > 0 ? options->env_count : survey->hosts->env_count;
    for (int at = 0; at < choice->count; at++) {
        const struct host *from = &survey->hosts->at[choice->order[at]];
        struct host *host = hosts_add(hosts, from->name, strlen(from->name), why);

        if (host == NULL)
            return false;
        host->slots = from->slots;
    }
    for (int at = 0; at < choice->count; at++) {
        if (!add_addresses(choice, survey, options, at, hosts, why))
            return false;
        if (has_devices && choice->count > 1 && !add_devices(choice, survey, hosts, at)) {
            (void)snprintf(why, HOSTS_WHY_ROOM, "out of memory");
            return false;
        }
    }
    return true;
}
