/* html.c - the timeline as a page that needs nothing else. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>

#include "page.h"
#include "report.h"

/* Bars that a page has at most: a browser draws so many at once.  The last ones are kept. */
enum { BARS_MAX = 200000, ROWS_MAX = 24 };

enum bar_kind { BAR_CALL, BAR_APP, BAR_FOLD, BAR_STALL };

struct bar {
    int64_t begin_ns, end_ns;
    uint32_t lane, row;
    enum bar_kind kind;
    size_t call;                    /* of BAR_CALL */
    uint64_t tag;                   /* of the others */
    char name[TCI_TRACE_NAME_TEXT]; /* likewise */
};

/* A row of the page: a rank and one of its threads. */
struct lane {
    uint32_t process, thread, rows;
};

struct page {
    const struct job *job;
    struct bar *bars;
    size_t bar_count;
    struct lane *lanes;
    uint32_t lane_count;
    bool lacks_memory;
};

/* ---- What is on it -------------------------------------------------------------------------- */

static uint32_t lane_of(struct page *page, uint32_t process, uint32_t thread)
{
    struct lane *lanes;

    for (uint32_t l = 0; l < page->lane_count; l++)
        if (page->lanes[l].process == process && page->lanes[l].thread == thread)
            return l;
    lanes = realloc(page->lanes, (page->lane_count + 1) * sizeof(*lanes));
    if (lanes == NULL) {
        page->lacks_memory = true;
        return 0;
    }
    page->lanes = lanes;
    lanes[page->lane_count] = (struct lane){process, thread, 1};
    return page->lane_count++;
}

static void add_bar(struct page *page, const struct bar *bar)
{
    struct bar *bars = page->bars;
    size_t count = page->bar_count;

    if ((count & (count - 1)) == 0)
        bars = realloc(bars, (count == 0 ? 1 : 2 * count) * sizeof(*bars));
    if (bars == NULL) {
        page->lacks_memory = true;
        return;
    }
    page->bars = bars;
    bars[page->bar_count++] = *bar;
}

static void add_spans(struct page *page, uint32_t p)
{
    const struct process *process = &page->job->processes[p];
    const struct tci_trace_view *view = &process->file->view;
    struct tci_trace_seen event;

    for (uint64_t n = tci_trace_view_first(view); n < view->next; n++) {
        struct bar bar = {.kind = BAR_APP};

        if (!tci_trace_view_event(view, n, &event) ||
            (event.kind != TCI_TRACE_APP && event.kind != TCI_TRACE_FOLD &&
             event.kind != TCI_TRACE_STALL))
            continue;
        bar.kind = event.kind == TCI_TRACE_FOLD    ? BAR_FOLD
                   : event.kind == TCI_TRACE_STALL ? BAR_STALL
                                                   : BAR_APP;
        bar.begin_ns = (int64_t)event.begin_ns + process->shift_ns;
        bar.end_ns = (int64_t)event.end_ns + process->shift_ns;
        bar.lane = lane_of(page, p, event.thread);
        bar.tag = event.tag;
        tci_trace_view_name(view, event.name, bar.name);
        add_bar(page, &bar);
    }
}

static void add_calls(struct page *page)
{
    const struct job *job = page->job;

    for (size_t i = 0; i < job->call_count; i++) {
        const struct call *call = &job->calls[i];
        int64_t end =
            call->state == CALL_ENDED ? call->end_ns : job->processes[call->process].seen_ns;
        struct bar bar = {.begin_ns = call->begin_ns,
                          .end_ns = end > call->begin_ns ? end : call->begin_ns,
                          .lane = lane_of(page, call->process, call->thread),
                          .kind = BAR_CALL,
                          .call = i};

        add_bar(page, &bar);
    }
}

static int compare_lanes(const void *left, const void *right)
{
    const struct lane *a = left, *b = right;

    if (a->process != b->process)
        return a->process < b->process ? -1 : 1;
    return (a->thread > b->thread) - (a->thread < b->thread);
}

/* Rank by rank, whatever came first. */
static void sort_lanes(struct page *page)
{
    struct lane *before = malloc((page->lane_count + 1) * sizeof(*before));

    if (before == NULL) {
        page->lacks_memory = true;
        return;
    }
    for (uint32_t l = 0; l < page->lane_count; l++)
        before[l] = page->lanes[l];
    qsort(page->lanes, page->lane_count, sizeof(*page->lanes), compare_lanes);
    for (size_t i = 0; i < page->bar_count; i++) {
        const struct lane *lane = &before[page->bars[i].lane];

        page->bars[i].lane = lane_of(page, lane->process, lane->thread);
    }
    free(before);
}

static int compare_bars(const void *left, const void *right)
{
    const struct bar *a = left, *b = right;

    if (a->lane != b->lane)
        return a->lane < b->lane ? -1 : 1;
    if (a->begin_ns != b->begin_ns)
        return a->begin_ns < b->begin_ns ? -1 : 1;
    return (a->end_ns < b->end_ns) - (a->end_ns > b->end_ns);
}

static int compare_ends(const void *left, const void *right)
{
    const struct bar *a = left, *b = right;

    return (a->end_ns < b->end_ns) - (a->end_ns > b->end_ns);
}

/* Each bar in the first row of its lane that is free when it begins. */
static void stack(struct page *page)
{
    int64_t free_ns[ROWS_MAX] = {0};

    for (size_t i = 0; i < page->bar_count; i++) {
        struct bar *bar = &page->bars[i];
        struct lane *lane = &page->lanes[bar->lane];

        if (i == 0 || bar->lane != page->bars[i - 1].lane)
            for (uint32_t r = 0; r < ROWS_MAX; r++)
                free_ns[r] = INT64_MIN;
        while (bar->row < ROWS_MAX - 1 && free_ns[bar->row] > bar->begin_ns)
            bar->row++;
        free_ns[bar->row] = bar->end_ns;
        if (bar->row + 1 > lane->rows)
            lane->rows = bar->row + 1;
    }
}

/* ---- Writing it ----------------------------------------------------------------------------- */

static bool is_special(char c)
{
    return c == '<' || c == '>' || c == '&' || c == '"' || c == '\'' || c == '\\';
}

static void put_text(FILE *file, const char *text)
{
    for (; *text != '\0'; text++)
        fprintf(file, is_special(*text) ? "&#%d;" : "%c", *text);
}

/* The same inside a string of the script. */
static void put_string(FILE *file, const char *text)
{
    for (; *text != '\0'; text++)
        fprintf(file, is_special(*text) ? "\\x%02x" : "%c", *text);
}

static void write_lanes(FILE *file, const struct page *page)
{
    fprintf(file, "const lanes=[");
    for (uint32_t l = 0; l < page->lane_count; l++)
        fprintf(file, "[\"rank %" PRIu32 "\",\"thread %" PRIu32 "\",%" PRIu32 "],",
                page->job->processes[page->lanes[l].process].rank, page->lanes[l].thread,
                page->lanes[l].rows);
    fprintf(file, "];\n");
}

static const char *how_it_went(const struct call *call)
{
    if (call->state != CALL_ENDED)
        return ", in flight";
    return call->status != 0 ? ", failed" : "";
}

static void write_bars(FILE *file, const struct page *page)
{
    const struct job *job = page->job;
    char text[JOB_TEXT];

    fprintf(file, "const bars=[");
    for (size_t i = 0; i < page->bar_count; i++) {
        const struct bar *bar = &page->bars[i];

        fprintf(file, "[%" PRIu32 ",%" PRIu32 ",%.3f,%.3f,%d,\"", bar->lane, bar->row,
                (double)(bar->begin_ns - job->first_ns) / 1e3,
                (double)(bar->end_ns - bar->begin_ns) / 1e3, (int)bar->kind);
        if (bar->kind == BAR_CALL) {
            const struct call *call = &job->calls[bar->call];

            put_string(file, job_call_text(job, call, text));
            put_string(file, call->algorithm[0] != '\0' ? ", " : "");
            put_string(file, call->algorithm);
            put_string(file, how_it_went(call));
        } else {
            put_string(file, bar->name[0] != '\0' ? bar->name : "fold");
            fprintf(file, " %" PRIu64, bar->tag);
        }
        fprintf(file, "\"],\n");
    }
    fprintf(file, "];\n");
}

static void write_page(FILE *file, const struct page *page, const struct found *found)
{
    const struct job *job = page->job;
    char seen[32];

    fprintf(file,
            "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
            "<meta name='viewport' content='width=device-width'>\n"
            "<title>tcdump: %" PRIu32 " ranks</title>\n<style>\n%s</style></head><body>\n"
            "<h1>%" PRIu32 " ranks, %s</h1>\n",
            job->process_count, page_style, job->process_count,
            job_time_text(job->seen_ns - job->first_ns, seen));
    if (found->finding_count > 0)
        fprintf(file, "<ul class='found'>\n");
    for (size_t i = 0; i < found->finding_count; i++) {
        fprintf(file, "<li><b>%s</b> ", report_kind(found->findings[i].kind));
        put_text(file, found->findings[i].text);
        fprintf(file, "</li>\n");
    }
    if (found->finding_count > 0)
        fprintf(file, "</ul>\n");
    fprintf(file, "%s<script>\n", page_legend);
    write_lanes(file, page);
    write_bars(file, page);
    fprintf(file, "const span=%.3f;\n%s</script></body></html>\n",
            (double)(job->seen_ns - job->first_ns) / 1e3, page_script);
}

bool report_html(const struct found *found, FILE *file)
{
    struct page page = {.job = found->job};

    for (uint32_t p = 0; p < page.job->process_count; p++)
        add_spans(&page, p);
    add_calls(&page);
    if (!page.lacks_memory && page.bar_count > 0) {
        if (page.bar_count > BARS_MAX) {
            qsort(page.bars, page.bar_count, sizeof(*page.bars), compare_ends);
            page.bar_count = BARS_MAX;
        }
        sort_lanes(&page);
        qsort(page.bars, page.bar_count, sizeof(*page.bars), compare_bars);
        stack(&page);
    }
    if (!page.lacks_memory)
        write_page(file, &page, found);
    free(page.bars);
    free(page.lanes);
    return !page.lacks_memory;
}
