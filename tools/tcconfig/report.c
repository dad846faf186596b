/* report.c - what a survey has found, for people and for GraphViz. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include <stdlib.h>

#include "probe.h"
#include "quote.h"

static const char *name_of(const struct survey *survey, int host)
{
    return survey->hosts->at[host].name;
}

/* ---- Hosts ----------------------------------------------------------------------------------- */

static void write_links(FILE *file, const struct facts *facts)
{
    for (uint32_t k = 0; k < facts->link_count; k++) {
        const struct link_facts *link = &facts->links[k];

        if (link->kind == LINK_LOOPBACK)
            continue;
        fprintf(file, "  %s: %s%s%s, mtu %u", link->name, facts_kind_name(link->kind),
                link->is_up == 0 ? ", down" : "", link->has_carrier == 0 ? ", no carrier" : "",
                link->mtu);
        if (link->speed_mbit > 0)
            fprintf(file, ", %u Mbit/s", link->speed_mbit);
        if (link->master[0] != '\0')
            fprintf(file, ", in bridge %s", link->master);
        for (uint32_t i = 0; i < facts->address_count; i++)
            if (facts->addresses[i].link == k)
                fprintf(file, ", %s/%u", facts->addresses[i].text, facts->addresses[i].prefix_len);
        fprintf(file, "\n");
    }
    for (uint32_t d = 0; d < facts->device_count; d++)
        fprintf(file, "  RDMA device %s: %s, port of %s\n", facts->devices[d].name,
                facts->devices[d].is_active != 0 ? "active" : "not active",
                facts->devices[d].link[0] != '\0' ? facts->devices[d].link : "no interface");
}

static void write_host(FILE *file, const struct survey *survey, int host)
{
    const struct facts *facts = &survey->facts[host];

    if (survey->is_here[host] == 0) {
        fprintf(file, "%s: can't be reached: %s\n", name_of(survey, host), survey->why[host]);
        return;
    }
    fprintf(file, "%s: %s, tcdist %s, transports %s\n", name_of(survey, host), facts->host,
            facts->version, facts->transports);
    write_links(file, facts);
}

/* ---- Pairs ----------------------------------------------------------------------------------- */

static void write_attempt(FILE *file, const struct survey *survey, int a, int b, uint32_t i)
{
    const struct attempt *attempt = &survey_tried(survey, a, b)->attempts[i];
    const struct facts *from = &survey->facts[a], *to = &survey->facts[b];

    fprintf(file, "  %s -> %s: %s -> %s %s: ", name_of(survey, a), name_of(survey, b),
            attempt->via >= 0 && (uint32_t)attempt->via < from->link_count
                ? from->links[attempt->via].name
                : "?",
            to->links[to->addresses[i].link].name, to->addresses[i].text);
    if (attempt->outcome != REACHED)
        fprintf(file, "%s\n", probe_outcome(attempt));
    else if (attempt->mb_per_s < 0)
        fprintf(file, "%.0f us, but large messages do not pass (MTU?)\n", (double)attempt->rtt_us);
    else if (attempt->mb_per_s > 0)
        fprintf(file, "%.0f us, %.0f MB/s\n", (double)attempt->rtt_us, (double)attempt->mb_per_s);
    else
        fprintf(file, "%.0f us\n", (double)attempt->rtt_us);
}

static void write_pair(FILE *file, const struct survey *survey, const struct options *options,
                       int a, int b)
{
    const struct facts *to = &survey->facts[b];
    bool has_any = false;

    for (uint32_t i = 0; i < to->address_count; i++) {
        const struct attempt *attempt = &survey_tried(survey, a, b)->attempts[i];
        bool counts = choice_counts(survey, options, a, b, i);

        has_any |= counts;
        if (counts ||
            (attempt->outcome != NOT_TRIED && (options->is_verbose || attempt->mb_per_s < 0)))
            write_attempt(file, survey, a, b, i);
    }
    if (!has_any)
        fprintf(file, "  %s does not reach %s\n", name_of(survey, a), name_of(survey, b));
}

void report_write(FILE *file, const struct survey *survey, const struct options *options)
{
    for (int i = 0; i < survey->size; i++)
        write_host(file, survey, i);
    if (survey->size > 1)
        fprintf(file, "\n");
    for (int a = 0; a < survey->size; a++)
        for (int b = 0; b < survey->size; b++)
            if (a != b && survey->is_here[a] != 0 && survey->is_here[b] != 0)
                write_pair(file, survey, options, a, b);
}

/* ---- What comes of it ------------------------------------------------------------------------ */

void report_choice(FILE *file, const struct survey *survey, const struct choice *choice)
{
    fprintf(file, "\n");
    if (choice->count == 1)
        fprintf(file, "one host, alone\n");
    else if (choice->is_mesh)
        fprintf(file, "the %d hosts form a mesh%s\n", choice->count,
                choice->is_rdma_mesh ? ", by RDMA devices too" : "");
    else if (choice->is_ring || choice->is_rdma_ring)
        fprintf(file, "the %d hosts form a ring, but no mesh: %s\n", choice->count, choice->why);
    else
        fprintf(file, "the %d hosts form neither a mesh nor a ring: %s\n", choice->count,
                choice->why);
    if (choice->is_ring || choice->is_rdma_ring) {
        fprintf(file, "around the ring:");
        for (int i = 0; i < choice->count; i++)
            fprintf(file, " %s", name_of(survey, choice->order[i]));
        fprintf(file, "\n");
    }
}

void report_setup(FILE *file, const struct survey *survey, const struct setup *setup)
{
    if (setup->count == 0)
        return;
    fprintf(file,
            "\nwires without addresses; these commands, as root, give them some (--auto-setup "
            "runs them):\n");
    for (size_t i = 0; i < setup->count; i++)
        fprintf(file, "  %s: %s\n", name_of(survey, setup->at[i].host), setup->at[i].text);
}

/* ---- GraphViz -------------------------------------------------------------------------------- */

static void draw_edge(FILE *file, const struct survey *survey, int a, int b, uint32_t i)
{
    const struct attempt *attempt = &survey_tried(survey, a, b)->attempts[i];
    const struct facts *from = &survey->facts[a], *to = &survey->facts[b];

    fprintf(file, "  \"%s\" -> \"%s\" [taillabel=\"%s\", headlabel=\"%s\", label=\"%.0f us",
            name_of(survey, a), name_of(survey, b),
            attempt->via >= 0 && (uint32_t)attempt->via < from->link_count
                ? from->links[attempt->via].name
                : "",
            to->links[to->addresses[i].link].name, (double)attempt->rtt_us);
    if (attempt->mb_per_s > 0)
        fprintf(file, "\\n%.0f MB/s", (double)attempt->mb_per_s);
    fprintf(file, "\"];\n");
}

void report_dot(FILE *file, const struct survey *survey, const struct options *options)
{
    fprintf(file, "digraph hosts {\n  node [shape=box];\n  edge [fontsize=9];\n");
    for (int i = 0; i < survey->size; i++)
        fprintf(file, "  \"%s\" [label=\"%s\\n%s\"%s];\n", name_of(survey, i), name_of(survey, i),
                survey->is_here[i] != 0 ? survey->facts[i].host : "can't be reached",
                survey->is_here[i] != 0 ? "" : ", style=dashed");
    for (int a = 0; a < survey->size; a++)
        for (int b = 0; b < survey->size; b++)
            for (uint32_t i = 0;
                 a != b && survey->is_here[b] != 0 && i < survey->facts[b].address_count; i++)
                if (survey->is_here[a] != 0 && choice_counts(survey, options, a, b, i))
                    draw_edge(file, survey, a, b, i);
    fprintf(file, "}\n");
}
