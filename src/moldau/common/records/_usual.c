/* The usual batch, judged by its header: the compiled twin of usual.py, which says what is asked of both, and whose
 * tests run over both.
 *
 *   | base offset 8 | length 4 | leader epoch 4 | magic 1 | crc 4 | attributes 2 | last offset delta 4 |
 *   | base timestamp 8 | max timestamp 8 | producer id 8 | producer epoch 2 | base sequence 4 | count 4 |
 *   | records ...
 *
 * Uncompressed records are walked over, so far as `walked_max` says.
 *
 * Nothing is read before the size says that it is there; a batch that is anything but usual gives None, and Python
 * judges it again with all its cases.
 *
 * Not here: what is wrong with other batches (appending/validation.py says that).
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <structmember.h>

#include "walk_record.h"

/* Version of the interface to the Python module beside this; core/kernels.py has the same number. Raise both with a
   change after which an older kernel or an older module would not do. */
#define KERNEL_VERSION 1

#define HEADER_BYTES 61
#define POSITION_BYTES 16
#define LENGTH_OVERHEAD 12
#define CRC_START 21
#define MAGIC 2
#define CODEC_MASK 0x07
#define RECORD_BYTES_MIN 7
#define ATTRIBUTES_MAX 32 /* what the mask of attributes has a bit for */

typedef struct {
    PyObject_HEAD
    long long size_bytes_max, roll_bytes, roll_above_ms, roll_after_ms, last_offset_max, after_max_ms, walked_max;
    unsigned long long attributes; /* bit n: attributes of value n are usual */
    Py_ssize_t large_bytes;
    int counted_max;
    PyObject *crc;
} Marks;

static inline uint16_t u16(const uint8_t *at) { return (uint16_t)(at[0] << 8 | at[1]); }

static inline uint32_t u32(const uint8_t *at) {
    uint32_t value;
    memcpy(&value, at, 4);
    return __builtin_bswap32(value);
}

static inline int64_t i64(const uint8_t *at) {
    uint64_t value;
    memcpy(&value, at, 8);
    return (int64_t)__builtin_bswap64(value);
}

/* Whether exactly `count` records, by their length fields alone, fill the payload. */
static int records_fill(const uint8_t *payload, Py_ssize_t size, int32_t count) {
    Py_ssize_t position = 0;
    for (int32_t i = 0; i < count; i++) {
        uint64_t length = 0;
        int shift = 0;
        uint8_t byte;
        do {
            if (position >= size || shift > 28)
                return 0;
            byte = payload[position++];
            length |= (uint64_t)(byte & 0x7F) << shift;
            shift += 7;
        } while (byte > 0x7F);
        if (length & 1)
            return 0;
        length >>= 1;
        if (length > (uint64_t)(size - position))
            return 0;
        position += (Py_ssize_t)length;
    }
    return position == size;
}

/* Whether exactly `count` sound records fill the payload, one offset after the other, and the largest timestamp is
 * the header's. */
static int records_are_sound(const uint8_t *payload, Py_ssize_t size, int32_t count, int64_t base_timestamp_ms,
                             int64_t max_timestamp_ms) {
    Cursor all = {payload, payload + size};
    int64_t newest_ms = NO_TIMESTAMP;
    for (int32_t index = 0; index < count; index++) {
        Record record;
        if (!read_record(&all, base_timestamp_ms, &record) || record.offset_delta != index)
            return 0;
        if (record.timestamp_ms > newest_ms)
            newest_ms = record.timestamp_ms;
    }
    return all.at == all.end && newest_ms == max_timestamp_ms;
}

#define SMALL_BYTES 1024 /* above this the library is faster: it reckons three strands at once */

#if defined(__x86_64__) && defined(__GNUC__)
#define HAS_CRC_INSTRUCTION __builtin_cpu_supports("sse4.2")
#define CRC_TARGET __attribute__((target("sse4.2")))
#define CRC_64(crc, word) ((uint32_t)__builtin_ia32_crc32di(crc, word))
#define CRC_8(crc, byte) __builtin_ia32_crc32qi(crc, byte)
#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#define HAS_CRC_INSTRUCTION 1
#define CRC_TARGET
#define CRC_64(crc, word) __crc32cd(crc, word)
#define CRC_8(crc, byte) __crc32cb(crc, byte)
#else
#define HAS_CRC_INSTRUCTION 0
#define CRC_TARGET
#define CRC_64(crc, word) (crc)
#define CRC_8(crc, byte) (crc)
#endif

/* crc32c by the processor's own instruction. Handing a few bytes to the library costs ten times as much. */
CRC_TARGET static uint32_t small_crc(const uint8_t *bytes, Py_ssize_t size) {
    uint32_t crc = 0xFFFFFFFF;
    for (; size >= 8; size -= 8, bytes += 8) {
        uint64_t word;
        memcpy(&word, bytes, 8);
        crc = CRC_64(crc, word);
    }
    for (; size > 0; size--, bytes++)
        crc = CRC_8(crc, *bytes);
    return ~crc;
}

/* 1: the crc of these bytes is `expected`; 0: it is not; -1: an exception. */
static int crc_is(PyObject *function, const uint8_t *bytes, Py_ssize_t size, uint32_t expected) {
    if (size <= SMALL_BYTES && HAS_CRC_INSTRUCTION)
        return small_crc(bytes, size) == expected;
    PyObject *view = PyMemoryView_FromMemory((char *)bytes, size, PyBUF_READ);
    if (view == NULL)
        return -1;
    PyObject *crc = PyObject_CallOneArg(function, view);
    Py_DECREF(view);
    if (crc == NULL)
        return -1;
    unsigned long found = PyLong_AsUnsignedLong(crc);
    Py_DECREF(crc);
    if (found == (unsigned long)-1 && PyErr_Occurred())
        return -1;
    return found == expected;
}

static PyObject *judged(const uint8_t *batch, int32_t last_offset_delta, uint16_t attributes, int64_t max_timestamp_ms) {
    PyObject *result = PyTuple_New(6);
    if (result == NULL)
        return NULL;
    PyTuple_SET_ITEM(result, 0, PyLong_FromLong(last_offset_delta));
    PyTuple_SET_ITEM(result, 1, PyLong_FromLong(attributes));
    PyTuple_SET_ITEM(result, 2, PyLong_FromLongLong(max_timestamp_ms));
    PyTuple_SET_ITEM(result, 3, PyLong_FromLongLong(i64(batch + 43)));
    PyTuple_SET_ITEM(result, 4, PyLong_FromLong((int16_t)u16(batch + 51)));
    PyTuple_SET_ITEM(result, 5, PyLong_FromLong((int32_t)u32(batch + 53)));
    for (int i = 0; i < 6; i++) {
        if (PyTuple_GET_ITEM(result, i) == NULL) {
            Py_DECREF(result);
            return NULL;
        }
    }
    return result;
}

static PyObject *marks_judge(Marks *self, PyObject *const *arguments, Py_ssize_t count) {
    if (count != 4) {
        PyErr_SetString(PyExc_TypeError, "judge(batch, base_offset, position, now_ms)");
        return NULL;
    }
    long long base = PyLong_AsLongLong(arguments[1]);
    long long position = PyLong_AsLongLong(arguments[2]);
    long long now_ms = PyLong_AsLongLong(arguments[3]);
    if (PyErr_Occurred())
        return NULL;
    Py_buffer buffer;
    if (PyObject_GetBuffer(arguments[0], &buffer, PyBUF_SIMPLE) < 0)
        return NULL;
    PyObject *result = NULL;
    const uint8_t *batch = buffer.buf;
    Py_ssize_t size = buffer.len;
    if (size < HEADER_BYTES || size >= self->large_bytes || size > self->size_bytes_max)
        goto unusual;
    uint16_t attributes = u16(batch + 21);
    int32_t last_offset_delta = (int32_t)u32(batch + 23), records = (int32_t)u32(batch + 57);
    int64_t base_timestamp_ms = i64(batch + 27), max_timestamp_ms = i64(batch + 35);
    long long newest_ms;
    if (__builtin_add_overflow(now_ms, self->after_max_ms, &newest_ms))
        newest_ms = INT64_MAX;
    const uint8_t *payload = batch + HEADER_BYTES;
    Py_ssize_t payload_bytes = size - HEADER_BYTES;
    if (i64(batch) != 0 || (int64_t)(int32_t)u32(batch + 8) + LENGTH_OVERHEAD != size || batch[16] != MAGIC ||
        attributes >= ATTRIBUTES_MAX || !(self->attributes >> attributes & 1) || last_offset_delta < 0 ||
        (int64_t)last_offset_delta != (int64_t)records - 1 || base_timestamp_ms > max_timestamp_ms ||
        max_timestamp_ms > newest_ms || max_timestamp_ms > self->roll_above_ms || now_ms > self->roll_after_ms ||
        size > self->roll_bytes - position || last_offset_delta > self->last_offset_max - base)
        goto unusual;
    if (!(attributes & CODEC_MASK)) {
        if (self->walked_max) {
            if (records > self->walked_max ||
                !records_are_sound(payload, payload_bytes, records, base_timestamp_ms, max_timestamp_ms))
                goto unusual;
        } else if (!(records <= self->counted_max ? records_fill(payload, payload_bytes, records)
                                                  : (int64_t)records * RECORD_BYTES_MIN <= payload_bytes))
            goto unusual;
    }
    int sound = crc_is(self->crc, batch + CRC_START, size - CRC_START, u32(batch + 17));
    if (sound < 0)
        goto done;
    if (!sound)
        goto unusual;
    result = judged(batch, last_offset_delta, attributes, max_timestamp_ms);
    goto done;
unusual:
    result = Py_NewRef(Py_None);
done:
    PyBuffer_Release(&buffer);
    return result;
}

static PyObject *stage(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    if (count != 4 || !PyByteArray_CheckExact(arguments[0])) {
        PyErr_SetString(PyExc_TypeError, "stage(staged: bytearray, batch, base_offset, leader_epoch)");
        return NULL;
    }
    long long base = PyLong_AsLongLong(arguments[2]);
    long leader_epoch = PyLong_AsLong(arguments[3]);
    if (PyErr_Occurred())
        return NULL;
    Py_buffer buffer;
    if (PyObject_GetBuffer(arguments[1], &buffer, PyBUF_SIMPLE) < 0)
        return NULL;
    PyObject *result = NULL;
    Py_ssize_t size = buffer.len, before = PyByteArray_GET_SIZE(arguments[0]);
    if (size < POSITION_BYTES) {
        PyErr_SetString(PyExc_ValueError, "a batch is longer than the fields that place it");
    } else if (PyByteArray_Resize(arguments[0], before + size) == 0) {
        uint8_t *at = (uint8_t *)PyByteArray_AS_STRING(arguments[0]) + before;
        memcpy(at, buffer.buf, size);
        uint64_t offset = __builtin_bswap64((uint64_t)base);
        uint32_t epoch = __builtin_bswap32((uint32_t)leader_epoch);
        memcpy(at, &offset, 8);
        memcpy(at + 12, &epoch, 4);
        result = Py_NewRef(Py_None);
    }
    PyBuffer_Release(&buffer);
    return result;
}

static PyObject *marks_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords) {
    static char *names[] = {"crc", "counted_max", "large_bytes", NULL};
    PyObject *crc;
    int counted_max;
    Py_ssize_t large_bytes;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "Oin:Marks", names, &crc, &counted_max, &large_bytes))
        return NULL;
    Marks *self = (Marks *)type->tp_alloc(type, 0); /* zeroed: nothing is usual yet */
    if (self != NULL) {
        self->crc = Py_NewRef(crc);
        self->counted_max = counted_max;
        self->large_bytes = large_bytes;
    }
    return (PyObject *)self;
}

static void marks_dealloc(Marks *self) {
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(self->crc);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

static PyMethodDef marks_methods[] = {
    {"judge", (PyCFunction)(void (*)(void))marks_judge, METH_FASTCALL, "The header's fields, or None; see usual.py."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef marks_members[] = {
    {"size_bytes_max", T_LONGLONG, offsetof(Marks, size_bytes_max), 0, NULL},
    {"roll_bytes", T_LONGLONG, offsetof(Marks, roll_bytes), 0, NULL},
    {"roll_above_ms", T_LONGLONG, offsetof(Marks, roll_above_ms), 0, NULL},
    {"roll_after_ms", T_LONGLONG, offsetof(Marks, roll_after_ms), 0, NULL},
    {"last_offset_max", T_LONGLONG, offsetof(Marks, last_offset_max), 0, NULL},
    {"after_max_ms", T_LONGLONG, offsetof(Marks, after_max_ms), 0, NULL},
    {"walked_max", T_LONGLONG, offsetof(Marks, walked_max), 0, NULL},
    {"attributes", T_ULONGLONG, offsetof(Marks, attributes), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot marks_slots[] = {
    {Py_tp_doc, "What a batch must keep to in order to be usual; see usual.py."},
    {Py_tp_new, marks_new},
    {Py_tp_dealloc, marks_dealloc},
    {Py_tp_methods, marks_methods},
    {Py_tp_members, marks_members},
    {0, NULL},
};

static PyType_Spec marks_spec = {"moldau.common.records._usual.Marks", sizeof(Marks), 0, Py_TPFLAGS_DEFAULT, marks_slots};

static PyMethodDef functions[] = {
    {"stage", (PyCFunction)(void (*)(void))stage, METH_FASTCALL, "Append a batch, placed; see usual.py."},
    {NULL, NULL, 0, NULL},
};

static int module_exec(PyObject *module) {
    PyObject *type = PyType_FromSpec(&marks_spec);
    if (type == NULL)
        return -1;
    int result = PyModule_AddObjectRef(module, "Marks", type);
    Py_DECREF(type);
    return result < 0 ? result : PyModule_AddIntMacro(module, KERNEL_VERSION);
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, module_exec}, {0, NULL}};

static PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT, "_usual", "The usual batch, judged by its header.", 0, functions, module_slots, NULL, NULL,
    NULL,
};

PyMODINIT_FUNC PyInit__usual(void) { return PyModuleDef_Init(&module_definition); }
