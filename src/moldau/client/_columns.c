/* Records of batches -> the buffers of Arrow columns: the compiled twin of columns.py, which says what is asked
 * of both, and whose tests run over both.
 *
 *   length varint | attributes 1 | timestamp delta varint | offset delta varint | key length varint, key |
 *   value length varint, value | header count varint | per header: key length, key, value length, value
 *
 * A record is parsed whole (no length is believed before it is compared with what is left), and only then are
 * its parts copied, so that a malformed record leaves no trace. The buffers grow as Python `bytes` that nobody
 * else has seen yet, and become Arrow's without another copy.
 *
 * Not here: compression, checksums, batch headers (records/), and what is wrong with a malformed record
 * (records/record.py says that).
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

/* Version of the interface to the Python module beside this; core/kernels.py has the same number. Raise both with a
   change after which an older kernel or an older module would not do. */
#define KERNEL_VERSION 1

#define VARINT_BYTES_MAX 5
#define VARLONG_BYTES_MAX 10
#define MICROSECONDS 1000
#define ROWS_AT_FIRST 1024

/* ---- Growing buffers ---------------------------------------------------------------------------------- */

typedef struct {
    PyObject *bytes;     /* NULL before the first use */
    Py_ssize_t used;     /* of the bytes, so many are filled; row buffers are counted in rows instead */
    Py_ssize_t expected; /* what the last columns took: the size to begin with */
} Buffer;

static inline Py_ssize_t capacity(const Buffer *buffer) {
    return buffer->bytes == NULL ? 0 : PyBytes_GET_SIZE(buffer->bytes);
}

static inline uint8_t *bytes_of(const Buffer *buffer) {
    return (uint8_t *)PyBytes_AS_STRING(buffer->bytes);
}

/* Make room for `size` bytes in all; -1 with MemoryError, and the buffer's content is lost then. */
static int reserve(Buffer *buffer, Py_ssize_t size) {
    Py_ssize_t has = capacity(buffer);
    if (buffer->bytes != NULL && size <= has)
        return 0;
    Py_ssize_t target = has + has / 2;
    if (target < size)
        target = size;
    if (buffer->bytes == NULL) {
        if (target < buffer->expected)
            target = buffer->expected;
        buffer->bytes = PyBytes_FromStringAndSize(NULL, target > 64 ? target : 64);
        return buffer->bytes == NULL ? -1 : 0;
    }
    return _PyBytes_Resize(&buffer->bytes, target);
}

static void discard(Buffer *buffer) {
    Py_CLEAR(buffer->bytes);
    buffer->used = 0;
}

/* Hand the first `size` bytes over as an object of their own; the buffer is as new. */
static PyObject *release(Buffer *buffer, Py_ssize_t size) {
    PyObject *bytes = buffer->bytes;
    buffer->bytes = NULL;
    buffer->used = 0;
    buffer->expected = size + size / 8;
    if (bytes == NULL)
        return PyBytes_FromStringAndSize(NULL, 0);
    if (_PyBytes_Resize(&bytes, size) < 0)
        return NULL;
    return bytes;
}

/* A column of byte strings, some of them null: Arrow's validity bits, int32 offsets, data. */
typedef struct {
    Buffer validity, offsets, data;
    Py_ssize_t null_count;
} Binary;

static int reserve_rows(Binary *column, Py_ssize_t rows) {
    if (reserve(&column->validity, rows / 8 + 1) < 0 || reserve(&column->offsets, 4 * (rows + 1)) < 0)
        return -1;
    *(int32_t *)bytes_of(&column->offsets) = 0;
    return 0;
}

static inline void set_valid(uint8_t *bits, Py_ssize_t row, int valid) {
    if ((row & 7) == 0)
        bits[row >> 3] = 0;
    bits[row >> 3] |= (uint8_t)(valid << (row & 7));
}

/* Append a row, for which `reserve_rows` made room; `start` is NULL for null. */
static int append(Binary *column, Py_ssize_t row, const uint8_t *start, Py_ssize_t size) {
    set_valid(bytes_of(&column->validity), row, start != NULL);
    if (start == NULL) {
        column->null_count++;
    } else if (size > 0) {
        if (size > INT32_MAX - column->data.used) {
            PyErr_SetString(PyExc_OverflowError, "a column holds at most 2 GiB");
            return -1;
        }
        if (reserve(&column->data, column->data.used + size) < 0)
            return -1;
        memcpy(bytes_of(&column->data) + column->data.used, start, (size_t)size);
        column->data.used += size;
    }
    ((int32_t *)bytes_of(&column->offsets))[row + 1] = (int32_t)column->data.used;
    return 0;
}

static void discard_binary(Binary *column) {
    discard(&column->validity);
    discard(&column->offsets);
    discard(&column->data);
    column->null_count = 0;
}

static PyObject *release_validity(Buffer *validity, Py_ssize_t rows, Py_ssize_t null_count) {
    if (null_count == 0) {
        discard(validity);
        Py_RETURN_NONE;
    }
    return release(validity, (rows + 7) / 8);
}

static PyObject *release_binary(Binary *column, Py_ssize_t rows) {
    if (reserve_rows(column, rows) < 0) /* for a column without rows: its one offset */
        return NULL;
    Py_ssize_t null_count = column->null_count, size = column->data.used;
    column->null_count = 0;
    PyObject *validity = release_validity(&column->validity, rows, null_count);
    PyObject *offsets = release(&column->offsets, 4 * (rows + 1));
    PyObject *data = release(&column->data, size);
    if (validity == NULL || offsets == NULL || data == NULL) {
        Py_XDECREF(validity);
        Py_XDECREF(offsets);
        Py_XDECREF(data);
        return NULL;
    }
    return Py_BuildValue("(NNNn)", validity, offsets, data, null_count);
}

/* ---- Parsing: positions are compared with `end` before anything is read --------------------------------- */

typedef struct {
    const uint8_t *at, *end;
} Cursor;

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

/* A length and so many bytes; `start` is NULL for null. */
static inline int read_field(Cursor *cursor, const uint8_t **start, Py_ssize_t *size) {
    int64_t length;
    if (!read_varint(cursor, VARINT_BYTES_MAX, &length))
        return 0;
    *start = NULL;
    *size = 0;
    if (length == -1)
        return 1;
    if (length < 0 || length > cursor->end - cursor->at)
        return 0;
    *start = cursor->at;
    *size = (Py_ssize_t)length;
    cursor->at += length;
    return 1;
}

/* Step over a record's headers, which must end where the record does. */
static int check_headers(Cursor cursor, int64_t *count) {
    if (!read_varint(&cursor, VARINT_BYTES_MAX, count) || *count < 0 || *count > cursor.end - cursor.at)
        return 0;
    for (int64_t index = 0; index < *count; index++) {
        const uint8_t *start;
        Py_ssize_t size;
        if (!read_field(&cursor, &start, &size) || start == NULL || !read_field(&cursor, &start, &size))
            return 0;
    }
    return cursor.at == cursor.end;
}

static inline int64_t add_clipped(int64_t left, int64_t right) {
    if (right > 0 && left > INT64_MAX - right)
        return INT64_MAX;
    if (right < 0 && left < INT64_MIN - right)
        return INT64_MIN;
    return left + right;
}

static inline int64_t microseconds(int64_t time_ms) {
    if (time_ms > INT64_MAX / MICROSECONDS)
        return INT64_MAX;
    if (time_ms < INT64_MIN / MICROSECONDS)
        return INT64_MIN;
    return time_ms * MICROSECONDS;
}

/* ---- The builder ------------------------------------------------------------------------------------------ */

typedef struct {
    PyObject_HEAD
    int with_headers;
    Py_ssize_t rows, row_capacity, header_rows, header_capacity;
    int64_t record_bytes;
    Buffer offsets, timestamps_us;
    Binary keys, values;
    Buffer header_validity, header_offsets;
    Py_ssize_t header_null_count;
    Binary header_names, header_values;
} Columns;

static void clear(Columns *self) {
    self->rows = self->row_capacity = self->header_rows = self->header_capacity = 0;
    self->record_bytes = 0;
    self->header_null_count = 0;
    discard(&self->offsets);
    discard(&self->timestamps_us);
    discard_binary(&self->keys);
    discard_binary(&self->values);
    discard(&self->header_validity);
    discard(&self->header_offsets);
    discard_binary(&self->header_names);
    discard_binary(&self->header_values);
}

static int reserve_row(Columns *self) {
    if (self->rows < self->row_capacity)
        return 0;
    Py_ssize_t rows = self->row_capacity ? self->row_capacity * 2 : ROWS_AT_FIRST;
    if (reserve(&self->offsets, 8 * rows) < 0 || reserve(&self->timestamps_us, 8 * rows) < 0 ||
        reserve_rows(&self->keys, rows) < 0 || reserve_rows(&self->values, rows) < 0)
        return -1;
    if (self->with_headers) {
        if (reserve(&self->header_validity, rows / 8 + 1) < 0 ||
            reserve(&self->header_offsets, 4 * (rows + 1)) < 0)
            return -1;
        *(int32_t *)bytes_of(&self->header_offsets) = 0;
    }
    self->row_capacity = rows;
    return 0;
}

/* A header's name, which Arrow wants in UTF-8; what is not becomes U+FFFD, as in Python. */
static int append_name(Columns *self, const uint8_t *start, Py_ssize_t size) {
    Py_ssize_t ascii = 0;
    while (ascii < size && start[ascii] < 0x80)
        ascii++;
    if (ascii == size)
        return append(&self->header_names, self->header_rows, start, size);
    PyObject *text = PyUnicode_DecodeUTF8((const char *)start, size, "replace");
    if (text == NULL)
        return -1;
    Py_ssize_t utf8_size;
    const char *utf8 = PyUnicode_AsUTF8AndSize(text, &utf8_size);
    int result = utf8 == NULL ? -1 : append(&self->header_names, self->header_rows, (const uint8_t *)utf8, utf8_size);
    Py_DECREF(text);
    return result;
}

static int append_headers(Columns *self, Cursor cursor) {
    int64_t count = 0;
    read_varint(&cursor, VARINT_BYTES_MAX, &count);
    for (int64_t index = 0; index < count; index++) {
        const uint8_t *start;
        Py_ssize_t size;
        if (self->header_rows == self->header_capacity) {
            Py_ssize_t rows = self->header_capacity ? self->header_capacity * 2 : ROWS_AT_FIRST;
            if (reserve_rows(&self->header_names, rows) < 0 || reserve_rows(&self->header_values, rows) < 0)
                return -1;
            self->header_capacity = rows;
        }
        read_field(&cursor, &start, &size);
        if (append_name(self, start, size) < 0)
            return -1;
        read_field(&cursor, &start, &size);
        if (append(&self->header_values, self->header_rows, start, size) < 0)
            return -1;
        self->header_rows++;
    }
    set_valid(bytes_of(&self->header_validity), self->rows, count > 0);
    self->header_null_count += count == 0;
    ((int32_t *)bytes_of(&self->header_offsets))[self->rows + 1] = (int32_t)self->header_rows;
    return 0;
}

typedef struct {
    Py_ssize_t index, count, rows_max;
    int64_t base_offset, base_timestamp_ms, append_time_ms, start, end, bytes_max;
    int has_append_time;
} Task;

enum { DONE, FULL, MALFORMED, FAILED };

/* Take records from `all` on; leaves `all` and task->index where to go on. */
static int add_records(Columns *self, Cursor *all, Task *task) {
    for (; task->index < task->count; task->index++) {
        const uint8_t *record_start = all->at, *key, *value;
        Py_ssize_t key_size, value_size;
        int64_t length, time_delta_ms, offset_delta, header_count;
        if (!read_varint(all, VARINT_BYTES_MAX, &length) || length < 1 || length > all->end - all->at)
            return MALFORMED;
        Cursor record = {all->at + 1, all->at + length};
        if (!read_varint(&record, VARLONG_BYTES_MAX, &time_delta_ms) ||
            !read_varint(&record, VARINT_BYTES_MAX, &offset_delta))
            return MALFORMED;
        int64_t offset = add_clipped(task->base_offset, offset_delta);
        int wanted = task->start <= offset && offset < task->end;
        if (wanted && self->rows &&
            (self->rows >= task->rows_max || self->record_bytes + length > task->bytes_max)) {
            all->at = record_start;
            return FULL;
        }
        if (!read_field(&record, &key, &key_size) || !read_field(&record, &value, &value_size) ||
            !check_headers(record, &header_count))
            return MALFORMED;
        all->at += length;
        if (!wanted)
            continue;
        int64_t time_ms = task->has_append_time ? task->append_time_ms
                                                : add_clipped(task->base_timestamp_ms, time_delta_ms);
        if (reserve_row(self) < 0 || append(&self->keys, self->rows, key, key_size) < 0 ||
            append(&self->values, self->rows, value, value_size) < 0 ||
            (self->with_headers && append_headers(self, record) < 0))
            return FAILED;
        ((int64_t *)bytes_of(&self->offsets))[self->rows] = offset;
        ((int64_t *)bytes_of(&self->timestamps_us))[self->rows] = microseconds(time_ms);
        self->rows++;
        self->record_bytes += length;
    }
    return all->at == all->end ? DONE : MALFORMED;
}

static PyObject *columns_add(Columns *self, PyObject *arguments) {
    Py_buffer payload;
    Py_ssize_t position;
    Task task;
    PyObject *append_time;
    long long base_offset, base_timestamp_ms, start, end, bytes_max;
    if (!PyArg_ParseTuple(arguments, "y*nnnLLOLLnL:add", &payload, &position, &task.index, &task.count,
                          &base_offset, &base_timestamp_ms, &append_time, &start, &end, &task.rows_max,
                          &bytes_max))
        return NULL;
    task.base_offset = base_offset;
    task.base_timestamp_ms = base_timestamp_ms;
    task.start = start;
    task.end = end;
    task.bytes_max = bytes_max;
    task.append_time_ms = 0;
    task.has_append_time = append_time != Py_None;
    PyObject *result = NULL;
    if (task.has_append_time) {
        task.append_time_ms = PyLong_AsLongLong(append_time);
        if (task.append_time_ms == -1 && PyErr_Occurred())
            goto done;
    }
    if (position < 0 || position > payload.len || task.index < 0) {
        PyErr_SetString(PyExc_ValueError, "a position outside the payload");
        goto done;
    }
    const uint8_t *bytes = payload.buf;
    Cursor all = {bytes + position, bytes + payload.len};
    switch (add_records(self, &all, &task)) {
    case MALFORMED:
        PyErr_SetString(PyExc_ValueError, "a record is malformed");
        break;
    case FAILED:
        clear(self);
        break;
    default:
        result = Py_BuildValue("(nn)", (Py_ssize_t)(all.at - bytes), task.index);
    }
done:
    PyBuffer_Release(&payload);
    return result;
}

static PyObject *release_headers(Columns *self) {
    if (!self->with_headers)
        Py_RETURN_NONE;
    Py_ssize_t null_count = self->header_null_count, count = self->header_rows;
    if (reserve(&self->header_offsets, 4) < 0)
        return NULL;
    if (self->rows == 0)
        *(int32_t *)bytes_of(&self->header_offsets) = 0;
    PyObject *validity = release_validity(&self->header_validity, self->rows, null_count);
    PyObject *offsets = release(&self->header_offsets, 4 * (self->rows + 1));
    PyObject *names = release_binary(&self->header_names, count);
    PyObject *values = release_binary(&self->header_values, count);
    if (validity == NULL || offsets == NULL || names == NULL || values == NULL) {
        Py_XDECREF(validity);
        Py_XDECREF(offsets);
        Py_XDECREF(names);
        Py_XDECREF(values);
        return NULL;
    }
    return Py_BuildValue("(NNnNN)", validity, offsets, null_count, names, values);
}

static PyObject *columns_take(Columns *self, PyObject *Py_UNUSED(nothing)) {
    Py_ssize_t rows = self->rows;
    PyObject *offsets = release(&self->offsets, 8 * rows);
    PyObject *timestamps_us = release(&self->timestamps_us, 8 * rows);
    PyObject *keys = release_binary(&self->keys, rows);
    PyObject *values = release_binary(&self->values, rows);
    PyObject *headers = release_headers(self);
    clear(self);
    if (offsets == NULL || timestamps_us == NULL || keys == NULL || values == NULL || headers == NULL) {
        Py_XDECREF(offsets);
        Py_XDECREF(timestamps_us);
        Py_XDECREF(keys);
        Py_XDECREF(values);
        Py_XDECREF(headers);
        return NULL;
    }
    return Py_BuildValue("(nNNNNN)", rows, offsets, timestamps_us, keys, values, headers);
}

static PyObject *columns_rows(Columns *self, void *Py_UNUSED(nothing)) {
    return PyLong_FromSsize_t(self->rows);
}

static PyObject *columns_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords) {
    static char *names[] = {"with_headers", NULL};
    int with_headers;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "p:Columns", names, &with_headers))
        return NULL;
    Columns *self = (Columns *)type->tp_alloc(type, 0); /* zeroed: all buffers are new */
    if (self != NULL)
        self->with_headers = with_headers;
    return (PyObject *)self;
}

static void columns_dealloc(Columns *self) {
    PyTypeObject *type = Py_TYPE(self);
    clear(self);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

static PyMethodDef columns_methods[] = {
    {"add", (PyCFunction)columns_add, METH_VARARGS, "Add records; give the position and index to go on from."},
    {"take", (PyCFunction)columns_take, METH_NOARGS, "The columns so far; the builder is empty after it."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef columns_attributes[] = {
    {"rows", (getter)columns_rows, NULL, "How many rows are in the columns.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot columns_slots[] = {
    {Py_tp_doc, "Records decoded into columns; see columns.py."},
    {Py_tp_new, columns_new},
    {Py_tp_dealloc, columns_dealloc},
    {Py_tp_methods, columns_methods},
    {Py_tp_getset, columns_attributes},
    {0, NULL},
};

static PyType_Spec columns_spec = {"moldau.client._columns.Columns", sizeof(Columns), 0, Py_TPFLAGS_DEFAULT,
                                   columns_slots};

static int module_exec(PyObject *module) {
    PyObject *type = PyType_FromSpec(&columns_spec);
    if (type == NULL)
        return -1;
    int result = PyModule_AddObjectRef(module, "Columns", type);
    Py_DECREF(type);
    return result < 0 ? result : PyModule_AddIntMacro(module, KERNEL_VERSION);
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, module_exec}, {0, NULL}};

static PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT, "_columns", "Kafka records into Arrow buffers.", 0, NULL, module_slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__columns(void) { return PyModuleDef_Init(&module_definition); }
