/* Records of batches -> the offset map, verdicts, and the records that stay: the compiled twin of offset_map.py,
 * scanning.py and rewrite.py, which say what is asked of both, and whose tests run over both.
 *
 *   length v | attributes 1 | timestamp delta v | offset delta v | key length v, key | value length v | ...
 *
 * The map stands for a key by 128 bits of SipHash-2-4 under a secret of its own, so that nobody can prepare keys
 * that collide or that crowd one place of the table. It is a table with linear probing whose slots are in the
 * order of their hashes: the home slot is the hash scaled to the table's size, a search ends at the first larger
 * hash, and a new key moves those behind it up to the next free slot.
 *
 *   slots     | home slots ...                                | spare slots, for what the last ones push on |
 *   a slot    | hash 16 | offset 4: relative to the round's first, plus 1; 0 says that the slot is free |
 *
 * The table is larger than any cache. So records are taken in blocks: hash and prefetch all, then put all.
 *
 * Every position is compared with the record's end before anything is read: any bytes give a result or
 * CorruptBatch.
 *
 * Not here: batch headers, checksums, compression, the rules of what stays (source.py, filter.py).
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

/* Version of the interface to the Python module beside this; core/kernels.py has the same number. Raise both with a
   change after which an older kernel or an older module would not do. */
#define KERNEL_VERSION 1

#define VARINT_BYTES_MAX 10
#define NULL_LENGTH 1 /* -1 in zigzag */
#define BLOCK_RECORDS 32
#define SECRET_BYTES 16
#define PLACE_MAX UINT32_MAX

enum { GONE, LATEST, LATEST_TOMBSTONE };

#ifdef __GNUC__
#define PREFETCH(address) __builtin_prefetch(address)
#else
#define PREFETCH(address) ((void)0)
#endif

/* ---- SipHash-2-4 with 128 bits (Aumasson and Bernstein, 2012) -------------------------------------------- */

typedef struct {
    uint64_t high, low;
} Hash;

static inline uint64_t little_endian(const uint8_t *at, int count) {
    uint64_t number = 0;
    for (int index = 0; index < count; index++)
        number |= (uint64_t)at[index] << (8 * index);
    return number;
}

static inline uint64_t rotate(uint64_t number, int bits) { return number << bits | number >> (64 - bits); }

static inline void mix(uint64_t v[4], int rounds) {
    while (rounds--) {
        v[0] += v[1], v[1] = rotate(v[1], 13) ^ v[0], v[0] = rotate(v[0], 32);
        v[2] += v[3], v[3] = rotate(v[3], 16) ^ v[2];
        v[0] += v[3], v[3] = rotate(v[3], 21) ^ v[0];
        v[2] += v[1], v[1] = rotate(v[1], 17) ^ v[2], v[2] = rotate(v[2], 32);
    }
}

static inline Hash hash_of(const uint64_t secret[2], const uint8_t *key, size_t size) {
    uint64_t v[4] = {secret[0] ^ 0x736f6d6570736575u, secret[1] ^ 0x646f72616e646f6du ^ 0xee,
                     secret[0] ^ 0x6c7967656e657261u, secret[1] ^ 0x7465646279746573u};
    uint64_t block = 0, last = (uint64_t)size << 56;
    for (; size >= 8; size -= 8, key += 8) {
        block = little_endian(key, 8);
        v[3] ^= block;
        mix(v, 2);
        v[0] ^= block;
    }
    last |= little_endian(key, (int)size);
    v[3] ^= last;
    mix(v, 2);
    v[0] ^= last;
    v[2] ^= 0xee;
    mix(v, 4);
    Hash hash = {v[0] ^ v[1] ^ v[2] ^ v[3], 0};
    v[1] ^= 0xdd;
    mix(v, 4);
    hash.low = v[0] ^ v[1] ^ v[2] ^ v[3];
    return hash;
}

/* ---- Records --------------------------------------------------------------------------------------------- */

typedef struct {
    const uint8_t *at, *end;
} Cursor;

/* The varint at the cursor, still zigzagged; 0 when it breaks off or has more than 64 bits. */
static inline int read_number(Cursor *cursor, uint64_t *number) {
    uint64_t bits = 0;
    for (int count = 0; count < VARINT_BYTES_MAX; count++) {
        if (cursor->at >= cursor->end)
            return 0;
        uint64_t byte = *cursor->at++;
        if (count == VARINT_BYTES_MAX - 1 && byte > 1)
            return 0;
        bits |= (byte & 0x7F) << (7 * count);
        if (byte < 0x80) {
            *number = bits;
            return 1;
        }
    }
    return 0;
}

/* The record at the cursor: `record` is what its length counts, and the cursor stands behind it. */
static inline int next_record(Cursor *all, Cursor *record) {
    uint64_t length;
    if (!read_number(all, &length) || length & 1 || length >> 1 > (uint64_t)(all->end - all->at))
        return 0;
    record->at = all->at;
    record->end = all->at += length >> 1;
    return 1;
}

/* The offset deltas of one batch, which must rise, and stay below its last. */
typedef struct {
    int64_t base_offset, last_delta, previous_delta;
} Offsets;

/* Step over attributes and timestamp, and read the offset. */
static inline int read_offset(Cursor *record, Offsets *offsets, int64_t *offset) {
    uint64_t number;
    if (record->at >= record->end)
        return 0;
    record->at++;
    while (record->at < record->end && *record->at > 0x7F)
        record->at++;
    if (record->at >= record->end)
        return 0;
    record->at++;
    if (!read_number(record, &number) || number & 1)
        return 0;
    number >>= 1;
    if (number > (uint64_t)offsets->last_delta || (int64_t)number <= offsets->previous_delta)
        return 0;
    offsets->previous_delta = (int64_t)number;
    *offset = offsets->base_offset + (int64_t)number;
    return 1;
}

/* The key (NULL where there is none), and whether there is a value. */
static inline int read_key(Cursor *record, const uint8_t **key, size_t *size, int *has_value) {
    uint64_t number;
    if (!read_number(record, &number))
        return 0;
    *key = NULL;
    *size = 0;
    if (number != NULL_LENGTH) {
        if (number & 1 || number >> 1 >= (uint64_t)(record->end - record->at))
            return 0;
        *key = record->at;
        *size = (size_t)(number >> 1);
        record->at += *size;
    }
    if (record->at >= record->end)
        return 0;
    *has_value = *record->at != NULL_LENGTH;
    return 1;
}

/* ---- The module's state, and what all its functions are given --------------------------------------------- */

typedef struct {
    PyObject *map_type;
} State;

static struct PyModuleDef module_definition;

/* The class is imported when it is raised, so that the kernel loads without the package (`moldau version`). */
static PyObject *corrupt(const Cursor *all, const Py_buffer *payload) {
    PyObject *batch = PyImport_ImportModule("moldau.common.records.batch");
    PyObject *error = batch == NULL ? NULL : PyObject_GetAttrString(batch, "CorruptBatch");
    Py_XDECREF(batch);
    if (error != NULL)
        PyErr_Format(error, "the record that begins before byte %zd of %zd does not fit",
                     (Py_ssize_t)(all->at - (const uint8_t *)payload->buf), payload->len);
    Py_XDECREF(error);
    return NULL;
}

static int set_cursor(Cursor *all, const Py_buffer *payload, Py_ssize_t start, Py_ssize_t end) {
    if (start < 0 || end < start || end > payload->len) {
        PyErr_SetString(PyExc_ValueError, "a position outside the payload");
        return -1;
    }
    all->at = (const uint8_t *)payload->buf + start;
    all->end = (const uint8_t *)payload->buf + end;
    return 0;
}

static int set_offsets(Offsets *offsets, long long base_offset, long long last_delta) {
    if (base_offset < 0 || last_delta < 0 || base_offset > INT64_MAX - last_delta) {
        PyErr_SetString(PyExc_ValueError, "offsets that cannot be");
        return -1;
    }
    offsets->base_offset = base_offset;
    offsets->last_delta = last_delta;
    offsets->previous_delta = -1;
    return 0;
}

/* A record takes a byte at least, so a count that lies costs no memory. */
static PyObject *new_verdicts(Py_ssize_t count, const Cursor *all) {
    Py_ssize_t bytes = all->end - all->at;
    return PyByteArray_FromStringAndSize(NULL, count < 0 ? 0 : count < bytes ? count : bytes);
}

/* ---- The map --------------------------------------------------------------------------------------------- */

typedef struct {
    uint32_t hash[4]; /* halves of high and low, so that a slot needs no more than 20 bytes */
    uint32_t place;
} Slot;

typedef struct {
    PyObject_HEAD
    Slot *slots;
    Py_ssize_t home_slots, slots_all, key_count, keys_max;
    int64_t first_offset;
    PyObject *window; /* a bytearray */
    uint64_t secret[2];
} OffsetMap;

static inline Slot *home_of(const OffsetMap *map, Hash hash) {
    return map->slots + (Py_ssize_t)(((hash.high >> 32) * (uint64_t)map->home_slots) >> 32);
}

static inline uint64_t high_of(const Slot *slot) { return (uint64_t)slot->hash[0] << 32 | slot->hash[1]; }

static inline uint64_t low_of(const Slot *slot) { return (uint64_t)slot->hash[2] << 32 | slot->hash[3]; }

/* The slot with this hash, or else where it belongs; `found` says which. */
static inline Slot *search(const OffsetMap *map, Hash hash, int *found) {
    const Slot *end = map->slots + map->slots_all;
    Slot *slot = home_of(map, hash);
    *found = 0;
    for (; slot < end && slot->place; slot++) {
        uint64_t high = high_of(slot);
        if (high < hash.high)
            continue;
        if (high > hash.high)
            break;
        uint64_t low = low_of(slot);
        if (low < hash.low)
            continue;
        *found = low == hash.low;
        break;
    }
    return slot;
}

static inline void set_window(OffsetMap *map, int64_t relative, uint8_t verdict) {
    if (relative < PyByteArray_GET_SIZE(map->window))
        PyByteArray_AS_STRING(map->window)[relative] = (char)verdict;
}

/* See OffsetMap.put in offset_map.py; `offset` is not below the map's first. 0 when there is no room. */
static int put(OffsetMap *map, Hash hash, int64_t offset, uint8_t verdict) {
    int64_t relative = offset - map->first_offset;
    if (relative >= PLACE_MAX)
        return 0;
    int found;
    Slot *slot = search(map, hash, &found);
    if (found) {
        set_window(map, (int64_t)slot->place - 1, GONE);
    } else {
        const Slot *end = map->slots + map->slots_all;
        Slot *free_slot = slot;
        while (free_slot < end && free_slot->place)
            free_slot++;
        if (free_slot == end || map->key_count == map->keys_max)
            return 0;
        memmove(slot + 1, slot, (size_t)(free_slot - slot) * sizeof(Slot));
        slot->hash[0] = (uint32_t)(hash.high >> 32);
        slot->hash[1] = (uint32_t)hash.high;
        slot->hash[2] = (uint32_t)(hash.low >> 32);
        slot->hash[3] = (uint32_t)hash.low;
        map->key_count++;
    }
    slot->place = (uint32_t)(relative + 1);
    set_window(map, relative, verdict);
    return 1;
}

/* The key's latest offset, or -1. */
static inline int64_t get(const OffsetMap *map, Hash hash) {
    int found;
    const Slot *slot = search(map, hash, &found);
    return found ? map->first_offset + (int64_t)slot->place - 1 : -1;
}

typedef struct {
    Hash hash;
    int64_t offset;
    Py_ssize_t keyless; /* how many without a key stand before it */
    uint8_t verdict;
} Entry;

static PyObject *map_keys(OffsetMap *self, PyObject *arguments) {
    Py_buffer payload;
    Py_ssize_t start, end, count, keyless = 0;
    long long base_offset, last_delta, first_offset;
    if (!PyArg_ParseTuple(arguments, "y*nnnLLL:map_keys", &payload, &start, &end, &count, &base_offset, &last_delta,
                          &first_offset))
        return NULL;
    PyObject *result = NULL;
    Cursor all;
    Offsets offsets;
    if (set_cursor(&all, &payload, start, end) < 0 || set_offsets(&offsets, base_offset, last_delta) < 0)
        goto done;
    if (first_offset < self->first_offset)
        first_offset = self->first_offset;
    int whole = 1;
    for (Py_ssize_t index = 0; index < count && whole;) {
        Entry block[BLOCK_RECORDS];
        int entries = 0;
        while (entries < BLOCK_RECORDS && index < count) {
            Cursor record;
            const uint8_t *key;
            size_t size;
            int has_value;
            int64_t offset;
            whole = next_record(&all, &record) && read_offset(&record, &offsets, &offset) &&
                    read_key(&record, &key, &size, &has_value);
            if (!whole)
                break;
            index++;
            if (offset < first_offset)
                continue;
            if (key == NULL) {
                keyless++;
                continue;
            }
            Entry *entry = &block[entries++];
            entry->hash = hash_of(self->secret, key, size);
            entry->offset = offset;
            entry->keyless = keyless;
            entry->verdict = has_value ? LATEST : LATEST_TOMBSTONE;
            PREFETCH(home_of(self, entry->hash));
        }
        for (int each = 0; each < entries; each++) {
            if (!put(self, block[each].hash, block[each].offset, block[each].verdict)) {
                result = Py_BuildValue("(Ln)", (long long)block[each].offset, block[each].keyless);
                goto done;
            }
        }
    }
    if (whole && all.at == all.end)
        result = Py_BuildValue("(On)", Py_None, keyless);
    else
        corrupt(&all, &payload);
done:
    PyBuffer_Release(&payload);
    return result;
}

static PyObject *judge_keys(OffsetMap *self, PyObject *arguments) {
    Py_buffer payload;
    Py_ssize_t start, end, count;
    long long base_offset, last_delta, end_offset;
    if (!PyArg_ParseTuple(arguments, "y*nnnLLL:judge_keys", &payload, &start, &end, &count, &base_offset, &last_delta,
                          &end_offset))
        return NULL;
    PyObject *verdicts = NULL;
    Cursor all;
    Offsets offsets;
    if (set_cursor(&all, &payload, start, end) < 0 || set_offsets(&offsets, base_offset, last_delta) < 0)
        goto done;
    verdicts = new_verdicts(count, &all);
    if (verdicts == NULL)
        goto done;
    uint8_t *verdict = (uint8_t *)PyByteArray_AS_STRING(verdicts);
    int whole = 1;
    for (Py_ssize_t index = 0; index < count && whole;) {
        struct {
            Hash hash;
            int64_t offset;
            Py_ssize_t index;
        } block[BLOCK_RECORDS];
        int entries = 0;
        while (entries < BLOCK_RECORDS && index < count) {
            Cursor record;
            const uint8_t *key;
            size_t size;
            int has_value;
            int64_t offset;
            whole = next_record(&all, &record) && read_offset(&record, &offsets, &offset) &&
                    read_key(&record, &key, &size, &has_value);
            if (!whole)
                break;
            verdict[index] = has_value ? LATEST : LATEST_TOMBSTONE;
            if (key == NULL) {
                if (offset < end_offset)
                    verdict[index] = GONE;
            } else {
                block[entries].hash = hash_of(self->secret, key, size);
                block[entries].offset = offset;
                block[entries].index = index;
                PREFETCH(home_of(self, block[entries].hash));
                entries++;
            }
            index++;
        }
        for (int each = 0; each < entries; each++)
            if (get(self, block[each].hash) > block[each].offset)
                verdict[block[each].index] = GONE;
    }
    if (!whole || all.at != all.end) {
        Py_CLEAR(verdicts);
        corrupt(&all, &payload);
    }
done:
    PyBuffer_Release(&payload);
    return verdicts;
}

static PyObject *map_put(OffsetMap *self, PyObject *arguments) {
    Py_buffer key;
    long long offset;
    int verdict;
    if (!PyArg_ParseTuple(arguments, "y*Li:put", &key, &offset, &verdict))
        return NULL;
    PyObject *result = NULL;
    if (offset < self->first_offset)
        PyErr_SetString(PyExc_ValueError, "an offset below the map's first");
    else
        result = PyBool_FromLong(put(self, hash_of(self->secret, key.buf, (size_t)key.len), offset, (uint8_t)verdict));
    PyBuffer_Release(&key);
    return result;
}

static PyObject *map_get(OffsetMap *self, PyObject *argument) {
    Py_buffer key;
    if (PyObject_GetBuffer(argument, &key, PyBUF_SIMPLE) < 0)
        return NULL;
    int64_t offset = get(self, hash_of(self->secret, key.buf, (size_t)key.len));
    PyBuffer_Release(&key);
    return PyLong_FromLongLong(offset);
}

static PyObject *map_new(PyTypeObject *type, PyObject *arguments, PyObject *Py_UNUSED(keywords)) {
    long long first_offset;
    Py_ssize_t home_slots, spare_slots, keys_max, window_bytes;
    Py_buffer secret;
    if (!PyArg_ParseTuple(arguments, "Lnnnny*:OffsetMap", &first_offset, &home_slots, &spare_slots, &keys_max,
                          &window_bytes, &secret))
        return NULL;
    OffsetMap *self = NULL;
    if (home_slots < 1 || spare_slots < 1 || keys_max < 1 || window_bytes < 0 || home_slots > INT32_MAX ||
        spare_slots > INT32_MAX || secret.len != SECRET_BYTES) {
        PyErr_SetString(PyExc_ValueError, "a map of such sizes cannot be");
        goto done;
    }
    self = (OffsetMap *)type->tp_alloc(type, 0);
    if (self == NULL)
        goto done;
    self->first_offset = first_offset;
    self->home_slots = home_slots;
    self->slots_all = home_slots + spare_slots;
    self->keys_max = keys_max;
    self->secret[0] = little_endian(secret.buf, 8);
    self->secret[1] = little_endian((const uint8_t *)secret.buf + 8, 8);
    self->window = PyByteArray_FromStringAndSize(NULL, window_bytes);
    self->slots = PyMem_RawCalloc((size_t)self->slots_all, sizeof(Slot)); /* takes memory as it fills */
    if (self->window == NULL || self->slots == NULL) {
        if (!PyErr_Occurred())
            PyErr_NoMemory();
        Py_CLEAR(self);
        goto done;
    }
    memset(PyByteArray_AS_STRING(self->window), GONE, (size_t)window_bytes);
done:
    PyBuffer_Release(&secret);
    return (PyObject *)self;
}

static void map_dealloc(OffsetMap *self) {
    PyTypeObject *type = Py_TYPE(self);
    PyMem_RawFree(self->slots);
    Py_XDECREF(self->window);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

static PyObject *map_key_count(OffsetMap *self, void *Py_UNUSED(nothing)) {
    return PyLong_FromSsize_t(self->key_count);
}

static PyObject *map_keys_max(OffsetMap *self, void *Py_UNUSED(nothing)) {
    return PyLong_FromSsize_t(self->keys_max);
}

static PyObject *map_window(OffsetMap *self, void *Py_UNUSED(nothing)) { return Py_NewRef(self->window); }

static PyObject *map_window_end(OffsetMap *self, void *Py_UNUSED(nothing)) {
    return PyLong_FromLongLong(self->first_offset + PyByteArray_GET_SIZE(self->window));
}

static PyObject *map_memory_bytes(OffsetMap *self, void *Py_UNUSED(nothing)) {
    return PyLong_FromSsize_t(self->slots_all * (Py_ssize_t)sizeof(Slot) + PyByteArray_GET_SIZE(self->window));
}

static PyMethodDef map_methods[] = {
    {"put", (PyCFunction)map_put, METH_VARARGS, "Note the latest offset of a key; False when there is no room."},
    {"get", (PyCFunction)map_get, METH_O, "The latest offset of a key, or -1."},
    {"map_keys", (PyCFunction)map_keys, METH_VARARGS, "Put a batch's keys; see scanning.py."},
    {"judge_keys", (PyCFunction)judge_keys, METH_VARARGS, "One verdict a record; see scanning.py."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef map_attributes[] = {
    {"key_count", (getter)map_key_count, NULL, "How many keys are in the map.", NULL},
    {"keys_max", (getter)map_keys_max, NULL, "How many it has room for.", NULL},
    {"window", (getter)map_window, NULL, "One byte an offset, from the map's first on.", NULL},
    {"window_end", (getter)map_window_end, NULL, "The first offset that has no byte there.", NULL},
    {"memory_bytes", (getter)map_memory_bytes, NULL, "What the map takes at most.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot map_slots[] = {
    {Py_tp_doc, "The latest offset of every key; see offset_map.py."},
    {Py_tp_new, map_new},
    {Py_tp_dealloc, map_dealloc},
    {Py_tp_methods, map_methods},
    {Py_tp_getset, map_attributes},
    {0, NULL},
};

static PyType_Spec map_spec = {"moldau.broker.log.compaction._kernel.OffsetMap", sizeof(OffsetMap), 0, Py_TPFLAGS_DEFAULT,
                               map_slots};

/* ---- Without the map -------------------------------------------------------------------------------------- */

static PyObject *verdicts_by_offset(PyObject *module, PyObject *arguments) {
    Py_buffer window, payload;
    Py_ssize_t start, end, count;
    long long window_start, base_offset, last_delta;
    if (!PyArg_ParseTuple(arguments, "y*Ly*nnnLL:verdicts_by_offset", &window, &window_start, &payload, &start, &end,
                          &count, &base_offset, &last_delta))
        return NULL;
    PyObject *verdicts = NULL;
    Cursor all;
    Offsets offsets;
    if (set_cursor(&all, &payload, start, end) < 0 || set_offsets(&offsets, base_offset, last_delta) < 0)
        goto done;
    if (window_start < 0 || base_offset < window_start || base_offset + last_delta - window_start >= window.len) {
        PyErr_SetString(PyExc_ValueError, "a batch outside the window");
        goto done;
    }
    verdicts = new_verdicts(count, &all);
    if (verdicts == NULL)
        goto done;
    uint8_t *verdict = (uint8_t *)PyByteArray_AS_STRING(verdicts);
    int whole = 1;
    for (Py_ssize_t index = 0; index < count; index++) {
        Cursor record;
        int64_t offset;
        whole = next_record(&all, &record) && read_offset(&record, &offsets, &offset);
        if (!whole)
            break;
        verdict[index] = ((const uint8_t *)window.buf)[offset - window_start];
    }
    if (!whole || all.at != all.end) {
        Py_CLEAR(verdicts);
        corrupt(&all, &payload);
    }
done:
    PyBuffer_Release(&window);
    PyBuffer_Release(&payload);
    return verdicts;
}

static inline int number_bytes(uint64_t number) {
    int bytes = 1;
    for (; number > 0x7F; number >>= 7)
        bytes++;
    return bytes;
}

static inline uint8_t *write_number(uint8_t *at, uint64_t number) {
    for (; number > 0x7F; number >>= 7)
        *at++ = (uint8_t)(number & 0x7F) | 0x80;
    *at++ = (uint8_t)number;
    return at;
}

/* Walk over the records that stay. With `out` NULL only sizes are added up; 0 when a record is malformed. */
static int keep(Cursor *all, const Py_buffer *kept, const uint64_t *shift_ms, uint8_t *out, size_t *size, int64_t *newest) {
    const uint8_t *run_start = all->at;
    const uint8_t *flags = kept->buf;
    size_t bytes = 0;
    *newest = INT64_MIN;
    for (Py_ssize_t index = 0; index < kept->len; index++) {
        const uint8_t *begin = all->at;
        Cursor record;
        if (!next_record(all, &record))
            return 0;
        if (!flags[index]) {
            if (shift_ms == NULL) {
                if (out != NULL && begin > run_start)
                    memcpy(out + bytes, run_start, (size_t)(begin - run_start));
                bytes += (size_t)(begin - run_start);
                run_start = all->at;
            }
            continue;
        }
        uint64_t number;
        if (record.at >= record.end)
            return 0;
        uint8_t attributes = *record.at++;
        if (!read_number(&record, &number))
            return 0;
        uint64_t delta = number >> 1 ^ (0 - (number & 1));
        if ((int64_t)delta > *newest)
            *newest = (int64_t)delta;
        if (shift_ms == NULL)
            continue;
        delta += *shift_ms;
        number = delta << 1 ^ (0 - (delta >> 63));
        size_t rest = (size_t)(record.end - record.at), length = 1 + (size_t)number_bytes(number) + rest;
        if (out != NULL) {
            uint8_t *at = write_number(out + bytes, (uint64_t)length << 1);
            *at++ = attributes;
            at = write_number(at, number);
            memcpy(at, record.at, rest);
        }
        bytes += (size_t)number_bytes((uint64_t)length << 1) + length;
    }
    if (shift_ms == NULL) {
        if (out != NULL && all->at > run_start)
            memcpy(out + bytes, run_start, (size_t)(all->at - run_start));
        bytes += (size_t)(all->at - run_start);
    }
    *size = bytes;
    return all->at == all->end;
}

static PyObject *keep_records(PyObject *module, PyObject *arguments) {
    Py_buffer payload, kept;
    Py_ssize_t start, end;
    PyObject *shift;
    if (!PyArg_ParseTuple(arguments, "y*nny*O:keep_records", &payload, &start, &end, &kept, &shift))
        return NULL;
    PyObject *body = NULL, *result = NULL;
    Cursor all;
    uint64_t shift_ms = 0;
    size_t size = 0;
    int64_t newest;
    if (shift != Py_None) {
        shift_ms = PyLong_AsUnsignedLongLongMask(shift);
        if (PyErr_Occurred())
            goto done;
    }
    const uint64_t *shifted = shift == Py_None ? NULL : &shift_ms;
    if (set_cursor(&all, &payload, start, end) < 0)
        goto done;
    Cursor again = all;
    if (!keep(&all, &kept, shifted, NULL, &size, &newest)) {
        corrupt(&all, &payload);
        goto done;
    }
    body = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)size);
    if (body == NULL)
        goto done;
    keep(&again, &kept, shifted, (uint8_t *)PyByteArray_AS_STRING(body), &size, &newest);
    result = Py_BuildValue("(NL)", body, (long long)newest);
done:
    PyBuffer_Release(&payload);
    PyBuffer_Release(&kept);
    return result;
}

static PyObject *siphash(PyObject *Py_UNUSED(module), PyObject *arguments) {
    Py_buffer secret, key;
    if (!PyArg_ParseTuple(arguments, "y*y*:siphash", &secret, &key))
        return NULL;
    PyObject *result = NULL;
    if (secret.len != SECRET_BYTES) {
        PyErr_SetString(PyExc_ValueError, "a secret has 16 bytes");
    } else {
        uint64_t halves[2] = {little_endian(secret.buf, 8), little_endian((const uint8_t *)secret.buf + 8, 8)};
        Hash hash = hash_of(halves, key.buf, (size_t)key.len);
        uint8_t digest[16];
        for (int index = 0; index < 8; index++) {
            digest[index] = (uint8_t)(hash.high >> (8 * index));
            digest[8 + index] = (uint8_t)(hash.low >> (8 * index));
        }
        result = PyBytes_FromStringAndSize((const char *)digest, 16);
    }
    PyBuffer_Release(&secret);
    PyBuffer_Release(&key);
    return result;
}

static PyMethodDef module_methods[] = {
    {"verdicts_by_offset", verdicts_by_offset, METH_VARARGS, "One verdict a record, from the window; see scanning.py."},
    {"keep_records", keep_records, METH_VARARGS, "The records that stay, and their newest delta; see rewrite.py."},
    {"siphash", siphash, METH_VARARGS, "SipHash-2-4-128 of a key under a secret: for the tests."},
    {NULL, NULL, 0, NULL},
};

static int module_exec(PyObject *module) {
    State *state = PyModule_GetState(module);
    state->map_type = PyType_FromModuleAndSpec(module, &map_spec, NULL);
    if (state->map_type == NULL)
        return -1;
    return PyModule_AddObjectRef(module, "OffsetMap", state->map_type) < 0 ||
                   PyModule_AddIntConstant(module, "SLOT_BYTES", sizeof(Slot)) < 0 ||
                   PyModule_AddIntMacro(module, KERNEL_VERSION) < 0
               ? -1
               : 0;
}

static int module_traverse(PyObject *module, visitproc visit, void *arg) {
    State *state = PyModule_GetState(module);
    Py_VISIT(state->map_type);
    return 0;
}

static int module_clear(PyObject *module) {
    State *state = PyModule_GetState(module);
    Py_CLEAR(state->map_type);
    return 0;
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, module_exec}, {0, NULL}};

static PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT, "_kernel",       "Compaction's map of keys and loops over records.",
    sizeof(State),         module_methods,  module_slots,
    module_traverse,       module_clear,    NULL,
};

PyMODINIT_FUNC PyInit__kernel(void) { return PyModuleDef_Init(&module_definition); }
