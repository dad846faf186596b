/* timeline_html.c - writes a timeline as a page that needs nothing else: a drawing and its zoom. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "page.h"
#include "timeline.h"

/* In pixels; the page's script reads widths from the drawing. */
enum {
    LEFT = 130, /* of the plot: the lanes' names */
    PLOT_WIDTH = 1100,
    TOP = 24, /* of the lanes: the axis */
    COMPUTE_HEIGHT = 22,
    ROW_HEIGHT = 13,
    ROW_GAP = 2,
    RANK_GAP = 12,
    ROWS_MAX = 16 /* collectives at once; more are drawn over each other */
};

/* Where a rank's lanes lie. */
struct lanes {
    const struct span *spans; /* borrowed: those of the rank */
    size_t count;
    int rows; /* of collectives, at least 1 */
    int y;
    int height;
};

/* ---- Places --------------------------------------------------------------------------------- */

/* Puts each collective in the first row that is free when it begins. */
static int stack_collectives(struct span *spans, size_t count)
{
    uint64_t free_ns[ROWS_MAX] = {0};
    int rows = 1;

    for (size_t i = 0; i < count; i++) {
        struct span *span = &spans[i];
        uint8_t row = 0;

        if (span->kind != SPAN_COLLECTIVE)
            continue;
        while (row < ROWS_MAX - 1 && free_ns[row] > span->begin_ns)
            row++;
        span->row = row;
        free_ns[row] = span->end_ns;
        rows = row + 1 > rows ? row + 1 : rows;
    }
    return rows;
}

/* Gives the height of all. */
static int place_lanes(struct timeline *timeline, struct lanes *lanes)
{
    size_t at = 0;
    int y = TOP;

    for (int rank = 0; rank < timeline->ranks; rank++) {
        size_t begin = at;

        while (at < timeline->count && timeline->spans[at].rank == (uint32_t)rank)
            at++;
        lanes[rank].spans = timeline->spans + begin;
        lanes[rank].count = at - begin;
        lanes[rank].rows = stack_collectives(timeline->spans + begin, at - begin);
        lanes[rank].height = COMPUTE_HEIGHT + ROW_GAP + lanes[rank].rows * (ROW_HEIGHT + ROW_GAP);
        lanes[rank].y = y;
        y += lanes[rank].height + RANK_GAP;
    }
    return y;
}

static double millis(uint64_t len_ns)
{
    return (double)len_ns / 1e6;
}

static double x_of(const struct timeline *timeline, uint64_t at_ns)
{
    return (double)(at_ns - timeline->begin_ns) * PLOT_WIDTH /
           (double)(timeline->end_ns - timeline->begin_ns);
}

/* ---- Drawing -------------------------------------------------------------------------------- */

/* A rectangle whose title, up to the colon, the script writes into it where it fits. */
static void draw_span(FILE *file, const struct timeline *timeline, const struct span *span, int y,
                      int height)
{
    double x = x_of(timeline, span->begin_ns);
    bool is_collective = span->kind == SPAN_COLLECTIVE;
    char shade[16] = "";

    if (span->tag < 10)
        (void)snprintf(shade, sizeof shade, " l%d", (int)span->tag);
    fprintf(file, "<rect class='span %s%s' x='%.2f' y='%d' width='%.2f' height='%d'><title>",
            is_collective ? "collective" : span->name, shade, x, y,
            x_of(timeline, span->end_ns) - x, height);
    if (span->tag == TC_TAG_ORDERED)
        fprintf(file, "%s: in order", span->name);
    else
        fprintf(file, "%s %" PRIu64 ": %s %" PRIu64, span->name, span->tag,
                is_collective ? "tag" : "layer", span->tag);
    if (is_collective)
        fprintf(file, ", %" PRIu64 " bytes", span->bytes);
    fprintf(file, ", %.3f ms, from %.3f to %.3f</title></rect>\n",
            millis(span->end_ns - span->begin_ns), millis(span->begin_ns - timeline->begin_ns),
            millis(span->end_ns - timeline->begin_ns));
}

/* When the collective ended that a wait of this rank was for. */
static uint64_t end_of_awaited(const struct lanes *lanes, const struct span *wait)
{
    uint64_t end_ns = wait->end_ns;

    for (size_t i = 0; i < lanes->count; i++) {
        const struct span *span = &lanes->spans[i];

        if (span->kind == SPAN_COLLECTIVE && span->tag == wait->tag &&
            span->begin_ns < wait->end_ns)
            end_ns = span->end_ns; /* the spans are in order: the last one counts */
    }
    return end_ns;
}

/* The waiting, and what remained of it when there was nothing left to wait for. */
static void draw_wait(FILE *file, const struct timeline *timeline, const struct lanes *lanes,
                      const struct span *wait)
{
    uint64_t settled_ns = end_of_awaited(lanes, wait);
    struct span part = *wait;

    if (settled_ns < part.begin_ns)
        settled_ns = part.begin_ns;
    if (settled_ns < part.end_ns)
        part.end_ns = settled_ns;
    draw_span(file, timeline, &part, lanes->y, COMPUTE_HEIGHT);
    if (settled_ns < wait->end_ns) {
        part.begin_ns = settled_ns;
        part.end_ns = wait->end_ns;
        (void)snprintf(part.name, sizeof part.name, "late");
        draw_span(file, timeline, &part, lanes->y, COMPUTE_HEIGHT);
    }
}

static void draw_rank(FILE *file, const struct timeline *timeline, const struct lanes *lanes)
{
    for (size_t i = 0; i < lanes->count; i++) {
        const struct span *span = &lanes->spans[i];
        int row_y = lanes->y + COMPUTE_HEIGHT + ROW_GAP + span->row * (ROW_HEIGHT + ROW_GAP);

        if (span->kind == SPAN_COLLECTIVE)
            draw_span(file, timeline, span, row_y, ROW_HEIGHT);
        else if (span->kind == SPAN_APP && strcmp(span->name, "wait") == 0)
            draw_wait(file, timeline, lanes, span);
        else if (span->kind == SPAN_APP && strcmp(span->name, "step") != 0)
            draw_span(file, timeline, span, lanes->y, COMPUTE_HEIGHT);
    }
}

/* Where rank 0 begins a step. */
static void draw_steps(FILE *file, const struct timeline *timeline, const struct lanes *lanes,
                       int height)
{
    for (size_t i = 0; i < lanes->count; i++) {
        const struct span *span = &lanes->spans[i];
        double x = x_of(timeline, span->begin_ns);

        if (span->kind == SPAN_APP && strcmp(span->name, "step") == 0)
            fprintf(file,
                    "<line class='step' x1='%.2f' x2='%.2f' y1='%d' y2='%d'><title>step %" PRIu64
                    "</title></line>\n",
                    x, x, TOP - 3, height, span->tag);
    }
}

static void draw_names(FILE *file, const struct lanes *lanes, int ranks)
{
    for (int rank = 0; rank < ranks; rank++) {
        const struct lanes *own = &lanes[rank];

        fprintf(file,
                "<rect class='band' x='0' y='%d' width='%d' height='%d'/>"
                "<text class='name' x='4' y='%d'>rank %d</text>"
                "<text class='small' x='64' y='%d'>compute</text>"
                "<text class='small' x='64' y='%d'>collectives</text>\n",
                own->y - 2, LEFT + PLOT_WIDTH, own->height + 2, own->y + 15, rank, own->y + 15,
                own->y + COMPUTE_HEIGHT + ROW_GAP + 10);
    }
}

/* Ticks at 1, 2 or 5 times a power of ten; the script redraws them at another zoom. */
static void draw_axis(FILE *file, double total_ms)
{
    static const double factors[] = {1, 2, 5, 10};
    double per_ms = PLOT_WIDTH / total_ms;
    double decade = pow(10, floor(log10(90 / per_ms)));
    size_t i = 0;

    while (i < 3 && factors[i] * decade * per_ms < 90)
        i++;
    fprintf(file, "<g id='axis'>");
    for (int tick = 0; tick * factors[i] * decade <= total_ms; tick++) {
        double at = tick * factors[i] * decade;

        fprintf(file,
                "<line class='tick' x1='%.2f' x2='%.2f' y1='16' y2='21'/>"
                "<text x='%.2f' y='12'>%g</text>",
                at * per_ms, at * per_ms, at * per_ms > 4 ? at * per_ms : 4, at);
    }
    fprintf(file, "</g>\n");
}

static void write_head(FILE *file, const struct timeline *timeline)
{
    double total_ms = millis(timeline->end_ns - timeline->begin_ns);

    fprintf(file,
            "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
            "<meta name='viewport' content='width=device-width'>\n"
            "<title>digits on %d ranks</title>\n<style>\n%s</style></head><body>\n"
            "<h1>digits: the last steps of training on %d rank%s</h1>\n",
            timeline->ranks, page_style, timeline->ranks, timeline->ranks == 1 ? "" : "s");
    fprintf(file, "<p>%.1f ms. ", total_ms);
    if (timeline->ranks > 1)
        fprintf(file, "Over the whole run, %.0f %% of communication was hidden behind compute. ",
                100 * timeline->hidden);
    fprintf(file,
            "Point at a bar for its numbers; scroll or press + to zoom, drag to move.</p>\n"
            "<ul><li style='--c:#56b4e9'>forward</li><li style='--c:#e69f00'>backward</li>"
            "<li style='--c:#009e73'>update</li>"
            "<li style='--c:#c9c9c9'>wait for a gradient</li>"
            "<li style='--c:#f3d9d2'>late: the gradient is here, the thread not yet on a core</li>"
            "<li style='--c:#cc79a7'>collective, from start to end</li></ul>\n"
            "<p><button id='in'>+</button><button id='out'>&minus;</button>"
            "<button id='all'>all</button></p>\n");
}

static void write_foot(FILE *file, const struct timeline *timeline)
{
    fprintf(file, "<footer>Numbers in the bars are layers, from 0; a gradient's tag is its layer. "
                  "Dotted lines: rank 0 begins a step. The axis is in milliseconds.");
    if (timeline->shifted_ranks > 0)
        fprintf(file,
                " Clocks of %d ranks on other hosts were set by a barrier: they are right to "
                "about its duration.",
                timeline->shifted_ranks);
    fprintf(file, "</footer>\n<script>\n%s</script></body></html>\n", page_script);
}

static void write_page(FILE *file, struct timeline *timeline, struct lanes *lanes)
{
    double total_ms = millis(timeline->end_ns - timeline->begin_ns);
    int height = place_lanes(timeline, lanes);

    write_head(file, timeline);
    fprintf(file, "<svg width='%d' height='%d'>\n", LEFT + PLOT_WIDTH, height);
    draw_names(file, lanes, timeline->ranks);
    fprintf(file, "<svg id='plot' x='%d' width='%d' height='%d' data-ms='%.6f'>\n", LEFT,
            PLOT_WIDTH, height, total_ms);
    /* Takes the pointer where there is no bar. */
    fprintf(file, "<rect width='%d' height='%d' fill-opacity='0'/>\n", PLOT_WIDTH, height);
    draw_axis(file, total_ms);
    draw_steps(file, timeline, &lanes[0], height);
    for (int rank = 0; rank < timeline->ranks; rank++)
        draw_rank(file, timeline, &lanes[rank]);
    fprintf(file, "<g id='labels'></g>\n</svg></svg>\n");
    write_foot(file, timeline);
}

bool timeline_write_html(struct timeline *timeline, const char *path)
{
    struct lanes *lanes = calloc((size_t)timeline->ranks, sizeof *lanes);
    FILE *file = fopen(path, "we");
    bool is_written = file != NULL && lanes != NULL;

    if (timeline->end_ns <= timeline->begin_ns)
        timeline->end_ns = timeline->begin_ns + 1;
    if (is_written) {
        write_page(file, timeline, lanes);
        is_written = ferror(file) == 0;
    }
    is_written = (file == NULL || fclose(file) == 0) && is_written;
    if (!is_written)
        fprintf(stderr, "digits: %s: %s\n", path, strerror(errno));
    free(lanes);
    return is_written;
}
