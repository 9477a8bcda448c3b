/* Walking over a batch's records without an object for each: the compiled twin of walk.py, which says what is
 * asked of both, and whose tests run over both.
 *
 *   length varint | attributes 1 | timestamp delta varint | offset delta varint | key length varint, key |
 *   value length varint, value | header count varint | per header: key length, key, value length, value
 *
 * No length is believed before it is compared with what is left. The payload does not change meanwhile (its
 * owner waits), so the walk gives up the GIL.
 *
 * Not here: what is wrong with a malformed record, and the words for a record that is refused (the callers).
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

#define VARINT_BYTES_MAX 5
#define VARLONG_BYTES_MAX 10
#define NO_TIMESTAMP (-1)

enum { WALKED, MALFORMED, NOTICED };

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

static int check_place(const Py_buffer *payload, Py_ssize_t position) {
    if (position >= 0 && position <= payload->len)
        return 1;
    PyErr_SetString(PyExc_ValueError, "the position lies outside the payload");
    return 0;
}

static PyObject *check(PyObject *module, PyObject *arguments) {
    Py_buffer payload;
    Py_ssize_t position;
    long long index, stop, base_timestamp_ms, oldest_ms, newest_ms, max_timestamp_ms;
    int keys;
    if (!PyArg_ParseTuple(arguments, "y*nLLLpLLL", &payload, &position, &index, &stop, &base_timestamp_ms, &keys,
                          &oldest_ms, &newest_ms, &max_timestamp_ms))
        return NULL;
    if (!check_place(&payload, position)) {
        PyBuffer_Release(&payload);
        return NULL;
    }
    const uint8_t *start = payload.buf;
    Cursor all = {start + position, start + payload.len};
    int outcome = WALKED;
    Py_BEGIN_ALLOW_THREADS
    for (; index < stop; index++) {
        const uint8_t *record_start = all.at;
        Record record;
        if (!read_record(&all, base_timestamp_ms, &record))
            outcome = MALFORMED;
        else if (record.offset_delta != index || (keys && !record.has_key) ||
                 (record.timestamp_ms != NO_TIMESTAMP &&
                  (record.timestamp_ms < oldest_ms || record.timestamp_ms > newest_ms)))
            outcome = NOTICED;
        if (outcome != WALKED) {
            all.at = record_start;
            break;
        }
        if (record.timestamp_ms > max_timestamp_ms)
            max_timestamp_ms = record.timestamp_ms;
    }
    Py_END_ALLOW_THREADS
    position = all.at - start;
    PyBuffer_Release(&payload);
    return Py_BuildValue("inLL", outcome, position, index, max_timestamp_ms);
}

static PyObject *find(PyObject *module, PyObject *arguments) {
    Py_buffer payload;
    Py_ssize_t position;
    long long index, stop, base_timestamp_ms, wanted_ms, first_delta;
    if (!PyArg_ParseTuple(arguments, "y*nLLLLL", &payload, &position, &index, &stop, &base_timestamp_ms, &wanted_ms,
                          &first_delta))
        return NULL;
    if (!check_place(&payload, position)) {
        PyBuffer_Release(&payload);
        return NULL;
    }
    const uint8_t *start = payload.buf;
    Cursor all = {start + position, start + payload.len};
    Record record = {0, 0, 0};
    int outcome = WALKED;
    Py_BEGIN_ALLOW_THREADS
    for (; index < stop; index++) {
        const uint8_t *record_start = all.at;
        if (!read_record(&all, base_timestamp_ms, &record))
            outcome = MALFORMED;
        else if (record.timestamp_ms >= wanted_ms && record.offset_delta >= first_delta)
            outcome = NOTICED;
        if (outcome != WALKED) {
            all.at = record_start;
            break;
        }
    }
    Py_END_ALLOW_THREADS
    position = all.at - start;
    PyBuffer_Release(&payload);
    if (outcome != NOTICED)
        record.timestamp_ms = record.offset_delta = -1;
    return Py_BuildValue("inLLL", outcome, position, index, (long long)record.timestamp_ms,
                         (long long)record.offset_delta);
}

static PyMethodDef functions[] = {
    {"check", check, METH_VARARGS, "See walk.py."},
    {"find", find, METH_VARARGS, "See walk.py."},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot module_slots[] = {{0, NULL}};

static PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT, "_walk", "A walk over a batch's records.", 0, functions, module_slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__walk(void) { return PyModuleDef_Init(&module_definition); }
