/* The nodes of a program that read or skip Avro. Every position is compared with the end before it is read; no
 * count is believed: items and the values in them are paid for from budgets (program.py), depth is bounded. */

typedef struct {
    const uint8_t *at, *end;
} Cursor;

typedef struct {
    int32_t op, column, first, count, a, b, c, d;
} Node;

typedef struct {
    Node *nodes;
    int32_t *children;
    Node *by_child; /* the node of each child that is one, side by side */
    Py_ssize_t node_count, child_count;
    PyObject *constants; /* a list of bytes */
    int32_t root;        /* -1: every record of this program is bad */
    PyObject *nodes_bytes, *children_bytes;
} Program;

typedef struct {
    int64_t next;  /* of the same field; -1 ends */
    uint64_t value; /* of a varint or fixed number */
    const uint8_t *start;
    Py_ssize_t size;
    int32_t wire;
} Occurrence;

typedef struct {
    Column *columns;
    const Program *program;
    int64_t items_left, values_left;
    Occurrence *seen; /* Protobuf: fields of the messages that are being read */
    Py_ssize_t seen_used, seen_capacity;
    int64_t *heads; /* and where each of their fields begins and ends there */
    Py_ssize_t heads_used, heads_capacity;
} Run;

#define DEPTH_MAX 200

static int run_node(Run *run, Cursor *in, const Node *node, int depth);

#define CHILD(run, node, index) (&(run)->program->by_child[(node)->first + (index)])
#define TRY(call)                                                                                              \
    do {                                                                                                       \
        int tried = (call);                                                                                    \
        if (tried != OK)                                                                                       \
            return tried;                                                                                      \
    } while (0)

static inline int read_bits(Cursor *in, uint64_t *number) {
    if (in->at >= in->end)
        return MALFORMED;
    uint64_t bits = *in->at++;
    if (bits > 0x7F) {
        bits &= 0x7F;
        for (int shift = 7;; shift += 7) {
            if (shift > 63 || in->at >= in->end)
                return MALFORMED;
            uint64_t byte = *in->at++;
            if (shift == 63 && byte > 1)
                return MALFORMED;
            bits |= (byte & 0x7F) << shift;
            if (byte < 0x80)
                break;
        }
    }
    *number = bits;
    return OK;
}

static inline int read_long(Cursor *in, int64_t *number) {
    uint64_t bits;
    TRY(read_bits(in, &bits));
    *number = (int64_t)(bits >> 1) ^ -(int64_t)(bits & 1);
    return OK;
}

static inline int read_int(Cursor *in, int64_t *number) {
    TRY(read_long(in, number));
    return *number < INT32_MIN || *number > INT32_MAX ? MALFORMED : OK;
}

static inline int read_bytes(Cursor *in, const uint8_t **start, Py_ssize_t *size) {
    int64_t length;
    TRY(read_long(in, &length));
    if (length < 0 || length > in->end - in->at)
        return MALFORMED;
    *start = in->at;
    *size = (Py_ssize_t)length;
    in->at += length;
    return OK;
}

/* Pay for one item of a list: the values that it makes, sent or not. */
static inline int pay(Run *run, const Column *items) {
    run->values_left -= items->weight;
    return run->values_left < 0 ? MALFORMED : OK;
}

static inline int step(Cursor *in, int64_t size) {
    if (size > in->end - in->at)
        return MALFORMED;
    in->at += size;
    return OK;
}

static inline int is_utf8(const uint8_t *at, Py_ssize_t size) {
    const uint8_t *end = at + size;
    while (at < end) {
        uint64_t eight;
        if (end - at >= 8) {
            memcpy(&eight, at, 8);
            if (!(eight & 0x8080808080808080u)) {
                at += 8;
                continue;
            }
        }
        uint8_t lead = *at++;
        if (lead < 0x80)
            continue;
        int more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
        if (lead < 0xC2 || lead > 0xF4 || end - at < more)
            return 0;
        uint8_t next = *at;
        if ((lead == 0xE0 && next < 0xA0) || (lead == 0xED && next > 0x9F) || (lead == 0xF0 && next < 0x90) ||
            (lead == 0xF4 && next > 0x8F))
            return 0;
        for (; more > 0; more--)
            if ((*at++ & 0xC0) != 0x80)
                return 0;
    }
    return 1;
}

static int append_any_string(Column *column, const uint8_t *start, Py_ssize_t size) {
    return is_utf8(start, size) ? append_bytes(column, start, size) : MALFORMED;
}

/* 1 to 8 bytes as one word, the first one lowest; those of longer texts are read twice where the reads overlap. */
static inline uint64_t word_of(const uint8_t *start, Py_ssize_t size) {
    if (size < 4)
        return start[0] | (uint64_t)start[size / 2] << 8 * (size / 2) | (uint64_t)start[size - 1] << 8 * (size - 1);
    uint32_t first, last;
    memcpy(&first, start, 4);
    memcpy(&last, start + size - 4, 4);
    return first | (uint64_t)last << 8 * (size - 4);
}

/* Most names and codes are short and ASCII: checked and written as one word. What is written behind the text is
 * overwritten by the next one, or cut off in the end. */
static inline int append_string(Column *column, const uint8_t *start, Py_ssize_t size) {
    if (size < 1 || size > 8 || column->heap_capacity - column->heap_used < 8)
        return append_any_string(column, start, size);
    uint64_t eight = word_of(start, size);
    if (eight & 0x8080808080808080u)
        return append_any_string(column, start, size);
    TRY(make_room(column));
    memcpy(column->heap + column->heap_used, &eight, 8);
    column->heap_used += size;
    mark_valid(column);
    ((int32_t *)column->data)[++column->length] = (int32_t)column->heap_used;
    return OK;
}

/* Big-endian two's complement of any length -> 128 bits, if its digits are no more than `precision`. */
static int append_decimal(Column *column, const uint8_t *start, Py_ssize_t size, int32_t precision) {
    if (size == 0)
        return MALFORMED;
    uint8_t fill = start[0] >= 0x80 ? 0xFF : 0;
    while (size > 16) {
        if (*start != fill || (size == 17 && (start[1] & 0x80) != (fill & 0x80)))
            return MALFORMED;
        start++;
        size--;
    }
    unsigned __int128 bits = fill ? ~(unsigned __int128)0 : 0, limit = 1;
    for (Py_ssize_t index = 0; index < size; index++)
        bits = bits << 8 | start[index];
    for (int32_t digit = 0; digit < precision; digit++)
        limit *= 10;
    if ((fill ? -bits : bits) >= limit)
        return MALFORMED;
    return append_16(column, (const uint8_t *)&bits);
}

/* The next block's item count (0: no more), and its size in bytes where it is given (else -1). */
static int read_block(Run *run, Cursor *in, int64_t *count, int64_t *size) {
    TRY(read_long(in, count));
    *size = -1;
    if (*count < 0) {
        if (*count == INT64_MIN)
            return MALFORMED;
        *count = -*count;
        TRY(read_long(in, size));
        if (*size < 0 || *size > in->end - in->at)
            return MALFORMED;
    }
    if (*count > run->items_left)
        return MALFORMED;
    run->items_left -= *count;
    return OK;
}

static int read_array(Run *run, Cursor *in, const Node *node, int depth) {
    Column *column = &run->columns[node->column], *items = &run->columns[column->first];
    const Node *item = CHILD(run, node, 0);
    int64_t count, size;
    for (;;) {
        TRY(read_block(run, in, &count, &size));
        if (count == 0)
            return append_list(column, items);
        for (; count > 0; count--) {
            TRY(pay(run, items));
            TRY(run_node(run, in, item, depth + 1));
        }
    }
}

static int read_map(Run *run, Cursor *in, const Node *node, int depth) {
    Column *column = &run->columns[node->column], *entries = &run->columns[column->first];
    Column *keys = &run->columns[entries->first];
    const Node *item = CHILD(run, node, 0);
    int64_t count, size;
    for (;;) {
        TRY(read_block(run, in, &count, &size));
        if (count == 0)
            return append_list(column, entries);
        for (; count > 0; count--) {
            const uint8_t *start;
            Py_ssize_t length;
            TRY(pay(run, entries));
            TRY(read_bytes(in, &start, &length));
            TRY(append_string(keys, start, length));
            TRY(run_node(run, in, item, depth + 1));
            TRY(append_struct(entries));
        }
    }
}

static int read_union(Run *run, Cursor *in, const Node *node, int depth) {
    int64_t branch;
    TRY(read_long(in, &branch));
    if (branch < 0 || branch >= node->count)
        return MALFORMED;
    return run_node(run, in, CHILD(run, node, branch), depth);
}

static int read_member(Run *run, Cursor *in, const Node *node, int depth) {
    Column *column = &run->columns[node->column];
    for (int32_t index = 0; index < column->count; index++) {
        if (index == node->a)
            TRY(run_node(run, in, CHILD(run, node, 0), depth + 1));
        else
            TRY(append_null(run->columns, &run->columns[column->first + index]));
    }
    return append_struct(column);
}

static int read_constant(Run *run, const Node *node, int depth) {
    PyObject *constant = PyList_GET_ITEM(run->program->constants, node->a);
    Cursor in = {(const uint8_t *)PyBytes_AS_STRING(constant), NULL};
    int64_t items_left = run->items_left;
    in.end = in.at + PyBytes_GET_SIZE(constant);
    run->items_left = INT64_MAX; /* the schema's own bytes */
    int result = run_node(run, &in, CHILD(run, node, 0), depth + 1);
    run->items_left = items_left;
    return result;
}

static int read_enum(Run *run, Cursor *in, const Node *node) {
    int64_t symbol;
    TRY(read_int(in, &symbol));
    if (symbol < 0 || symbol >= node->count)
        return MALFORMED;
    int32_t number = run->program->children[node->first + symbol];
    if (number < 0)
        return MALFORMED;
    PyObject *text = PyList_GET_ITEM(run->program->constants, number);
    return append_bytes(&run->columns[node->column], (const uint8_t *)PyBytes_AS_STRING(text),
                        PyBytes_GET_SIZE(text));
}

static int skip_blocks(Run *run, Cursor *in, const Node *node, int depth) {
    int64_t count, size;
    for (;;) {
        TRY(read_block(run, in, &count, &size));
        if (count == 0)
            return OK;
        if (size >= 0) {
            in->at += size;
            continue;
        }
        for (; count > 0; count--) {
            const uint8_t *start;
            Py_ssize_t length;
            if (node->op == OP_SKIP_MAP)
                TRY(read_bytes(in, &start, &length));
            TRY(run_node(run, in, CHILD(run, node, 0), depth + 1));
        }
    }
}

static inline int append_millis(Column *column, int64_t number) {
    if (number > INT64_MAX / 1000 || number < INT64_MIN / 1000)
        return MALFORMED;
    return append_8(column, (uint64_t)(number * 1000));
}

#define NOT_PLAIN 2

/* The null of a nullable number or text: `append_null` of these kinds. */
static inline int append_plain_null(Column *column) {
    if (column->kind != KIND_8 && column->kind != KIND_BYTES)
        return NOT_PLAIN;
    TRY(make_room(column));
    TRY(mark_null(column));
    if (column->kind == KIND_8)
        ((uint64_t *)column->data)[column->length] = 0;
    else
        ((int32_t *)column->data)[column->length + 1] = ((int32_t *)column->data)[column->length];
    column->length++;
    return OK;
}

/* A value of one of the types that most fields have, without a call; NOT_PLAIN, and nothing is read, if it is of
 * another. */
static inline int read_plain(const Node *node, Column *column, Cursor *in) {
    const uint8_t *start = in->at;
    Py_ssize_t size;
    int64_t number;
    switch (node->op) {
    case OP_NULL:
        return append_plain_null(column);
    case OP_BOOLEAN:
        if (in->at >= in->end || *in->at > 1)
            return MALFORMED;
        return append_boolean(column, *in->at++);
    case OP_INT:
        TRY(read_int(in, &number));
        return append_4(column, (uint32_t)number);
    case OP_LONG:
        TRY(read_long(in, &number));
        return append_8(column, (uint64_t)number);
    case OP_MILLIS:
        TRY(read_long(in, &number));
        return append_millis(column, number);
    case OP_DOUBLE: {
        uint64_t bits;
        TRY(step(in, 8));
        memcpy(&bits, start, 8);
        return append_8(column, bits);
    }
    case OP_STRING:
        TRY(read_bytes(in, &start, &size));
        return append_string(column, start, size);
    case OP_SKIP_VARINT:
        return read_long(in, &number);
    case OP_SKIP_BYTES:
        return read_bytes(in, &start, &size);
    default:
        return NOT_PLAIN;
    }
}

/* The fields of a record, each one level deeper than the record, and a union's branch two. A call of run_node and
 * its checks cost as much as reading a number, so plain values, and plain branches of unions, are read here, with
 * the cursor in registers. */
static int read_record(Run *run, Cursor *in, const Node *record, int depth) {
    const Node *fields = CHILD(run, record, 0);
    Column *columns = run->columns;
    Cursor own = *in;
    for (int32_t index = 0; index < record->count; index++) {
        const Node *node = &fields[index], *plain = node;
        const uint8_t *start = own.at;
        if (node->op == OP_UNION && own.at < own.end && !(*own.at & 0x81) && *own.at >> 1 < node->count)
            plain = CHILD(run, node, *own.at++ >> 1);
        int result = NOT_PLAIN;
        if (depth < DEPTH_MAX - 1)
            result = read_plain(plain, &columns[plain->column < 0 ? 0 : plain->column], &own);
        if (result == NOT_PLAIN) {
            in->at = start;
            result = run_node(run, in, node, depth + 1);
            own.at = in->at;
        }
        if (result != OK)
            return result;
    }
    *in = own;
    return append_struct(&columns[record->column]);
}

static int run_avro(Run *run, Cursor *in, const Node *node, int depth) {
    Column *column = node->column < 0 ? NULL : &run->columns[node->column];
    const uint8_t *start;
    Py_ssize_t size;
    int64_t number;
    switch (node->op) {
    case OP_NULL:
        return append_null(run->columns, column);
    case OP_BOOLEAN:
        if (in->at >= in->end || *in->at > 1)
            return MALFORMED;
        return append_boolean(column, *in->at++);
    case OP_INT:
        TRY(read_int(in, &number));
        return append_4(column, (uint32_t)number);
    case OP_INT_AS_LONG:
        TRY(read_int(in, &number));
        return append_8(column, (uint64_t)number);
    case OP_INT_AS_FLOAT:
        TRY(read_int(in, &number));
        return append_float(column, (float)number);
    case OP_INT_AS_DOUBLE:
        TRY(read_int(in, &number));
        return append_double(column, (double)number);
    case OP_LONG:
        TRY(read_long(in, &number));
        return append_8(column, (uint64_t)number);
    case OP_LONG_AS_FLOAT:
        TRY(read_long(in, &number));
        return append_float(column, (float)number);
    case OP_LONG_AS_DOUBLE:
        TRY(read_long(in, &number));
        return append_double(column, (double)number);
    case OP_MILLIS:
        TRY(read_long(in, &number));
        return append_millis(column, number);
    case OP_FLOAT:
    case OP_FLOAT_AS_DOUBLE: {
        float value;
        start = in->at;
        TRY(step(in, 4));
        memcpy(&value, start, 4);
        return node->op == OP_FLOAT ? append_float(column, value) : append_double(column, (double)value);
    }
    case OP_DOUBLE: {
        uint64_t bits;
        start = in->at;
        TRY(step(in, 8));
        memcpy(&bits, start, 8);
        return append_8(column, bits);
    }
    case OP_BYTES:
        TRY(read_bytes(in, &start, &size));
        return append_bytes(column, start, size);
    case OP_STRING:
        TRY(read_bytes(in, &start, &size));
        return append_string(column, start, size);
    case OP_FIXED:
        start = in->at;
        TRY(step(in, node->a));
        return append_bytes(column, start, node->a);
    case OP_DECIMAL:
        TRY(read_bytes(in, &start, &size));
        return append_decimal(column, start, size, node->b);
    case OP_DECIMAL_FIXED:
        start = in->at;
        TRY(step(in, node->a));
        return append_decimal(column, start, node->a, node->b);
    case OP_ENUM:
        return read_enum(run, in, node);
    case OP_RECORD:
        return read_record(run, in, node, depth);
    case OP_ARRAY:
        return read_array(run, in, node, depth);
    case OP_MAP:
        return read_map(run, in, node, depth);
    case OP_UNION:
    case OP_SKIP_UNION:
        return read_union(run, in, node, depth + 1);
    case OP_MEMBER:
        return read_member(run, in, node, depth);
    case OP_CONSTANT:
        return read_constant(run, node, depth);
    case OP_SKIP_VARINT:
        return read_long(in, &number);
    case OP_SKIP_BYTES:
        return read_bytes(in, &start, &size);
    case OP_SKIP_FIXED:
        return step(in, node->a);
    case OP_SKIP_ARRAY:
    case OP_SKIP_MAP:
        return skip_blocks(run, in, node, depth);
    case OP_SKIP_RECORD:
        for (int32_t index = 0; index < node->count; index++)
            TRY(run_node(run, in, CHILD(run, node, index), depth + 1));
        return OK;
    default:
        return MALFORMED;
    }
}
