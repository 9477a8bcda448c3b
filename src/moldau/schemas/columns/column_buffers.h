/* Arrow columns that grow: what the decoders of _decode.c write into.
 *
 * A column is validity bits and, by its kind, bits, fixed-width values, or int32 offsets with bytes or with the
 * one child that they count. How far a column is filled follows from its parent, so that taking back a row that
 * turned out bad needs no memory of where it began (`cut`).
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

enum { KIND_NULL, KIND_BOOLEAN, KIND_4, KIND_8, KIND_16, KIND_BYTES, KIND_LIST, KIND_STRUCT };
enum { OK = 0, MALFORMED = 1, FAILED = -1 }; /* FAILED: a Python exception is set */

#define ROWS_AT_FIRST 64

typedef struct {
    int32_t kind, first, count;
    int32_t width; /* bytes a value; 0 where there is no fixed width */
    int32_t weight; /* values that one of this column makes, without those of lists in it */
    int has_nulls; /* else there are no validity bits yet */
    Py_ssize_t length, capacity;
    uint8_t *validity, *data; /* into the bytes objects below */
    uint8_t *heap;
    Py_ssize_t heap_used, heap_capacity;
    Py_ssize_t length_expected, heap_expected; /* what the last batch took: the size to begin with */
    PyObject *validity_bytes, *data_bytes, *heap_bytes;
} Column;

static const int32_t WIDTHS[] = {0, 0, 4, 8, 16, 0, 0, 0};

static int resize(PyObject **bytes, uint8_t **start, Py_ssize_t size) {
    if (*bytes == NULL)
        *bytes = PyBytes_FromStringAndSize(NULL, size);
    else
        _PyBytes_Resize(bytes, size);
    *start = *bytes == NULL ? NULL : (uint8_t *)PyBytes_AS_STRING(*bytes);
    return *bytes == NULL ? FAILED : OK;
}

static Py_ssize_t data_size(const Column *column, Py_ssize_t length) {
    if (column->kind == KIND_BOOLEAN)
        return (length + 7) / 8;
    if (column->kind == KIND_BYTES || column->kind == KIND_LIST)
        return 4 * (length + 1);
    return column->width * length;
}

static int grow(Column *column) {
    Py_ssize_t capacity = column->capacity * 2;
    if (capacity == 0)
        capacity = (column->length_expected + ROWS_AT_FIRST) & ~(Py_ssize_t)(ROWS_AT_FIRST - 1);
    if (capacity > INT32_MAX) {
        PyErr_SetString(PyExc_OverflowError, "a column holds at most 2 billion values");
        return FAILED;
    }
    if (column->has_nulls && resize(&column->validity_bytes, &column->validity, capacity / 8) < 0)
        return FAILED;
    if (column->kind != KIND_NULL && column->kind != KIND_STRUCT) {
        if (resize(&column->data_bytes, &column->data, data_size(column, capacity)) < 0)
            return FAILED;
        if (column->capacity == 0 && (column->kind == KIND_BYTES || column->kind == KIND_LIST))
            *(int32_t *)column->data = 0;
    }
    column->capacity = capacity;
    return OK;
}

static inline int make_room(Column *column) { return column->length < column->capacity ? OK : grow(column); }

static inline void put_bit(uint8_t *bits, Py_ssize_t at, int value) {
    uint8_t mask = (uint8_t)(1u << (at & 7));
    bits[at >> 3] = (uint8_t)((bits[at >> 3] & ~mask) | (value ? mask : 0));
}

/* The next value is there. */
static inline void mark_valid(Column *column) {
    if (column->has_nulls)
        put_bit(column->validity, column->length, 1);
}

/* The next value is null; the first such makes the bits of all before it. */
static int mark_null(Column *column) {
    if (!column->has_nulls) {
        if (resize(&column->validity_bytes, &column->validity, column->capacity / 8) < 0)
            return FAILED;
        memset(column->validity, 0xFF, (size_t)(column->capacity / 8));
        column->has_nulls = 1;
    }
    put_bit(column->validity, column->length, 0);
    return OK;
}

static inline int append_4(Column *column, uint32_t value) {
    if (make_room(column) < 0)
        return FAILED;
    mark_valid(column);
    ((uint32_t *)column->data)[column->length++] = value;
    return OK;
}

static inline int append_8(Column *column, uint64_t value) {
    if (make_room(column) < 0)
        return FAILED;
    mark_valid(column);
    ((uint64_t *)column->data)[column->length++] = value;
    return OK;
}

static inline int append_float(Column *column, float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return append_4(column, bits);
}

static inline int append_double(Column *column, double value) {
    uint64_t bits;
    memcpy(&bits, &value, 8);
    return append_8(column, bits);
}

static int append_16(Column *column, const uint8_t *value) {
    if (make_room(column) < 0)
        return FAILED;
    mark_valid(column);
    memcpy(column->data + 16 * column->length++, value, 16);
    return OK;
}

static inline int append_boolean(Column *column, int value) {
    if (make_room(column) < 0)
        return FAILED;
    mark_valid(column);
    put_bit(column->data, column->length++, value);
    return OK;
}

static int grow_heap(Column *column, Py_ssize_t size) {
    if (size > INT32_MAX) {
        PyErr_SetString(PyExc_OverflowError, "a column holds at most 2 GiB");
        return FAILED;
    }
    Py_ssize_t capacity = column->heap_capacity ? column->heap_capacity * 2 : column->heap_expected + 1024;
    if (capacity > INT32_MAX || capacity < size)
        capacity = size;
    if (resize(&column->heap_bytes, &column->heap, capacity) < 0)
        return FAILED;
    column->heap_capacity = capacity;
    return OK;
}

static inline int append_bytes(Column *column, const uint8_t *start, Py_ssize_t size) {
    if (make_room(column) < 0)
        return FAILED;
    if (size > column->heap_capacity - column->heap_used && grow_heap(column, column->heap_used + size) < 0)
        return FAILED;
    if (size > 0) {
        uint8_t *to = column->heap + column->heap_used;
        if (size <= 8) /* most names and codes are: cheaper than a call */
            for (Py_ssize_t index = 0; index < size; index++)
                to[index] = start[index];
        else
            memcpy(to, start, (size_t)size);
        column->heap_used += size;
    }
    mark_valid(column);
    ((int32_t *)column->data)[++column->length] = (int32_t)column->heap_used;
    return OK;
}

/* End a struct or list, whose children have been appended already. */
static inline int append_struct(Column *column) {
    if (make_room(column) < 0)
        return FAILED;
    mark_valid(column);
    column->length++;
    return OK;
}

static inline int append_list(Column *column, const Column *items) {
    if (make_room(column) < 0)
        return FAILED;
    mark_valid(column);
    ((int32_t *)column->data)[++column->length] = (int32_t)items->length;
    return OK;
}

static int append_null(Column *columns, Column *column) {
    if (make_room(column) < 0)
        return FAILED;
    if (mark_null(column) < 0)
        return FAILED;
    switch (column->kind) {
    case KIND_BOOLEAN:
        put_bit(column->data, column->length, 0);
        break;
    case KIND_BYTES:
    case KIND_LIST:
        ((int32_t *)column->data)[column->length + 1] = ((int32_t *)column->data)[column->length];
        break;
    case KIND_STRUCT:
        for (int32_t index = 0; index < column->count; index++)
            if (append_null(columns, &columns[column->first + index]) < 0)
                return FAILED;
        break;
    case KIND_NULL:
        break;
    default:
        memset(column->data + column->width * column->length, 0, (size_t)column->width);
    }
    column->length++;
    return OK;
}

/* Take back everything behind `length` values. */
static void cut(Column *columns, Column *column, Py_ssize_t length) {
    if (column->length < length)
        return;
    column->length = length;
    if (column->kind == KIND_STRUCT) {
        for (int32_t index = 0; index < column->count; index++)
            cut(columns, &columns[column->first + index], length);
    } else if (column->kind == KIND_BYTES || column->kind == KIND_LIST) {
        int32_t end = column->capacity ? ((int32_t *)column->data)[length] : 0;
        if (column->kind == KIND_BYTES)
            column->heap_used = end;
        else
            cut(columns, &columns[column->first], end);
    }
}

static void discard_column(Column *column) {
    Py_CLEAR(column->validity_bytes);
    Py_CLEAR(column->data_bytes);
    Py_CLEAR(column->heap_bytes);
    column->length = column->capacity = column->heap_used = column->heap_capacity = 0;
    column->has_nulls = 0;
    column->validity = column->data = column->heap = NULL;
}

static Py_ssize_t count_nulls(const uint8_t *validity, Py_ssize_t length) {
    Py_ssize_t valid = 0;
    for (Py_ssize_t byte = 0; byte < length / 8; byte++)
        valid += __builtin_popcount(validity[byte]);
    if (length & 7)
        valid += __builtin_popcount(validity[length / 8] & ((1u << (length & 7)) - 1));
    return length - valid;
}

/* Bits behind the last value are of rows that were taken back. */
static void clear_spare_bits(uint8_t *bits, Py_ssize_t length) {
    if (length & 7)
        bits[length / 8] &= (uint8_t)((1u << (length & 7)) - 1);
}

/* (length, null count, validity or None, data or None, heap or None); the column is as new. */
static PyObject *release_column(Column *column) {
    if (column->capacity == 0 && grow(column) < 0)
        return NULL;
    Py_ssize_t length = column->length, nulls = 0;
    if (column->has_nulls) {
        nulls = count_nulls(column->validity, length);
        clear_spare_bits(column->validity, length);
    }
    column->length_expected = length + length / 8;
    column->heap_expected = column->heap_used + column->heap_used / 8;
    if (column->kind == KIND_BOOLEAN)
        clear_spare_bits(column->data, length);
    if (nulls == 0 || column->kind == KIND_NULL)
        Py_CLEAR(column->validity_bytes);
    else if (_PyBytes_Resize(&column->validity_bytes, (length + 7) / 8) < 0)
        return NULL;
    if (column->data_bytes != NULL && _PyBytes_Resize(&column->data_bytes, data_size(column, length)) < 0)
        return NULL;
    if (column->kind == KIND_BYTES) {
        if (column->heap_bytes == NULL && grow_heap(column, 0) < 0)
            return NULL;
        if (_PyBytes_Resize(&column->heap_bytes, column->heap_used) < 0)
            return NULL;
    }
    PyObject *released = Py_BuildValue("(nnOOO)", length, nulls,
                                       column->validity_bytes ? column->validity_bytes : Py_None,
                                       column->data_bytes ? column->data_bytes : Py_None,
                                       column->heap_bytes ? column->heap_bytes : Py_None);
    discard_column(column);
    return released;
}
