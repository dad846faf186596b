/* tunnel.c - many pipes over one stream: frames, and who may send how much. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "tunnel.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    HEAD = 8,
    READ_BYTES = 65536,
    SAID_MAX = 262144, /* pipes are not read while so much waits */
    BEAT_MS = 1000,
    TURN_MS_MAX = 1000 /* of a longer turn this process, not the other, was the one that slept */
};

int64_t tunnel_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int64_t now_ms(void)
{
    return tunnel_now_ns() / 1000000;
}

void tunnel_put32(char *bytes, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        bytes[i] = (char)(value >> 8 * i);
}

void tunnel_put64(char *bytes, uint64_t value)
{
    tunnel_put32(bytes, (uint32_t)value);
    tunnel_put32(bytes + 4, (uint32_t)(value >> 32));
}

uint32_t tunnel_get32(const char *bytes)
{
    uint32_t value = 0;

    for (int i = 0; i < 4; i++)
        value |= (uint32_t)(unsigned char)bytes[i] << 8 * i;
    return value;
}

uint64_t tunnel_get64(const char *bytes)
{
    return tunnel_get32(bytes) | (uint64_t)tunnel_get32(bytes + 4) << 32;
}

static void break_tunnel(struct tunnel *tunnel, const char *why)
{
    if (tunnel->broken == NULL)
        tunnel->broken = why;
}

/* ---- Bytes on their way ---------------------------------------------------------------------- */

/* Room for so many more bytes behind those that are there; NULL: none to be had. */
static char *bytes_room(struct bytes *bytes, size_t more)
{
    if (bytes->head > 0 && bytes->head + bytes->len + more > bytes->room) {
        memmove(bytes->data, bytes->data + bytes->head, bytes->len);
        bytes->head = 0;
    }
    if (bytes->len + more > bytes->room) {
        size_t room = 2 * bytes->room > bytes->len + more ? 2 * bytes->room : bytes->len + more;
        char *data = realloc(bytes->data, room);

        if (data == NULL)
            return NULL;
        bytes->data = data;
        bytes->room = room;
    }
    return bytes->data + bytes->head + bytes->len;
}

static void bytes_drop(struct bytes *bytes, size_t len)
{
    bytes->head += len;
    bytes->len -= len;
    if (bytes->len == 0)
        bytes->head = 0;
}

bool tunnel_is_readable(const struct tunnel *tunnel)
{
    struct pollfd wait = {.fd = tunnel->in, .events = POLLIN};

    return poll(&wait, 1, 0) > 0 && (wait.revents & POLLIN) != 0;
}

size_t tunnel_backlog(const struct tunnel *tunnel)
{
    return tunnel->said.len;
}

void tunnel_say(struct tunnel *tunnel, enum tunnel_type type, unsigned kind, unsigned rank,
                const void *bytes, size_t len)
{
    char *frame = tunnel->broken == NULL ? bytes_room(&tunnel->said, HEAD + len) : NULL;

    if (frame == NULL) {
        break_tunnel(tunnel, "out of memory");
        return;
    }
    tunnel_put32(frame, (uint32_t)type | (uint32_t)kind << 8 | (uint32_t)rank << 16);
    tunnel_put32(frame + 4, (uint32_t)len);
    if (len > 0)
        memcpy(frame + HEAD, bytes, len);
    tunnel->said.len += HEAD + len;
}

/* ---- Birth and death ------------------------------------------------------------------------- */

void tunnel_init(struct tunnel *tunnel, int in, int out, tunnel_heard_fn *heard_fn, void *owner)
{
    *tunnel = (struct tunnel){.in = in, .out = out, .heard_fn = heard_fn, .owner = owner};
    tunnel->turned_ms = now_ms();
    tunnel->round_ns = INT64_MAX;
    fcntl(in, F_SETFL, fcntl(in, F_GETFL) | O_NONBLOCK);
    fcntl(out, F_SETFL, fcntl(out, F_GETFL) | O_NONBLOCK);
}

static void close_channel(struct channel *channel)
{
    if (channel->fd >= 0)
        close(channel->fd);
    channel->fd = -1;
    channel->len = 0;
}

void tunnel_fini(struct tunnel *tunnel)
{
    for (unsigned i = 0; i < tunnel->ranks * TUNNEL_KINDS; i++) {
        close_channel(&tunnel->channels[i]);
        free(tunnel->channels[i].buf);
    }
    free(tunnel->channels);
    free(tunnel->heard.data);
    free(tunnel->said.data);
    close(tunnel->in);
    if (tunnel->out != tunnel->in)
        close(tunnel->out);
    *tunnel = (struct tunnel){.in = -1, .out = -1};
}

bool tunnel_set_ranks(struct tunnel *tunnel, unsigned ranks)
{
    tunnel->channels = calloc((size_t)ranks * TUNNEL_KINDS, sizeof *tunnel->channels);
    if (tunnel->channels == NULL)
        return false;
    tunnel->ranks = ranks;
    for (unsigned i = 0; i < ranks * TUNNEL_KINDS; i++)
        tunnel->channels[i] = (struct channel){.fd = -1, .at = -1, .credit = TUNNEL_WINDOW};
    return true;
}

static struct channel *channel_of(const struct tunnel *tunnel, unsigned rank, unsigned kind)
{
    if (rank >= tunnel->ranks || kind >= TUNNEL_KINDS)
        return NULL;
    return &tunnel->channels[rank * TUNNEL_KINDS + kind];
}

/* Where a frame about it must go. */
static void say_of(struct tunnel *tunnel, const struct channel *channel, enum tunnel_type type,
                   const void *bytes, size_t len)
{
    size_t index = (size_t)(channel - tunnel->channels);

    tunnel_say(tunnel, type, (unsigned)(index % TUNNEL_KINDS), (unsigned)(index / TUNNEL_KINDS),
               bytes, len);
}

void tunnel_attach(struct tunnel *tunnel, unsigned rank, enum tunnel_kind kind, int fd)
{
    struct channel *channel = channel_of(tunnel, rank, kind);

    channel->fd = fd;
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    channel->is_source = (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY;
    if (!channel->is_source)
        channel->buf = malloc(TUNNEL_WINDOW);
    if (!channel->is_source && channel->buf == NULL)
        break_tunnel(tunnel, "out of memory");
}

void tunnel_expect_end(struct tunnel *tunnel, unsigned rank)
{
    for (unsigned kind = 0; kind < TUNNEL_KINDS; kind++) {
        struct channel *channel = channel_of(tunnel, rank, kind);
        int size;

        if (channel->fd < 0 || !channel->is_source)
            continue;
        size = fcntl(channel->fd, F_GETPIPE_SZ);
        channel->is_last = true;
        channel->left = size > 0 ? (size_t)size : TUNNEL_WINDOW;
    }
}

bool tunnel_is_drained(const struct tunnel *tunnel)
{
    for (unsigned i = 0; i < tunnel->ranks * TUNNEL_KINDS; i++) {
        const struct channel *channel = &tunnel->channels[i];

        if (channel->fd >= 0 && (i % TUNNEL_KINDS != TUNNEL_IN || channel->len > 0))
            return false;
    }
    return true;
}

/* ---- Pipes ----------------------------------------------------------------------------------- */

static void read_source(struct tunnel *tunnel, struct channel *channel)
{
    char buf[READ_BYTES];
    size_t room = channel->credit < sizeof buf ? channel->credit : sizeof buf;
    ssize_t n;

    if (channel->is_last && channel->left < room)
        room = channel->left;
    n = room > 0 ? read(channel->fd, buf, room) : 0;
    if (n < 0 && (errno == EINTR || (errno == EAGAIN && !channel->is_last)))
        return;
    if (n <= 0) {
        say_of(tunnel, channel, TUNNEL_CLOSE, NULL, 0);
        close_channel(channel);
        return;
    }
    if (channel->is_last)
        channel->left -= (size_t)n;
    channel->credit -= (uint32_t)n;
    say_of(tunnel, channel, TUNNEL_DATA, buf, (size_t)n);
}

static void write_sink(struct tunnel *tunnel, struct channel *channel)
{
    ssize_t n = write(channel->fd, channel->buf + channel->head, channel->len);

    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n < 0) { /* its reader has gone */
        if (!channel->has_ended)
            say_of(tunnel, channel, TUNNEL_CLOSE, NULL, 0);
        close_channel(channel);
        return;
    }
    channel->head += (size_t)n;
    channel->len -= (size_t)n;
    channel->written += (uint32_t)n;
    if (channel->len == 0)
        channel->head = 0;
    if (channel->len == 0 && channel->has_ended) {
        close_channel(channel);
    } else if (channel->written >= TUNNEL_WINDOW / 4) {
        char bytes[4];

        tunnel_put32(bytes, channel->written);
        channel->written = 0;
        say_of(tunnel, channel, TUNNEL_CREDIT, bytes, sizeof bytes);
    }
}

/* ---- What is heard --------------------------------------------------------------------------- */

static bool hear_data(struct channel *channel, const char *bytes, size_t len)
{
    if (channel->is_source || channel->has_ended)
        return false;
    if (channel->fd < 0) /* sent before it was known that nobody reads */
        return true;
    if (channel->head > 0)
        memmove(channel->buf, channel->buf + channel->head, channel->len);
    channel->head = 0;
    if (len > TUNNEL_WINDOW - channel->len)
        return false;
    memcpy(channel->buf + channel->len, bytes, len);
    channel->len += len;
    return true;
}

static bool hear_credit(struct channel *channel, const char *bytes, size_t len)
{
    if (len != 4 || tunnel_get32(bytes) > TUNNEL_WINDOW ||
        channel->credit + tunnel_get32(bytes) > TUNNEL_WINDOW)
        return false;
    channel->credit += tunnel_get32(bytes);
    return true;
}

static bool hear_close(struct channel *channel)
{
    channel->has_ended = true;
    if (channel->is_source || channel->len == 0)
        close_channel(channel);
    return true;
}

/* As NTP has it: what the clocks differ by, if both ways took equally long. */
static bool hear_beat(struct tunnel *tunnel, const char *bytes, size_t len)
{
    int64_t now_ns = tunnel_now_ns();
    int64_t sent, answered, came, round;

    if (len != 24)
        return false;
    sent = (int64_t)tunnel_get64(bytes);
    answered = (int64_t)tunnel_get64(bytes + 8);
    came = (int64_t)tunnel_get64(bytes + 16);
    tunnel->peer_clock_ns = sent;
    tunnel->peer_heard_ns = now_ns;
    if (answered == 0) /* the first one: whoever sent it waits for a clock */
        tunnel->beat_ms = 0;
    if (answered <= 0 || answered > now_ns || came > sent || came < 0)
        return true;
    round = (now_ns - answered) - (sent - came);
    if (round < tunnel->round_ns) {
        tunnel->round_ns = round;
        tunnel->ahead_ns = (came - answered) / 2 + (sent - now_ns) / 2;
    }
    return true;
}

static bool hear(struct tunnel *tunnel, const char *frame, size_t len)
{
    unsigned type = (unsigned char)frame[0], kind = (unsigned char)frame[1];
    unsigned rank = tunnel_get32(frame) >> 16;
    struct channel *channel = channel_of(tunnel, rank, kind);
    const char *bytes = frame + HEAD;

    if (type == TUNNEL_BEAT)
        return hear_beat(tunnel, bytes, len);
    if (type != TUNNEL_DATA && type != TUNNEL_CREDIT && type != TUNNEL_CLOSE)
        return tunnel->heard_fn(tunnel->owner, tunnel, (enum tunnel_type)type, rank, bytes, len);
    if (channel == NULL)
        return false;
    if (type == TUNNEL_DATA)
        return hear_data(channel, bytes, len);
    return type == TUNNEL_CREDIT ? hear_credit(channel, bytes, len) : hear_close(channel);
}

static void hear_frames(struct tunnel *tunnel)
{
    struct bytes *heard = &tunnel->heard;

    while (heard->len >= HEAD) {
        size_t len = tunnel_get32(heard->data + heard->head + 4);

        if (len > TUNNEL_FRAME_MAX) {
            break_tunnel(tunnel, "what it sends is not what tcrun sends");
            return;
        }
        if (heard->len < HEAD + len)
            return;
        if (!hear(tunnel, heard->data + heard->head, len)) {
            break_tunnel(tunnel, "what it sends is not what tcrun sends");
            return;
        }
        bytes_drop(heard, HEAD + len);
    }
}

/* What the other host's shell says before the agent speaks is passed over. */
static bool find_start(struct tunnel *tunnel)
{
    struct bytes *heard = &tunnel->heard;
    const size_t len = sizeof TUNNEL_START - 1;
    const char *start = heard->data + heard->head;
    const char *found = memmem(start, heard->len, TUNNEL_START, len);

    if (found != NULL) {
        tunnel->awaits_start = false;
        bytes_drop(heard, (size_t)(found - start) + len);
        return true;
    }
    if (heard->len > len)
        bytes_drop(heard, heard->len - len);
    return false;
}

static void read_stream(struct tunnel *tunnel)
{
    char *room = bytes_room(&tunnel->heard, READ_BYTES);
    ssize_t n = room != NULL ? read(tunnel->in, room, READ_BYTES) : -1;

    if (room == NULL)
        break_tunnel(tunnel, "out of memory");
    else if (n == 0)
        break_tunnel(tunnel, "the connection has ended");
    else if (n < 0 && errno != EAGAIN && errno != EINTR)
        break_tunnel(tunnel, strerror(errno));
    if (n <= 0)
        return;
    tunnel->heard.len += (size_t)n;
    tunnel->quiet_ms = 0;
    if (!tunnel->awaits_start || find_start(tunnel))
        hear_frames(tunnel);
}

static void write_stream(struct tunnel *tunnel)
{
    if (tunnel->is_over)
        tunnel->said.len = 0;
    while (tunnel->said.len > 0) {
        ssize_t n = write(tunnel->out, tunnel->said.data + tunnel->said.head, tunnel->said.len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno != EAGAIN && errno != EPIPE)
            break_tunnel(tunnel, strerror(errno));
        if (n < 0 && errno == EPIPE)
            tunnel->said.len = 0; /* what has come of it is still heard, up to its end */
        if (n < 0)
            return;
        bytes_drop(&tunnel->said, (size_t)n);
    }
}

/* ---- The loop's side ------------------------------------------------------------------------- */

static void beat(struct tunnel *tunnel)
{
    int64_t now_ns = tunnel_now_ns();
    int64_t now = now_ns / 1000000, passed = now - tunnel->turned_ms;
    char bytes[24];

    tunnel->turned_ms = now;
    tunnel->quiet_ms += passed < TURN_MS_MAX ? passed : TURN_MS_MAX;
    if (tunnel->silence_ms == 0 || tunnel->is_over)
        return;
    if (tunnel->quiet_ms >= tunnel->silence_ms)
        break_tunnel(tunnel, "nothing is heard of it any more");
    if (now - tunnel->beat_ms < BEAT_MS || tunnel->said.len > SAID_MAX)
        return;
    tunnel->beat_ms = now;
    tunnel_put64(bytes, (uint64_t)now_ns);
    tunnel_put64(bytes + 8, (uint64_t)tunnel->peer_clock_ns);
    tunnel_put64(bytes + 16, (uint64_t)tunnel->peer_heard_ns);
    tunnel_say(tunnel, TUNNEL_BEAT, 0, 0, bytes, sizeof bytes);
}

size_t tunnel_poll_max(const struct tunnel *tunnel)
{
    return 2 + (size_t)tunnel->ranks * TUNNEL_KINDS;
}

size_t tunnel_poll(struct tunnel *tunnel, struct pollfd *fds, size_t n)
{
    bool may_say = tunnel->said.len < SAID_MAX;

    tunnel->at_in = (int)n;
    fds[n++] = (struct pollfd){.fd = tunnel->is_over ? -1 : tunnel->in, .events = POLLIN};
    tunnel->at_out = (int)n;
    fds[n++] = (struct pollfd){.fd = tunnel->said.len > 0 ? tunnel->out : -1, .events = POLLOUT};
    for (unsigned i = 0; i < tunnel->ranks * TUNNEL_KINDS; i++) {
        struct channel *channel = &tunnel->channels[i];

        channel->at = -1;
        if (channel->fd < 0 ||
            !(channel->is_source ? may_say && channel->credit > 0 : channel->len > 0))
            continue;
        channel->at = (int)n;
        fds[n++] =
            (struct pollfd){.fd = channel->fd, .events = channel->is_source ? POLLIN : POLLOUT};
    }
    return n;
}

void tunnel_turn(struct tunnel *tunnel, const struct pollfd *fds)
{
    if (tunnel->broken != NULL)
        return;
    if (fds[tunnel->at_in].revents != 0)
        read_stream(tunnel);
    for (unsigned i = 0; i < tunnel->ranks * TUNNEL_KINDS; i++) {
        struct channel *channel = &tunnel->channels[i];

        if (channel->at < 0 || channel->fd < 0)
            continue;
        if (fds[channel->at].revents == 0 && !channel->is_last)
            continue;
        if (channel->is_source)
            read_source(tunnel, channel);
        else if (channel->len > 0)
            write_sink(tunnel, channel);
    }
    beat(tunnel);
    write_stream(tunnel);
}
