/* report.c - what each rank is, and what each pair does. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "verdict.h"

enum { MATRIX_MAX = 16 }; /* ranks whose pairs fit on a page */

static void write_rank(FILE *file, const struct known *known, int rank)
{
    const struct facts *facts = &known->facts[rank];

    if (known->is_here[rank] == 0) {
        fprintf(file, "rank %d of %d: not there\n", rank, known->size);
        return;
    }
    fprintf(file, "rank %d of %d: %s, pid %d, tcdist %s, started by %s, transports %s", rank,
            known->size, facts->host, facts->pid, facts->version, facts->launcher,
            facts->transports);
    if (rank > 0)
        fprintf(file, ", clock %+.3f ms", (double)known->ahead_ns[rank] / 1e6);
    fprintf(file, "\n ");
    for (uint32_t i = 0; i < facts->address_count; i++)
        if (facts->addresses[i].is_loopback == 0 && facts->addresses[i].is_scoped == 0)
            fprintf(file, " %s %s", facts->links[facts->addresses[i].link].name,
                    facts->addresses[i].text);
    fprintf(file, "\n");
}

/* "120 us 900 MB/s" */
static void write_pair(FILE *file, const struct tried *tried)
{
    char text[40] = "-";

    if (tried->best >= 0 && tried->is_large != 0 && tried->has_stuck == 0)
        (void)snprintf(text, sizeof text, "%.0f us %.0f MB/s",
                       (double)tried->attempts[tried->best].rtt_us, (double)tried->mb_per_s);
    else if (tried->best >= 0)
        (void)snprintf(text, sizeof text, "%.0f us %s", (double)tried->attempts[tried->best].rtt_us,
                       tried->has_stuck != 0 ? "stuck" : "");
    fprintf(file, "%20s", text);
}

static void write_matrix(FILE *file, const struct known *known)
{
    if (known->size > MATRIX_MAX || known->size == 1)
        return;
    fprintf(file, "\nfrom \\ to");
    for (int b = 0; b < known->size; b++)
        fprintf(file, "%20d", b);
    fprintf(file, "\n");
    for (int a = 0; a < known->size; a++) {
        fprintf(file, "%9d", a);
        for (int b = 0; b < known->size; b++) {
            if (a == b)
                fprintf(file, "%20s", "");
            else
                write_pair(file, &known->tried[(size_t)a * (size_t)known->size + (size_t)b]);
        }
        fprintf(file, "\n");
    }
}

void report_write(FILE *file, const struct known *known)
{
    const struct worked *worked = &known->worked[0];

    for (int i = 0; i < known->size; i++)
        write_rank(file, known, i);
    write_matrix(file, known);
    if (worked->has_formed != 0)
        fprintf(file, "\nthe group formed in %.1f ms; an all-reduce of it takes %.0f us\n",
                (double)worked->form_ms, (double)worked->collective_us);
    fprintf(file, "\n");
}
