/* Arrow columns -> records: the compiled twin of encode_kernel.py, which says what is asked of both, and whose
 * tests run over both.
 *
 * A program (writing.py) is a tree of nodes over the columns of one batch; for every row it writes the header and
 * then the value. A length that stands in front of what it counts (Protobuf) gets one byte first, and what
 * follows is moved where that was too little.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

/* Version of the interface to the Python module beside this; core/kernels.py has the same number. Raise both with a
   change after which an older kernel or an older module would not do. */
#define KERNEL_VERSION 1

enum { KIND_NULL, KIND_BOOLEAN, KIND_4, KIND_8, KIND_16, KIND_BYTES, KIND_LIST, KIND_STRUCT };

enum {
    PUT_CONSTANT, PUT_NULL_OR, PUT_BOOLEAN, PUT_INT, PUT_FLOAT, PUT_BYTES, PUT_FIXED, PUT_ENUM, PUT_MILLIS,
    PUT_DECIMAL, PUT_DECIMAL_FIXED, PUT_RECORD, PUT_ARRAY, PUT_MAP, PUT_MEMBERS,
    PUT_MESSAGE, PUT_PB_BOOL, PUT_PB_VARINT, PUT_PB_UNSIGNED, PUT_PB_ZIGZAG, PUT_PB_FIXED, PUT_PB_BYTES, PUT_PB_ENUM,
    PUT_PB_TIME, PUT_PB_MESSAGE, PUT_PB_GROUP,
    PUT_OBJECT, PUT_JS_BOOLEAN, PUT_JS_INT, PUT_JS_NUMBER, PUT_JS_STRING, PUT_JS_TEXT, PUT_JS_DATE, PUT_JS_TIME,
    PUT_JS_ARRAY, PUT_JS_MAP,
};

/* What keeps a value from being written; encode_kernel.py has the sentences. */
enum { OK = 0, FAILED = -1, IS_NULL = 1, NO_SYMBOL = 2, WRONG_SIZE = 3, TOO_LARGE = 4, NO_NUMBER = 5 };

enum { IMPLICIT, NULLABLE, REQUIRED, ALWAYS };
#define PRESENCE(node) ((node)->b & 3)
#define IS_REPEATED(node) ((node)->b & 4)
#define IS_PACKED(node) ((node)->b & 16)

typedef struct {
    int32_t op, column, first, count, a, b, c, d;
} Node;

typedef struct {
    int32_t kind, first, count;
    int present;
    int64_t offset;
    Py_buffer validity, data, heap;
} Input;

typedef struct {
    Input *inputs;
    const Node *nodes;
    const int32_t *children;
    PyObject *constants;
    PyObject *bytes;
    uint8_t *start;
    Py_ssize_t used, capacity;
    const Node *failed;
} Encoder;

#define CHILD(encoder, node, index) (&(encoder)->nodes[(encoder)->children[(node)->first + (index)]])
#define TRY(call)                                                                                              \
    do {                                                                                                       \
        int tried = (call);                                                                                    \
        if (tried != OK)                                                                                       \
            return tried;                                                                                      \
    } while (0)

static int put_node(Encoder *encoder, const Node *node, int64_t row);

/* ---- Output -------------------------------------------------------------------------------------------------- */

static int make_room(Encoder *encoder, Py_ssize_t size) {
    if (size <= encoder->capacity - encoder->used)
        return OK;
    Py_ssize_t capacity = encoder->capacity + encoder->capacity / 2;
    if (capacity < encoder->used + size)
        capacity = encoder->used + size;
    if (capacity > INT32_MAX) {
        capacity = INT32_MAX;
        if (size > capacity - encoder->used) {
            PyErr_SetString(PyExc_OverflowError, "a batch of records holds at most 2 GiB");
            return FAILED;
        }
    }
    if (_PyBytes_Resize(&encoder->bytes, capacity) < 0)
        return FAILED;
    encoder->start = (uint8_t *)PyBytes_AS_STRING(encoder->bytes);
    encoder->capacity = capacity;
    return OK;
}

static int put(Encoder *encoder, const void *start, Py_ssize_t size) {
    TRY(make_room(encoder, size));
    memcpy(encoder->start + encoder->used, start, (size_t)size);
    encoder->used += size;
    return OK;
}

static inline int put_byte(Encoder *encoder, int byte) {
    TRY(make_room(encoder, 1));
    encoder->start[encoder->used++] = (uint8_t)byte;
    return OK;
}

static inline int put_varint(Encoder *encoder, uint64_t bits) {
    TRY(make_room(encoder, 10));
    uint8_t *at = encoder->start + encoder->used;
    while (bits > 0x7F) {
        *at++ = (uint8_t)(bits | 0x80);
        bits >>= 7;
    }
    *at++ = (uint8_t)bits;
    encoder->used = at - encoder->start;
    return OK;
}

static inline int put_long(Encoder *encoder, int64_t number) {
    return put_varint(encoder, (uint64_t)number << 1 ^ (uint64_t)(number >> 63));
}

static int put_constant(Encoder *encoder, int32_t number) {
    PyObject *constant = PyList_GET_ITEM(encoder->constants, number);
    return put(encoder, PyBytes_AS_STRING(constant), PyBytes_GET_SIZE(constant));
}

/* ---- Input --------------------------------------------------------------------------------------------------- */

static inline int is_null(const Input *input, int64_t row) {
    if (!input->present || input->kind == KIND_NULL)
        return 1;
    const uint8_t *bits = input->validity.buf;
    int64_t at = input->offset + row;
    return bits != NULL && !(bits[at >> 3] >> (at & 7) & 1);
}

static inline int boolean_at(const Input *input, int64_t row) {
    int64_t at = input->offset + row;
    return ((const uint8_t *)input->data.buf)[at >> 3] >> (at & 7) & 1;
}

static inline int64_t integer_at(const Input *input, int64_t row) {
    if (input->kind == KIND_4)
        return ((const int32_t *)input->data.buf)[input->offset + row];
    return ((const int64_t *)input->data.buf)[input->offset + row];
}

static inline const uint8_t *raw_at(const Input *input, int64_t row, int size) {
    return (const uint8_t *)input->data.buf + size * (input->offset + row);
}

static inline const uint8_t *bytes_at(const Input *input, int64_t row, Py_ssize_t *size) {
    const int32_t *ends = (const int32_t *)input->data.buf + input->offset + row;
    *size = ends[1] - ends[0];
    return (const uint8_t *)input->heap.buf + ends[0];
}

static inline void items_at(const Input *input, int64_t row, int64_t *first, int64_t *end) {
    const int32_t *ends = (const int32_t *)input->data.buf + input->offset + row;
    *first = ends[0];
    *end = ends[1];
}

static int width(const Input *input) { return input->kind == KIND_4 ? 4 : 8; }

/* ---- Avro ---------------------------------------------------------------------------------------------------- */

/* An unscaled decimal as big-endian two's complement, shortest where `size` is 0. */
static int put_decimal(Encoder *encoder, const uint8_t *value, int size) {
    uint8_t big[16];
    for (int index = 0; index < 16; index++)
        big[index] = value[15 - index];
    uint8_t fill = big[0] & 0x80 ? 0xFF : 0;
    int skip = 0;
    while (skip < 15 && big[skip] == fill && (big[skip + 1] & 0x80) == (fill & 0x80))
        skip++;
    if (size == 0) {
        TRY(put_long(encoder, 16 - skip));
        return put(encoder, big + skip, 16 - skip);
    }
    if (16 - skip > size)
        return TOO_LARGE;
    for (int extra = 16; extra < size; extra++)
        TRY(put_byte(encoder, fill));
    int shown = size < 16 ? size : 16;
    return put(encoder, big + 16 - shown, shown);
}

static int put_enum(Encoder *encoder, const Node *node, int64_t row) {
    Py_ssize_t size;
    const uint8_t *text = bytes_at(&encoder->inputs[node->column], row, &size);
    for (int32_t symbol = 0; symbol < node->count; symbol++) {
        PyObject *name = PyList_GET_ITEM(encoder->constants, encoder->children[node->first + symbol]);
        if (PyBytes_GET_SIZE(name) == size && memcmp(PyBytes_AS_STRING(name), text, (size_t)size) == 0)
            return put_long(encoder, symbol);
    }
    return NO_SYMBOL;
}

static int put_items(Encoder *encoder, const Node *node, int64_t row) {
    const Input *list = &encoder->inputs[node->column], *keys = NULL;
    int64_t at, end;
    Py_ssize_t size;
    items_at(list, row, &at, &end);
    if (node->op == PUT_MAP)
        keys = &encoder->inputs[encoder->inputs[list->first].first];
    if (at < end)
        TRY(put_long(encoder, end - at));
    for (; at < end; at++) {
        if (keys != NULL) {
            const uint8_t *key = bytes_at(keys, at, &size);
            TRY(put_long(encoder, size));
            TRY(put(encoder, key, size));
        }
        TRY(put_node(encoder, CHILD(encoder, node, 0), at));
    }
    return put_byte(encoder, 0);
}

static int put_members(Encoder *encoder, const Node *node, int64_t row) {
    for (int32_t index = 0; index < node->count; index++) {
        const Node *member = CHILD(encoder, node, index);
        if (is_null(&encoder->inputs[member->column], row))
            continue;
        TRY(put_long(encoder, member->d));
        return put_node(encoder, member, row);
    }
    return IS_NULL;
}

static int64_t floor_divided(int64_t number, int64_t by) { return number / by - (number % by < 0); }

static int put_avro(Encoder *encoder, const Node *node, int64_t row) {
    const Input *input = &encoder->inputs[node->column];
    Py_ssize_t size;
    const uint8_t *start;
    switch (node->op) {
    case PUT_BOOLEAN:
        return put_byte(encoder, boolean_at(input, row));
    case PUT_INT:
        return put_long(encoder, integer_at(input, row));
    case PUT_MILLIS:
        return put_long(encoder, floor_divided(integer_at(input, row), 1000));
    case PUT_FLOAT:
        return put(encoder, raw_at(input, row, width(input)), width(input));
    case PUT_BYTES:
        start = bytes_at(input, row, &size);
        TRY(put_long(encoder, size));
        return put(encoder, start, size);
    case PUT_FIXED:
        start = bytes_at(input, row, &size);
        return size == node->a ? put(encoder, start, size) : WRONG_SIZE;
    case PUT_ENUM:
        return put_enum(encoder, node, row);
    case PUT_DECIMAL:
        return put_decimal(encoder, raw_at(input, row, 16), 0);
    case PUT_DECIMAL_FIXED:
        return put_decimal(encoder, raw_at(input, row, 16), node->a);
    case PUT_RECORD:
        for (int32_t index = 0; index < node->count; index++)
            TRY(put_node(encoder, CHILD(encoder, node, index), row));
        return OK;
    case PUT_ARRAY:
    case PUT_MAP:
        return put_items(encoder, node, row);
    default:
        return put_members(encoder, node, row);
    }
}

/* ---- Protobuf ------------------------------------------------------------------------------------------------ */

/* A length was left out at `at`, with one byte of room: write it, and move what follows if it needs more. */
static int fill_length(Encoder *encoder, Py_ssize_t at) {
    Py_ssize_t size = encoder->used - at - 1;
    int more = 0;
    for (Py_ssize_t rest = size >> 7; rest > 0; rest >>= 7)
        more++;
    TRY(make_room(encoder, more));
    memmove(encoder->start + at + 1 + more, encoder->start + at + 1, (size_t)size);
    encoder->used = at;
    TRY(put_varint(encoder, (uint64_t)size));
    encoder->used += size;
    return OK;
}

static int put_time(Encoder *encoder, int64_t us, int is_duration) {
    int64_t seconds = is_duration ? us / 1000000 : floor_divided(us, 1000000);
    int64_t nanoseconds = (us - seconds * 1000000) * 1000;
    Py_ssize_t at = encoder->used;
    TRY(put_byte(encoder, 0));
    if (seconds) {
        TRY(put_byte(encoder, 0x08));
        TRY(put_varint(encoder, (uint64_t)seconds));
    }
    if (nanoseconds) {
        TRY(put_byte(encoder, 0x10));
        TRY(put_varint(encoder, (uint64_t)nanoseconds));
    }
    return fill_length(encoder, at);
}

/* The number behind the prefix of unknown names. */
static int unknown_number(PyObject *prefix, const uint8_t *text, Py_ssize_t size, int32_t *number) {
    char digits[16];
    Py_ssize_t length = size - PyBytes_GET_SIZE(prefix);
    if (length < 1 || length > 11 || memcmp(PyBytes_AS_STRING(prefix), text, (size_t)(size - length)) != 0)
        return NO_SYMBOL;
    memcpy(digits, text + size - length, (size_t)length);
    digits[length] = 0;
    const char *first = digits + (digits[0] == '-');
    if (*first == 0 || strlen(first) > 10 || strspn(first, "0123456789") != strlen(first) ||
        (Py_ssize_t)strlen(digits) != length)
        return NO_SYMBOL;
    long long parsed = strtoll(digits, NULL, 10);
    if (parsed < INT32_MIN || parsed > INT32_MAX)
        return NO_SYMBOL;
    *number = (int32_t)parsed;
    return OK;
}

/* The number of an enum's name. children: prefix of unknown ones (-1: none), name, number, ... */
static int enum_number(Encoder *encoder, const Node *node, const Input *input, int64_t row, int32_t *number) {
    Py_ssize_t size;
    const uint8_t *text = bytes_at(input, row, &size);
    const int32_t *table = encoder->children + node->first;
    for (int32_t index = 1; index < node->count; index += 2) {
        PyObject *name = PyList_GET_ITEM(encoder->constants, table[index]);
        if (PyBytes_GET_SIZE(name) == size && memcmp(PyBytes_AS_STRING(name), text, (size_t)size) == 0) {
            *number = table[index + 1];
            return OK;
        }
    }
    if (table[0] < 0)
        return NO_SYMBOL;
    return unknown_number(PyList_GET_ITEM(encoder->constants, table[0]), text, size, number);
}

static int put_message(Encoder *encoder, const Node *node, int64_t row);

/* A value without its tag; `input` is its column, or that of a list's items. */
static int put_pb_value(Encoder *encoder, const Node *node, const Input *input, int64_t row) {
    Py_ssize_t size, at = encoder->used;
    const uint8_t *start;
    int32_t number = 0;
    switch (node->op) {
    case PUT_PB_BOOL:
        return put_byte(encoder, boolean_at(input, row));
    case PUT_PB_VARINT:
        return put_varint(encoder, (uint64_t)integer_at(input, row));
    case PUT_PB_UNSIGNED:
        return put_varint(encoder, (uint32_t)integer_at(input, row));
    case PUT_PB_ZIGZAG:
        return put_long(encoder, integer_at(input, row));
    case PUT_PB_FIXED:
        return put(encoder, raw_at(input, row, width(input)), width(input));
    case PUT_PB_BYTES:
        start = bytes_at(input, row, &size);
        TRY(put_varint(encoder, (uint64_t)size));
        return put(encoder, start, size);
    case PUT_PB_ENUM:
        TRY(enum_number(encoder, node, input, row, &number));
        return put_varint(encoder, (uint64_t)(int64_t)number);
    case PUT_PB_TIME:
        return put_time(encoder, integer_at(input, row), node->d);
    case PUT_PB_GROUP:
        TRY(put_message(encoder, CHILD(encoder, node, 0), row));
        return put_varint(encoder, (uint32_t)node->a + 1); /* the end of a group is the next wire type */
    default:
        TRY(put_byte(encoder, 0));
        TRY(put_message(encoder, CHILD(encoder, node, 0), row));
        return fill_length(encoder, at);
    }
}

static int is_default(Encoder *encoder, const Node *node, const Input *input, int64_t row) {
    Py_ssize_t size;
    int32_t number = 0;
    switch (node->op) {
    case PUT_PB_BOOL:
        return !boolean_at(input, row);
    case PUT_PB_BYTES:
        bytes_at(input, row, &size);
        return size == 0;
    case PUT_PB_ENUM:
        return enum_number(encoder, node, input, row, &number) == OK && number == 0;
    case PUT_PB_MESSAGE:
    case PUT_PB_GROUP:
    case PUT_PB_TIME:
        return 0;
    default: /* -0.0 is not the default: its bits are not 0 */
        return integer_at(input, row) == 0;
    }
}

static int put_repeated(Encoder *encoder, const Node *node, const Input *list, int64_t row) {
    const Input *items = &encoder->inputs[list->first];
    int64_t at, end;
    items_at(list, row, &at, &end);
    if (at == end)
        return OK;
    if (!IS_PACKED(node)) {
        for (; at < end; at++) {
            if (is_null(items, at))
                return IS_NULL;
            TRY(put_varint(encoder, (uint32_t)node->a));
            TRY(put_pb_value(encoder, node, items, at));
        }
        return OK;
    }
    TRY(put_varint(encoder, (uint32_t)node->a));
    Py_ssize_t length = encoder->used;
    TRY(put_byte(encoder, 0));
    for (; at < end; at++) {
        if (is_null(items, at))
            return IS_NULL;
        TRY(put_pb_value(encoder, node, items, at));
    }
    return fill_length(encoder, length);
}

static int put_field(Encoder *encoder, const Node *node, int64_t row) {
    const Input *input = &encoder->inputs[node->column];
    if (is_null(input, row))
        return PRESENCE(node) >= REQUIRED && !IS_REPEATED(node) ? IS_NULL : OK;
    if (IS_REPEATED(node))
        return put_repeated(encoder, node, input, row);
    if (PRESENCE(node) == IMPLICIT && is_default(encoder, node, input, row))
        return OK;
    TRY(put_varint(encoder, (uint32_t)node->a));
    return put_pb_value(encoder, node, input, row);
}

static int put_message(Encoder *encoder, const Node *node, int64_t row) {
    for (int32_t index = 0; index < node->count; index++) {
        const Node *field = CHILD(encoder, node, index);
        int result = put_field(encoder, field, row);
        if (result > 0 && encoder->failed == NULL)
            encoder->failed = field;
        TRY(result);
    }
    return OK;
}

/* ---- JSON ---------------------------------------------------------------------------------------------------- */

static int put_js_string(Encoder *encoder, const uint8_t *at, Py_ssize_t size) {
    static const char digits[] = "0123456789abcdef", escaped[] = "\b\t\n\f\r", letters[] = "btnfr";
    TRY(make_room(encoder, 6 * size + 2));
    uint8_t *out = encoder->start + encoder->used;
    *out++ = '"';
    for (const uint8_t *end = at + size; at < end; at++) {
        const char *found = memchr(escaped, *at, 5);
        if (*at == '"' || *at == '\\') {
            *out++ = '\\';
            *out++ = *at;
        } else if (found != NULL) {
            *out++ = '\\';
            *out++ = (uint8_t)letters[found - escaped];
        } else if (*at < 0x20) {
            memcpy(out, "\\u00", 4);
            out[4] = (uint8_t)digits[*at >> 4];
            out[5] = (uint8_t)digits[*at & 15];
            out += 6;
        } else {
            *out++ = *at;
        }
    }
    *out++ = '"';
    encoder->used = out - encoder->start;
    return OK;
}

static int put_number(Encoder *encoder, const Input *input, int64_t row) {
    double number;
    if (input->kind == KIND_4) {
        float narrow;
        memcpy(&narrow, raw_at(input, row, 4), 4);
        number = narrow;
    } else {
        memcpy(&number, raw_at(input, row, 8), 8);
    }
    if (number != number || number - number != 0)
        return NO_NUMBER;
    char *text = PyOS_double_to_string(number, 'r', 0, Py_DTSF_ADD_DOT_0, NULL);
    if (text == NULL)
        return FAILED;
    int result = put(encoder, text, (Py_ssize_t)strlen(text));
    PyMem_Free(text);
    return result;
}

/* Days since 1970 as year, month, day of the Gregorian calendar: counted in eras of 400 years that begin in
 * March, so that the leap day is the last of its year. */
static int format_date(int64_t days, char *text) {
    int64_t shifted = days + 719468, era = floor_divided(shifted, 146097), day = shifted - era * 146097;
    int64_t year_of_era = (day - day / 1460 + day / 36524 - day / 146096) / 365;
    int64_t day_of_year = day - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t month = (5 * day_of_year + 2) / 153, day_of_month = day_of_year - (153 * month + 2) / 5 + 1;
    int64_t year = year_of_era + era * 400 + (month >= 10);
    if (year < 1 || year > 9999)
        return TOO_LARGE;
    snprintf(text, 32, "%04d-%02d-%02d", (int)year, (int)(month < 10 ? month + 3 : month - 9), (int)day_of_month);
    return OK;
}

static int put_js_time(Encoder *encoder, int64_t us) {
    char text[64];
    int64_t days = floor_divided(us, INT64_C(86400000000)), rest = us - days * INT64_C(86400000000);
    TRY(format_date(days, text));
    int64_t seconds = rest / 1000000, fraction = rest % 1000000;
    snprintf(text + 10, 32, "T%02d:%02d:%02d", (int)(seconds / 3600), (int)(seconds / 60 % 60), (int)(seconds % 60));
    if (fraction)
        snprintf(text + 19, 32, ".%06d", (int)fraction);
    strcat(text, "Z");
    return put_js_string(encoder, (const uint8_t *)text, (Py_ssize_t)strlen(text));
}

/* A value or null. */
static int put_js_item(Encoder *encoder, const Node *node, int64_t row) {
    if (is_null(&encoder->inputs[node->column], row))
        return put(encoder, "null", 4);
    return put_node(encoder, node, row);
}

static int put_js_items(Encoder *encoder, const Node *node, int64_t row) {
    const Input *list = &encoder->inputs[node->column], *keys = NULL;
    int64_t at, end, first;
    Py_ssize_t size;
    items_at(list, row, &first, &end);
    if (node->op == PUT_JS_MAP)
        keys = &encoder->inputs[encoder->inputs[list->first].first];
    TRY(put_byte(encoder, keys == NULL ? '[' : '{'));
    for (at = first; at < end; at++) {
        if (at > first)
            TRY(put_byte(encoder, ','));
        if (keys != NULL) {
            const uint8_t *key = bytes_at(keys, at, &size);
            TRY(put_js_string(encoder, key, size));
            TRY(put_byte(encoder, ':'));
        }
        TRY(put_js_item(encoder, CHILD(encoder, node, 0), at));
    }
    return put_byte(encoder, keys == NULL ? ']' : '}');
}

/* Each field has its name with quotes and colon as constant c; null is left out unless the field is required. */
static int put_object(Encoder *encoder, const Node *node, int64_t row) {
    int more = 0;
    TRY(put_byte(encoder, '{'));
    for (int32_t index = 0; index < node->count; index++) {
        const Node *field = CHILD(encoder, node, index);
        if (is_null(&encoder->inputs[field->column], row)) {
            if (PRESENCE(field) == REQUIRED) {
                encoder->failed = field;
                return IS_NULL;
            }
            if (PRESENCE(field) != ALWAYS)
                continue;
        }
        if (more++)
            TRY(put_byte(encoder, ','));
        TRY(put_constant(encoder, field->c));
        TRY(put_js_item(encoder, field, row));
    }
    return put_byte(encoder, '}');
}

static int put_json(Encoder *encoder, const Node *node, int64_t row) {
    const Input *input = &encoder->inputs[node->column];
    Py_ssize_t size;
    const uint8_t *start;
    char text[32];
    switch (node->op) {
    case PUT_OBJECT:
        return put_object(encoder, node, row);
    case PUT_JS_BOOLEAN:
        return boolean_at(input, row) ? put(encoder, "true", 4) : put(encoder, "false", 5);
    case PUT_JS_INT:
        snprintf(text, sizeof text, "%lld", (long long)integer_at(input, row));
        return put(encoder, text, (Py_ssize_t)strlen(text));
    case PUT_JS_NUMBER:
        return put_number(encoder, input, row);
    case PUT_JS_STRING:
        start = bytes_at(input, row, &size);
        return put_js_string(encoder, start, size);
    case PUT_JS_TEXT:
        start = bytes_at(input, row, &size);
        return put(encoder, start, size);
    case PUT_JS_DATE:
        TRY(format_date(integer_at(input, row), text));
        return put_js_string(encoder, (const uint8_t *)text, 10);
    case PUT_JS_TIME:
        return put_js_time(encoder, integer_at(input, row));
    default:
        return put_js_items(encoder, node, row);
    }
}

/* ---- All ----------------------------------------------------------------------------------------------------- */

static int put_node(Encoder *encoder, const Node *node, int64_t row) {
    int result;
    if (node->op == PUT_CONSTANT)
        return put_constant(encoder, node->a);
    if (node->op == PUT_NULL_OR) {
        int null = is_null(&encoder->inputs[node->column], row);
        if (null)
            return put_long(encoder, node->a);
        if (node->b >= 0) /* else a choice of several, which writes its branch itself */
            TRY(put_long(encoder, node->b));
        return put_node(encoder, CHILD(encoder, node, 0), row);
    }
    if (is_null(&encoder->inputs[node->column], row))
        result = IS_NULL;
    else if (node->op < PUT_MESSAGE)
        result = put_avro(encoder, node, row);
    else if (node->op == PUT_MESSAGE)
        result = put_message(encoder, node, row);
    else
        result = put_json(encoder, node, row);
    if (result > 0 && encoder->failed == NULL)
        encoder->failed = node;
    return result;
}

static int open_input(Input *input, PyObject *column) {
    PyObject *validity, *data, *heap;
    long long offset;
    if (column == Py_None)
        return OK;
    if (!PyArg_ParseTuple(column, "LOOO", &offset, &validity, &data, &heap))
        return FAILED;
    input->offset = offset;
    input->present = 1;
    if ((validity != Py_None && PyObject_GetBuffer(validity, &input->validity, PyBUF_SIMPLE) < 0) ||
        (data != Py_None && PyObject_GetBuffer(data, &input->data, PyBUF_SIMPLE) < 0) ||
        (heap != Py_None && PyObject_GetBuffer(heap, &input->heap, PyBUF_SIMPLE) < 0))
        return FAILED;
    return OK;
}

static PyObject *put_rows(Encoder *encoder, const Node *root, const char *header, Py_ssize_t header_size,
                          Py_ssize_t rows) {
    PyObject *offsets = PyBytes_FromStringAndSize(NULL, 4 * (rows + 1));
    if (offsets == NULL)
        return NULL;
    int32_t *ends = (int32_t *)PyBytes_AS_STRING(offsets);
    ends[0] = 0;
    for (Py_ssize_t row = 0; row < rows; row++) {
        if (!is_null(&encoder->inputs[0], row)) {
            int result = put(encoder, header, header_size);
            if (result == OK)
                result = put_node(encoder, root, row);
            if (result != OK) {
                Py_DECREF(offsets);
                if (result == FAILED)
                    return NULL;
                const Node *failed = encoder->failed == NULL ? root : encoder->failed;
                return Py_BuildValue("(nni)", row, (Py_ssize_t)(failed - encoder->nodes), result);
            }
        }
        ends[row + 1] = (int32_t)encoder->used;
    }
    if (_PyBytes_Resize(&encoder->bytes, encoder->used) < 0) {
        Py_DECREF(offsets);
        return NULL;
    }
    PyObject *result = Py_BuildValue("(NN)", offsets, encoder->bytes);
    encoder->bytes = NULL;
    return result;
}

/* encode(layout, columns, nodes, children, constants, root, header, rows): (offsets, data), or
 * (row, node, reason) of the first value that cannot be written. */
static PyObject *encode(PyObject *module, PyObject *arguments) {
    PyObject *columns, *constants, *result = NULL;
    Py_buffer layout, nodes, children, header;
    Py_ssize_t rows;
    int root;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "y*O!y*y*O!iy*n:encode", &layout, &PyList_Type, &columns, &nodes, &children,
                          &PyList_Type, &constants, &root, &header, &rows))
        return NULL;
    Encoder encoder = {0};
    Py_ssize_t count = layout.len / 12;
    const int32_t *words = layout.buf;
    encoder.nodes = nodes.buf;
    encoder.children = children.buf;
    encoder.constants = constants;
    encoder.inputs = PyMem_Calloc((size_t)count + 1, sizeof(Input));
    encoder.capacity = rows * (header.len + 32) + 64;
    encoder.bytes = PyBytes_FromStringAndSize(NULL, encoder.capacity);
    int opened = encoder.inputs != NULL && encoder.bytes != NULL && count == PyList_GET_SIZE(columns);
    for (Py_ssize_t index = 0; opened && index < count; index++, words += 3) {
        Input *input = &encoder.inputs[index];
        input->kind = words[0];
        input->first = words[1];
        input->count = words[2];
        opened = open_input(input, PyList_GET_ITEM(columns, index)) == OK;
    }
    if (opened) {
        encoder.start = (uint8_t *)PyBytes_AS_STRING(encoder.bytes);
        result = put_rows(&encoder, &encoder.nodes[root], header.buf, header.len, rows);
    } else if (!PyErr_Occurred()) {
        PyErr_SetString(PyExc_ValueError, "these are not the columns of the layout");
    }
    for (Py_ssize_t index = 0; encoder.inputs != NULL && index < count; index++) {
        PyBuffer_Release(&encoder.inputs[index].validity);
        PyBuffer_Release(&encoder.inputs[index].data);
        PyBuffer_Release(&encoder.inputs[index].heap);
    }
    PyMem_Free(encoder.inputs);
    Py_XDECREF(encoder.bytes);
    PyBuffer_Release(&layout);
    PyBuffer_Release(&nodes);
    PyBuffer_Release(&children);
    PyBuffer_Release(&header);
    return result;
}

static PyMethodDef functions[] = {
    {"encode", encode, METH_VARARGS, "Columns of a batch as records."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_encode", "Arrow columns -> records (see encode_kernel.py).", -1, functions,
    NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__encode(void) {
    PyObject *made = PyModule_Create(&module);
    if (made != NULL && PyModule_AddIntMacro(made, KERNEL_VERSION) < 0)
        Py_CLEAR(made);
    return made;
}
