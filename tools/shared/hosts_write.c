/* hosts_write.c - host files in the forms that tcrun and mlx.launch read. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "hosts.h"

static void write_text(FILE *file, const char *text)
{
    (void)fputc('"', file);
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\')
            (void)fprintf(file, "\\%c", *text);
        else if ((unsigned char)*text < ' ')
            (void)fprintf(file, "\\u%04x", (unsigned)(unsigned char)*text);
        else
            (void)fputc(*text, file);
    }
    (void)fputc('"', file);
}

static void write_texts(FILE *file, char *const *texts, size_t count)
{
    (void)fputc('[', file);
    for (size_t i = 0; i < count; i++) {
        (void)fputs(i > 0 ? ", " : "", file);
        write_text(file, texts[i]);
    }
    (void)fputc(']', file);
}

static void write_rdma(FILE *file, const struct host *host, size_t count)
{
    (void)fputs(", \"rdma\": [", file);
    for (size_t i = 0; i < count; i++) {
        const struct host_devices *cell = &host->rdma[i];

        (void)fputs(i > 0 ? ", " : "", file);
        if (cell->count == 0)
            (void)fputs("null", file);
        else if (cell->count == 1)
            write_text(file, cell->names[0]);
        else
            write_texts(file, cell->names, cell->count);
    }
    (void)fputc(']', file);
}

static void write_list(FILE *file, const struct hosts *hosts, const char *indent)
{
    (void)fputs("[\n", file);
    for (size_t i = 0; i < hosts->count; i++) {
        const struct host *host = &hosts->at[i];

        (void)fprintf(file, "%s  {\"ssh\": ", indent);
        write_text(file, host->name);
        (void)fputs(", \"ips\": ", file);
        write_texts(file, host->ips, host->ip_count);
        if (host->slots != 1)
            (void)fprintf(file, ", \"slots\": %u", host->slots);
        if (host->rdma != NULL)
            write_rdma(file, host, hosts->count);
        (void)fprintf(file, "}%s\n", i + 1 < hosts->count ? "," : "");
    }
    (void)fprintf(file, "%s]", indent);
}

static void write_plain(FILE *file, const struct hosts *hosts)
{
    for (size_t i = 0; i < hosts->count; i++) {
        const struct host *host = &hosts->at[i];

        (void)fprintf(file, strchr(host->name, ':') != NULL ? "[%s] slots=%u" : "%s slots=%u",
                      host->name, host->slots);
        for (size_t k = 0; k < host->ip_count; k++)
            if (k > 0 || strcmp(host->ips[0], host->name) != 0)
                (void)fprintf(file, " ip=%s", host->ips[k]);
        (void)fputc('\n', file);
    }
}

void hosts_write(FILE *file, const struct hosts *hosts, enum hosts_form form)
{
    if (form == HOSTS_PLAIN) {
        write_plain(file, hosts);
        return;
    }
    if (form == HOSTS_LIST) {
        write_list(file, hosts, "");
        (void)fputc('\n', file);
        return;
    }
    (void)fputs("{\n  \"backend\": ", file);
    write_text(file, hosts->backend != NULL ? hosts->backend : "any");
    (void)fputs(",\n  \"envs\": ", file);
    write_texts(file, hosts->envs, hosts->env_count);
    (void)fputs(",\n  \"hosts\": ", file);
    write_list(file, hosts, "  ");
    (void)fputs("\n}\n", file);
}
