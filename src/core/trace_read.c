/* trace_read.c - reads the bytes of a trace, whoever wrote them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/trace_read.h"

#include <string.h>

#include "core/base.h"

/* No table of ours has more; a number beyond it is damage. */
#define ENTRIES_MAX (UINT32_C(1) << 26)

static uint64_t get64(const void *at)
{
    uint64_t value;

    memcpy(&value, at, sizeof(value));
    return value;
}

/* What is no printable ASCII becomes a question mark. */
static void copy_text(char *text, const void *from, size_t len)
{
    const char *bytes = from;
    size_t i = 0;

    for (; i < len && bytes[i] != '\0'; i++)
        text[i] = bytes[i] >= ' ' && bytes[i] <= '~' ? bytes[i] : '?';
    text[i] = '\0';
}

/* ---- The head ------------------------------------------------------------------------------- */

static const char *check_tables(const struct tci_trace_view *view, uint64_t file_bytes)
{
    for (size_t t = 0; t < TCI_TRACE_TABLES; t++) {
        const struct tci_trace_table_place *table = &view->tables[t];
        uint64_t bytes = (uint64_t)table->count * table->each;

        if (table->each != tci_trace_entry_bytes(t) || table->count == 0 ||
            table->count > ENTRIES_MAX)
            return "its tables have other entries than this version's";
        if (table->offset % sizeof(uint64_t) != 0 || table->offset < TCI_TRACE_HEAD_BYTES ||
            table->offset > file_bytes || bytes > file_bytes - table->offset)
            return "its tables lie outside of it";
    }
    if ((view->tables[TCI_TRACE_SLOTS].count & (view->tables[TCI_TRACE_SLOTS].count - 1)) != 0 ||
        (view->tables[TCI_TRACE_MARKS].count & (view->tables[TCI_TRACE_MARKS].count - 1)) != 0)
        return "its rings have no length that a ring can have";
    return NULL;
}

static const char *check_version(const struct tci_trace_head *head)
{
    static const char none[sizeof(head->magic)];

    if (memcmp(head->magic, none, sizeof(none)) == 0)
        return "it is empty: its process ended while it made it";
    if (memcmp(head->magic, TCI_TRACE_MAGIC, sizeof(head->magic)) != 0)
        return "it is no trace of tcdist";
    if (__builtin_bswap32(head->version) == TCI_TRACE_VERSION)
        return "it was written on a machine with another byte order";
    if (head->version != TCI_TRACE_VERSION || head->head_bytes != TCI_TRACE_HEAD_BYTES)
        return "it has another version than this tool reads";
    return NULL;
}

static void copy_head(struct tci_trace_view *view, const struct tci_trace_head *head)
{
    uint64_t clocks = tci_word_get(&head->clock_count);

    view->pid = head->pid;
    view->process_start = head->process_start;
    view->context = head->context;
    view->opened_ns = head->opened_ns;
    view->copied_ns = head->copied_ns;
    view->next = tci_word_get(&head->next);
    view->ended_ns = tci_word_get(&head->ended_ns);
    view->loop_ns = tci_word_get(&head->loop_ns);
    view->loop_part = tci_min((size_t)tci_word_get(&head->loop_part), TCI_PARTS);
    view->loop_turns = tci_word_get(&head->loop_turns);
    if (clocks > 0) {
        const tci_word *pair = head->clocks[(clocks - 1) % TCI_TRACE_CLOCKS];

        view->clock_ns = tci_word_get(&pair[0]);
        view->clock_wall_ns = tci_word_get(&pair[1]);
    }
    for (size_t c = 0; c < TCI_COUNTERS; c++)
        view->counters[c] = tci_word_get(&head->counters[c]);
    view->marks = tci_word_get(&head->marks);
    view->counters[TCI_COUNT_BEGUN] += view->marks - tci_word_get(&head->stamps);
    view->counters[TCI_COUNT_LEFT_OUT] = tci_word_get(&head->left_out);
    view->counters[TCI_COUNT_FINISHED] += view->counters[TCI_COUNT_LEFT_OUT];
    view->counters[TCI_COUNT_OP_BYTES] += tci_word_get(&head->left_out_bytes);
    copy_text(view->library, head->library, sizeof(head->library));
    copy_text(view->boot_id, head->boot_id, sizeof(head->boot_id));
    copy_text(view->host, head->host, sizeof(head->host));
    copy_text(view->program, head->program, sizeof(head->program));
}

const char *tci_trace_view_open(struct tci_trace_view *view, const void *bytes, size_t len)
{
    struct tci_trace_head head;
    const char *wrong;

    memset(view, 0, sizeof(*view));
    if (len < TCI_TRACE_HEAD_BYTES)
        return "it is too short for a trace";
    memcpy(&head, bytes, sizeof(head));
    wrong = check_version(&head);
    if (wrong != NULL)
        return wrong;
    if (head.file_bytes > len)
        return "its end is missing";
    memcpy(view->tables, head.tables, sizeof(view->tables));
    wrong = check_tables(view, head.file_bytes);
    if (wrong != NULL)
        return wrong;
    copy_head(view, &head);
    view->bytes = bytes;
    view->len = len;
    return NULL;
}

/* ---- Tables --------------------------------------------------------------------------------- */

static const uint8_t *entry_at(const struct tci_trace_view *view, enum tci_trace_table table,
                               uint32_t i)
{
    return view->bytes + view->tables[table].offset + (size_t)i * view->tables[table].each;
}

/* Word number w of an entry. */
#define WORD(entry, type, field) get64((entry) + offsetof(struct type, field))

const char *tci_trace_view_name(const struct tci_trace_view *view, uint32_t number,
                                char text[TCI_TRACE_NAME_TEXT])
{
    text[0] = '\0';
    if (number == TCI_TRACE_NAME_OTHER)
        memcpy(text, "other", sizeof("other"));
    else if (number != TCI_TRACE_NAME_NONE && number < view->tables[TCI_TRACE_NAMES].count)
        copy_text(text, entry_at(view, TCI_TRACE_NAMES, number), TCI_TRACE_NAME_TEXT - 1);
    return text;
}

bool tci_trace_view_group(const struct tci_trace_view *view, uint32_t i,
                          struct tci_trace_seen_group *group_out)
{
    const uint8_t *entry = entry_at(view, TCI_TRACE_GROUPS, i);
    uint64_t shown = WORD(entry, tci_trace_group, shown);
    uint64_t ranks = WORD(entry, tci_trace_group, rank_size);
    uint64_t broken = WORD(entry, tci_trace_group, broken);
    uint32_t state = (uint32_t)shown, rank = (uint32_t)(ranks >> 32), size = (uint32_t)ranks;

    if (state == TCI_TRACE_GROUP_FREE || state > TCI_TRACE_GROUP_LEFT || rank >= size ||
        size > INT32_MAX || shown >> 32 > INT32_MAX || broken >> 32 > size)
        return false;
    *group_out = (struct tci_trace_seen_group){
        .number = WORD(entry, tci_trace_group, number),
        .job = {WORD(entry, tci_trace_group, job[0]), WORD(entry, tci_trace_group, job[1])},
        .since_ns = WORD(entry, tci_trace_group, since_ns),
        .rank = rank,
        .size = size,
        .shown = (uint32_t)(shown >> 32),
        .state = state,
        .status = (int32_t)(uint32_t)broken,
        .culprit = (int32_t)(broken >> 32) - 1};
    copy_text(group_out->reason, entry + offsetof(struct tci_trace_group, reason),
              TCI_TRACE_REASON_TEXT - 1);
    return true;
}

bool tci_trace_view_link(const struct tci_trace_view *view, uint32_t i,
                         struct tci_trace_seen_link *link_out)
{
    const uint8_t *entry = entry_at(view, TCI_TRACE_LINKS, i);
    uint64_t peer_state = WORD(entry, tci_trace_link, peer_state);
    uint64_t peer = peer_state >> 32;
    uint32_t state = (uint32_t)peer_state;

    if (peer == 0 || state == TCI_TRACE_LINK_FREE || state > TCI_TRACE_LINK_DOWN)
        return false;
    *link_out = (struct tci_trace_seen_link){.job = WORD(entry, tci_trace_link, job),
                                             .since_ns = WORD(entry, tci_trace_link, since_ns),
                                             .peer = (uint32_t)(peer - 1),
                                             .state = state};
    return true;
}

static void read_cells(const uint8_t *entry, struct tci_trace_seen_live *live)
{
    for (size_t c = 0; c < TCI_TRACE_CELLS; c++) {
        uint32_t cell;

        memcpy(&cell, entry + offsetof(struct tci_trace_live, cells) + c * sizeof(cell),
               sizeof(cell));
        if ((cell & ~TCI_TRACE_CELL_SEND) == 0)
            continue;
        live->waits[live->waits_count] = (int32_t)((cell & ~TCI_TRACE_CELL_SEND) - 1);
        live->is_send[live->waits_count++] = (cell & TCI_TRACE_CELL_SEND) != 0;
    }
}

bool tci_trace_view_live(const struct tci_trace_view *view, uint32_t i,
                         struct tci_trace_seen_live *live_out)
{
    const uint8_t *entry = entry_at(view, TCI_TRACE_LIVE, i);
    uint64_t what = WORD(entry, tci_trace_live, what);
    uint64_t use_peer = WORD(entry, tci_trace_live, use_peer);
    uint64_t open = WORD(entry, tci_trace_live, open);

    if (WORD(entry, tci_trace_live, turn) % 2 != 0 || what >> 56 == TCI_TRACE_LIVE_FREE ||
        what >> 56 > TCI_TRACE_LIVE_DRAINING)
        return false;
    *live_out = (struct tci_trace_seen_live){.group = WORD(entry, tci_trace_live, group),
                                             .tag = WORD(entry, tci_trace_live, tag),
                                             .called_ns = WORD(entry, tci_trace_live, called_ns),
                                             .entered_ns = WORD(entry, tci_trace_live, entered_ns),
                                             .count = WORD(entry, tci_trace_live, count),
                                             .call = WORD(entry, tci_trace_live, call),
                                             .state = (uint32_t)(what >> 56),
                                             .space = (uint32_t)(what >> 48 & 255),
                                             .name = (uint32_t)(what >> 32 & 0xffff),
                                             .algorithm = (uint32_t)(what >> 16 & 0xffff),
                                             .thread = (uint32_t)(what & 0xffff),
                                             .use = (uint32_t)(use_peer >> 32),
                                             .peer = (int32_t)((uint32_t)use_peer - 1),
                                             .receives = (uint32_t)(open >> 32),
                                             .sends = (uint32_t)open};
    read_cells(entry, live_out);
    return true;
}

/* ---- Events --------------------------------------------------------------------------------- */

uint64_t tci_trace_view_first(const struct tci_trace_view *view)
{
    uint64_t slots = view->tables[TCI_TRACE_SLOTS].count;

    return view->next > slots ? view->next - slots : 0;
}

bool tci_trace_view_event(const struct tci_trace_view *view, uint64_t number,
                          struct tci_trace_seen *event_out)
{
    uint32_t slots = view->tables[TCI_TRACE_SLOTS].count;
    const uint8_t *entry = entry_at(view, TCI_TRACE_SLOTS, (uint32_t)(number & (slots - 1)));
    uint64_t what = WORD(entry, tci_trace_slot, what);
    uint64_t rank_peer = WORD(entry, tci_trace_slot, rank_peer);
    uint64_t use_step = WORD(entry, tci_trace_slot, use_step);

    if (WORD(entry, tci_trace_slot, turn) != 2 * number + 2 || what >> 56 >= TCI_TRACE_KINDS)
        return false;
    *event_out = (struct tci_trace_seen){.number = number,
                                         .begin_ns = WORD(entry, tci_trace_slot, begin_ns),
                                         .end_ns = WORD(entry, tci_trace_slot, end_ns),
                                         .tag = WORD(entry, tci_trace_slot, tag),
                                         .group = WORD(entry, tci_trace_slot, group),
                                         .a = WORD(entry, tci_trace_slot, a),
                                         .b = WORD(entry, tci_trace_slot, b),
                                         .kind = (uint32_t)(what >> 56),
                                         .space = (uint32_t)(what >> 48 & 255),
                                         .name = (uint32_t)(what >> 32 & 0xffff),
                                         .algorithm = (uint32_t)(what >> 16 & 0xffff),
                                         .thread = (uint32_t)(what & 0xffff),
                                         .use = (uint32_t)(use_step >> 32),
                                         .step = (uint32_t)use_step,
                                         .rank = (int32_t)((uint32_t)(rank_peer >> 32) - 1),
                                         .peer = (int32_t)((uint32_t)rank_peer - 1)};
    return event_out->end_ns >= event_out->begin_ns;
}

/* ---- Marks ---------------------------------------------------------------------------------- */

static uint64_t mark_at(const struct tci_trace_view *view, uint64_t number)
{
    uint32_t count = view->tables[TCI_TRACE_MARKS].count;

    return WORD(entry_at(view, TCI_TRACE_MARKS, (uint32_t)(number & (count - 1))), tci_trace_mark,
                word);
}

bool tci_trace_view_has_mark(const struct tci_trace_view *view, uint64_t mark)
{
    /* All of them: what was written while the head was copied is there, too. */
    for (uint64_t i = 0; i < view->tables[TCI_TRACE_MARKS].count; i++)
        if (mark_at(view, i) == mark)
            return true;
    return false;
}

uint64_t tci_trace_view_marked_ns(const struct tci_trace_view *view)
{
    uint64_t count = view->tables[TCI_TRACE_MARKS].count;

    if (view->marks <= count)
        return 0;
    /* What is behind the oldest stamp is younger; what is before it may have lost its like. */
    for (uint64_t n = view->marks - count; n < view->marks; n++)
        if (mark_at(view, n) % 2 == 0)
            return mark_at(view, n);
    return UINT64_MAX;
}

/* ---- Copies --------------------------------------------------------------------------------- */

void tci_trace_merge_copies(const struct tci_trace_view *view, uint8_t *bytes, const uint8_t *later)
{
    static const enum tci_trace_table turned[] = {TCI_TRACE_LIVE, TCI_TRACE_SLOTS};

    for (size_t t = 0; t < TCI_LEN(turned); t++) {
        const struct tci_trace_table_place *table = &view->tables[turned[t]];

        for (uint32_t i = 0; i < table->count; i++) {
            size_t at = table->offset + (size_t)i * table->each;
            uint64_t turn = get64(bytes + at) | 1;

            if (memcmp(bytes + at, later + at, table->each) != 0)
                memcpy(bytes + at, &turn, sizeof(turn));
        }
    }
}
