/* One record of a batch, read in place: what _walk.c and _usual.c have in common.
 *
 *   length varint | attributes 1 | timestamp delta varint | offset delta varint | key length varint, key |
 *   value length varint, value | header count varint | per header: key length, key, value length, value
 *
 * No length is believed before it is compared with what is left.
 */
#ifndef MOLDAU_WALK_RECORD_H
#define MOLDAU_WALK_RECORD_H

#include <stdint.h>

#define VARINT_BYTES_MAX 5
#define VARLONG_BYTES_MAX 10
#define NO_TIMESTAMP (-1)

typedef struct {
    const uint8_t *at, *end;
} Cursor;

typedef struct {
    int64_t timestamp_ms, offset_delta;
    int has_key;
} Record;

static inline int read_varint(Cursor *cursor, int bytes_max, int64_t *number) {
    if (cursor->at >= cursor->end)
        return 0;
    uint64_t bits = *cursor->at++;
    if (bits > 0x7F) {
        bits &= 0x7F;
        for (int count = 1;; count++) {
            if (count == bytes_max || cursor->at >= cursor->end)
                return 0;
            uint64_t byte = *cursor->at++;
            if (count == 9 && byte > 1)
                return 0; /* more than 64 bits */
            bits |= (byte & 0x7F) << (7 * count);
            if (byte < 0x80)
                break;
        }
    }
    *number = (int64_t)(bits >> 1) ^ -(int64_t)(bits & 1);
    return 1;
}

/* Step over a length and so many bytes; `present` says whether they are not null. */
static inline int skip_field(Cursor *cursor, int *present) {
    int64_t length;
    if (!read_varint(cursor, VARINT_BYTES_MAX, &length))
        return 0;
    *present = length != -1;
    if (length == -1)
        return 1;
    if (length < 0 || length > cursor->end - cursor->at)
        return 0;
    cursor->at += length;
    return 1;
}

/* Read the record at `all` and step over it; 0 when it is malformed or its timestamp exceeds 64 bits. */
static inline int read_record(Cursor *all, int64_t base_timestamp_ms, Record *record) {
    int64_t length, time_delta_ms, header_count;
    int present;
    if (!read_varint(all, VARINT_BYTES_MAX, &length) || length < 1 || length > all->end - all->at)
        return 0;
    Cursor body = {all->at + 1, all->at + length};
    if (!read_varint(&body, VARLONG_BYTES_MAX, &time_delta_ms) ||
        !read_varint(&body, VARINT_BYTES_MAX, &record->offset_delta) ||
        !skip_field(&body, &record->has_key) || !skip_field(&body, &present) ||
        !read_varint(&body, VARINT_BYTES_MAX, &header_count) || header_count < 0 ||
        header_count > body.end - body.at)
        return 0;
    for (; header_count > 0; header_count--)
        if (!skip_field(&body, &present) || !present || !skip_field(&body, &present))
            return 0;
    if (body.at != body.end)
        return 0;
    if ((time_delta_ms > 0 && base_timestamp_ms > INT64_MAX - time_delta_ms) ||
        (time_delta_ms < 0 && base_timestamp_ms < INT64_MIN - time_delta_ms))
        return 0;
    record->timestamp_ms = base_timestamp_ms + time_delta_ms;
    all->at += length;
    return 1;
}

#endif
