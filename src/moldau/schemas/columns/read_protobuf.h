/* The nodes of a program that read Protobuf.
 *
 * Fields come in any order, more than once, or not at all; the last of a single field counts, and single
 * messages are merged. So a message is read twice: first every occurrence of a field that is wanted is put on a
 * stack, linked to the earlier ones of the field; then the fields are appended to their columns one by one. A
 * message that came in several pieces is the same loop over its pieces.
 *
 *     seen    ... | occurrence | occurrence | ...             heads    ... | per field: first, last | per oneof: field
 */

enum { PRESENCE_IMPLICIT, PRESENCE_NULL, PRESENCE_REQUIRED, PRESENCE_ALWAYS };
#define PRESENCE(node) ((node)->b & 3)
#define IS_REPEATED(node) ((node)->b & 4)
#define IS_CLOSED(node) ((node)->b & 8) /* an enum: unknown numbers are unknown fields */
#define ONEOF(node) ((node)->d)         /* 0: none */
#define GROUP_DEPTH_MAX 100

enum { WIRE_VARINT, WIRE_64, WIRE_BYTES, WIRE_GROUP, WIRE_GROUP_END, WIRE_32 };

static int wire_of(int32_t op) {
    switch (op) {
    case OP_PB_FIXED32:
        return WIRE_32;
    case OP_PB_FIXED64:
        return WIRE_64;
    case OP_PB_STRING:
    case OP_PB_BYTES:
    case OP_PB_TIMESTAMP:
    case OP_PB_MESSAGE:
        return WIRE_BYTES;
    case OP_PB_GROUP:
        return WIRE_GROUP;
    default:
        return WIRE_VARINT;
    }
}

static inline int is_message(int32_t op) {
    return op == OP_PB_MESSAGE || op == OP_PB_GROUP || op == OP_PB_TIMESTAMP;
}

static inline int read_tag(Cursor *in, uint32_t *number, int *wire) {
    uint64_t tag;
    TRY(read_bits(in, &tag));
    if (tag > UINT32_MAX || tag < 8)
        return MALFORMED;
    *number = (uint32_t)(tag >> 3);
    *wire = (int)(tag & 7);
    return OK;
}

/* The content of a field behind its tag; a group ends with the tag that matches. */
static int read_content(Cursor *in, uint32_t number, int wire, Occurrence *found, int depth) {
    found->wire = wire;
    found->start = in->at;
    switch (wire) {
    case WIRE_VARINT:
        return read_bits(in, &found->value);
    case WIRE_64:
        TRY(step(in, 8));
        memcpy(&found->value, found->start, 8);
        return OK;
    case WIRE_32:
        TRY(step(in, 4));
        found->value = 0;
        memcpy(&found->value, found->start, 4);
        return OK;
    case WIRE_BYTES: {
        uint64_t size;
        TRY(read_bits(in, &size));
        if (size > (uint64_t)(in->end - in->at))
            return MALFORMED;
        found->start = in->at;
        found->size = (Py_ssize_t)size;
        in->at += size;
        return OK;
    }
    case WIRE_GROUP:
        for (;;) {
            Occurrence inner;
            uint32_t inner_number;
            int inner_wire;
            const uint8_t *before = in->at;
            TRY(read_tag(in, &inner_number, &inner_wire));
            if (inner_wire == WIRE_GROUP_END) {
                found->size = before - found->start;
                return inner_number == number ? OK : MALFORMED;
            }
            if (depth >= GROUP_DEPTH_MAX)
                return MALFORMED;
            TRY(read_content(in, inner_number, inner_wire, &inner, depth + 1));
        }
    default:
        return MALFORMED;
    }
}

/* Which child has this field number; -1: none. Numbers without gaps are counted, as the node says (b); else most
 * fields come in the order of their numbers. */
static inline int32_t find_field(Run *run, const Node *node, uint32_t number, int32_t guess) {
    if (node->b) {
        uint32_t index = node->count ? number - (uint32_t)CHILD(run, node, 0)->a : 0;
        return index < (uint32_t)node->count ? (int32_t)index : -1;
    }
    if (guess < node->count && (uint32_t)CHILD(run, node, guess)->a == number)
        return guess;
    int32_t low = 0, high = node->count - 1;
    while (low <= high) {
        int32_t middle = (low + high) / 2;
        uint32_t at = (uint32_t)CHILD(run, node, middle)->a;
        if (at == number)
            return middle;
        if (at < number)
            low = middle + 1;
        else
            high = middle - 1;
    }
    return -1;
}

/* The name of an enum's number as a constant; -1: it has none. children: prefix, then number, name, ... */
static int32_t enum_name(Run *run, const Node *node, int32_t number) {
    const int32_t *table = run->program->children + node->first + 1;
    int32_t low = 0, high = (node->count - 1) / 2 - 1;
    if (number >= 0 && number <= high && table[2 * number] == number)
        return table[2 * number + 1];
    while (low <= high) {
        int32_t middle = (low + high) / 2;
        if (table[2 * middle] == number)
            return table[2 * middle + 1];
        if (table[2 * middle] < number)
            low = middle + 1;
        else
            high = middle - 1;
    }
    return -1;
}

static int grow_seen(Run *run) {
    Py_ssize_t capacity = run->seen_capacity ? run->seen_capacity * 2 : 64;
    Occurrence *grown = PyMem_Realloc(run->seen, sizeof(Occurrence) * (size_t)capacity);
    if (grown == NULL) {
        PyErr_NoMemory();
        return FAILED;
    }
    run->seen = grown;
    run->seen_capacity = capacity;
    return OK;
}

static int grow_heads(Run *run, Py_ssize_t more) {
    if (run->heads_used + more <= run->heads_capacity)
        return OK;
    Py_ssize_t capacity = 2 * run->heads_capacity + more;
    int64_t *grown = PyMem_Realloc(run->heads, sizeof(int64_t) * (size_t)capacity);
    if (grown == NULL) {
        PyErr_NoMemory();
        return FAILED;
    }
    run->heads = grown;
    run->heads_capacity = capacity;
    return OK;
}

/* Remember one occurrence of field `index`. */
static int note(Run *run, const Node *node, Py_ssize_t frame, int32_t index, const Occurrence *found) {
    const Node *field = CHILD(run, node, index);
    int64_t *heads = run->heads + frame;
    if (ONEOF(field)) {
        int64_t *current = &heads[2 * node->count + ONEOF(field) - 1];
        if (*current >= 0 && *current != index)
            heads[2 * *current] = -1;
        *current = index;
    }
    if (heads[2 * index] >= 0 && !IS_REPEATED(field) && !is_message(field->op)) {
        int64_t next = run->seen[heads[2 * index]].next;
        run->seen[heads[2 * index]] = *found;
        run->seen[heads[2 * index]].next = next;
        return OK;
    }
    if (run->seen_used == run->seen_capacity)
        TRY(grow_seen(run));
    Py_ssize_t place = run->seen_used++;
    run->seen[place] = *found;
    run->seen[place].next = -1;
    if (heads[2 * index] < 0)
        heads[2 * index] = place;
    else
        run->seen[heads[2 * index + 1]].next = place;
    heads[2 * index + 1] = place;
    return OK;
}

/* Find the wanted fields of one piece of a message. */
static int scan(Run *run, const Node *node, Py_ssize_t frame, Cursor in) {
    int32_t guess = 0;
    while (in.at < in.end) {
        uint32_t number;
        int wire;
        Occurrence found;
        TRY(read_tag(&in, &number, &wire));
        TRY(read_content(&in, number, wire, &found, 0));
        int32_t index = find_field(run, node, number, guess);
        if (index < 0)
            continue;
        const Node *field = CHILD(run, node, index);
        int expected = wire_of(field->op);
        guess = IS_REPEATED(field) ? index : index + 1;
        int packed = IS_REPEATED(field) && wire == WIRE_BYTES && expected != WIRE_GROUP;
        if (wire != expected && !packed)
            continue;
        if (IS_CLOSED(field) && !IS_REPEATED(field) && enum_name(run, field, (int32_t)found.value) < 0)
            continue;
        TRY(note(run, node, frame, index, &found));
    }
    return OK;
}

static int append_enum(Run *run, const Node *field, int32_t number) {
    Column *column = &run->columns[field->column];
    if (IS_REPEATED(field))
        column = &run->columns[column->first];
    int32_t name = enum_name(run, field, number);
    if (name < 0 && IS_CLOSED(field))
        return OK;
    int32_t constant = name < 0 ? run->program->children[field->first] : name;
    PyObject *text = PyList_GET_ITEM(run->program->constants, constant);
    if (name >= 0)
        return append_bytes(column, (const uint8_t *)PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text));
    PyObject *unknown = PyBytes_FromFormat("%s%d", PyBytes_AS_STRING(text), (int)number);
    if (unknown == NULL)
        return FAILED;
    int result = append_bytes(column, (const uint8_t *)PyBytes_AS_STRING(unknown), PyBytes_GET_SIZE(unknown));
    Py_DECREF(unknown);
    return result;
}

static int append_scalar(Run *run, const Node *field, Column *column, const Occurrence *found) {
    uint64_t value = found->value;
    switch (field->op) {
    case OP_PB_BOOL:
        return append_boolean(column, value != 0);
    case OP_PB_INT32:
    case OP_PB_FIXED32:
        return append_4(column, (uint32_t)value);
    case OP_PB_SINT32:
        return append_4(column, ((uint32_t)value >> 1) ^ -((uint32_t)value & 1));
    case OP_PB_INT64:
    case OP_PB_FIXED64:
        return append_8(column, value);
    case OP_PB_SINT64:
        return append_8(column, (value >> 1) ^ -(value & 1));
    case OP_PB_STRING:
        return append_string(column, found->start, found->size);
    case OP_PB_BYTES:
        return append_bytes(column, found->start, found->size);
    default:
        return append_enum(run, field, (int32_t)value);
    }
}

static int append_packed(Run *run, const Node *field, Column *items, const Occurrence *found) {
    Cursor in = {found->start, found->start + found->size};
    int wire = wire_of(field->op);
    while (in.at < in.end) {
        Occurrence one;
        TRY(read_content(&in, 0, wire, &one, 0));
        TRY(append_scalar(run, field, items, &one));
    }
    return OK;
}

/* google.protobuf.Timestamp and Duration: seconds (1) and nanoseconds (2), where they come. */
static int read_time(Cursor in, int64_t *seconds, int32_t *nanoseconds) {
    while (in.at < in.end) {
        uint32_t number;
        int wire;
        Occurrence found;
        TRY(read_tag(&in, &number, &wire));
        TRY(read_content(&in, number, wire, &found, 0));
        if (number == 1 && wire == WIRE_VARINT)
            *seconds = (int64_t)found.value;
        else if (number == 2 && wire == WIRE_VARINT)
            *nanoseconds = (int32_t)found.value;
    }
    return OK;
}

static int append_us(Column *column, int64_t seconds, int32_t nanoseconds) {
    int64_t us;
    if (__builtin_mul_overflow(seconds, (int64_t)1000000, &us) ||
        __builtin_add_overflow(us, (int64_t)(nanoseconds / 1000), &us))
        return MALFORMED;
    return append_8(column, (uint64_t)us);
}

/* `only`: the later pieces are not part of it. */
static int append_timestamp(Run *run, Column *column, int64_t place, int only) {
    int64_t seconds = 0;
    int32_t nanoseconds = 0;
    for (; place >= 0; place = only ? -1 : run->seen[place].next) {
        Cursor in = {run->seen[place].start, run->seen[place].start + run->seen[place].size};
        TRY(read_time(in, &seconds, &nanoseconds));
    }
    return append_us(column, seconds, nanoseconds);
}

static int read_message(Run *run, const Node *node, int64_t place, int only, int depth);

static int append_repeated(Run *run, const Node *field, int64_t place, int depth) {
    Column *column = &run->columns[field->column], *items = &run->columns[column->first];
    for (; place >= 0; place = run->seen[place].next) {
        Occurrence found = run->seen[place];
        if (field->op == OP_PB_TIMESTAMP)
            TRY(append_timestamp(run, items, place, 1));
        else if (is_message(field->op)) {
            TRY(pay(run, items));
            TRY(read_message(run, CHILD(run, field, 0), place, 1, depth + 1));
        }
        else if (found.wire == WIRE_BYTES && wire_of(field->op) != WIRE_BYTES)
            TRY(append_packed(run, field, items, &found));
        else
            TRY(append_scalar(run, field, items, &found));
    }
    return append_list(column, items);
}

static int append_absent(Run *run, const Node *field, int depth) {
    Column *column = &run->columns[field->column];
    Occurrence found = {-1, 0, (const uint8_t *)"", 0, 0};
    if (PRESENCE(field) == PRESENCE_REQUIRED)
        return MALFORMED;
    if (field->c >= 0) {
        PyObject *constant = PyList_GET_ITEM(run->program->constants, field->c);
        const uint8_t *start = (const uint8_t *)PyBytes_AS_STRING(constant);
        int wire = wire_of(field->op);
        found.start = start;
        found.size = PyBytes_GET_SIZE(constant);
        if (wire != WIRE_BYTES) {
            Cursor in = {start, start + found.size};
            TRY(read_content(&in, 0, wire, &found, 0));
        }
    } else if (PRESENCE(field) == PRESENCE_NULL) {
        return append_null(run->columns, column);
    }
    if (field->op == OP_PB_TIMESTAMP)
        return append_8(column, 0);
    if (is_message(field->op))
        return read_message(run, CHILD(run, field, 0), -1, 1, depth + 1);
    return append_scalar(run, field, column, &found);
}

/* Read the message whose pieces begin at `place` of the stack (-1: a message without fields). */
static int read_message(Run *run, const Node *node, int64_t place, int only, int depth) {
    if (depth > DEPTH_MAX)
        return MALFORMED;
    Py_ssize_t frame = run->heads_used, seen_before = run->seen_used, size = 2 * node->count + node->a;
    TRY(grow_heads(run, size));
    run->heads_used += size;
    memset(run->heads + frame, 0xFF, sizeof(int64_t) * (size_t)size); /* -1 */
    for (; place >= 0; place = only ? -1 : run->seen[place].next) {
        Cursor in = {run->seen[place].start, run->seen[place].start + run->seen[place].size};
        TRY(scan(run, node, frame, in));
    }
    for (int32_t index = 0; index < node->count; index++) {
        const Node *field = CHILD(run, node, index);
        int64_t head = run->heads[frame + 2 * index];
        Column *column = &run->columns[field->column];
        if (IS_REPEATED(field))
            TRY(append_repeated(run, field, head, depth));
        else if (head < 0)
            TRY(append_absent(run, field, depth));
        else if (field->op == OP_PB_TIMESTAMP)
            TRY(append_timestamp(run, column, head, 0));
        else if (is_message(field->op))
            TRY(read_message(run, CHILD(run, field, 0), head, 0, depth + 1));
        else {
            Occurrence found = run->seen[head];
            TRY(append_scalar(run, field, column, &found));
        }
    }
    run->heads_used = frame;
    run->seen_used = seen_before;
    return append_struct(&run->columns[node->column]);
}

/* ---- In one go ----------------------------------------------------------------------------------------
 *
 * Nearly all programs write the fields of a message once, in the order of their numbers. Such a message needs no
 * stack: a field is appended when it comes, and those in between are absent. Whatever is otherwise, or wrong
 * (what is wrong may be overwritten later), is UNUSUAL: the row is taken back and read as above. */

enum { UNUSUAL = 2 };

static int stream_message(Run *run, const Node *node, Cursor in, int depth);

static int stream_value(Run *run, const Node *field, Column *column, const Occurrence *found, int depth) {
    if (field->op != OP_PB_TIMESTAMP && field->op != OP_PB_MESSAGE)
        return append_scalar(run, field, column, found); /* of numbers `found` has no place and size */
    Cursor in = {found->start, found->start + found->size};
    int64_t seconds = 0;
    int32_t nanoseconds = 0;
    if (field->op == OP_PB_MESSAGE)
        return stream_message(run, CHILD(run, field, 0), in, depth + 1);
    TRY(read_time(in, &seconds, &nanoseconds));
    return append_us(column, seconds, nanoseconds);
}

/* All items that follow each other; `found` is the first. */
static int stream_items(Run *run, const Node *field, Cursor *in, Occurrence *found, uint32_t number, int depth) {
    Column *column = &run->columns[field->column], *items = &run->columns[column->first];
    for (;;) {
        if (found->wire == WIRE_BYTES && wire_of(field->op) != WIRE_BYTES)
            TRY(append_packed(run, field, items, found));
        else {
            if (field->op == OP_PB_MESSAGE)
                TRY(pay(run, items));
            TRY(stream_value(run, field, items, found, depth));
        }
        const uint8_t *before = in->at;
        uint32_t next_number = 0;
        int wire = 0;
        if (in->at < in->end)
            TRY(read_tag(in, &next_number, &wire));
        if (next_number != number || wire != found->wire) {
            in->at = before;
            return append_list(column, items);
        }
        TRY(read_content(in, number, wire, found, 0));
    }
}

static int stream_absent(Run *run, const Node *field, int depth) {
    Column *column = &run->columns[field->column];
    if (IS_REPEATED(field))
        return append_list(column, &run->columns[column->first]);
    return append_absent(run, field, depth);
}

/* The most frequent scalars, without a detour; UNUSUAL, with nothing read: any other. */
static inline int stream_scalar(Column *column, int32_t op, int wire, Cursor *in) {
    uint64_t bits;
    switch (op) {
    case OP_PB_STRING:
        if (wire != WIRE_BYTES)
            return UNUSUAL;
        TRY(read_bits(in, &bits));
        if (bits > (uint64_t)(in->end - in->at))
            return MALFORMED;
        TRY(append_string(column, in->at, (Py_ssize_t)bits));
        in->at += bits;
        return OK;
    case OP_PB_INT64:
        if (wire != WIRE_VARINT)
            return UNUSUAL;
        TRY(read_bits(in, &bits));
        return append_8(column, bits);
    case OP_PB_INT32:
        if (wire != WIRE_VARINT)
            return UNUSUAL;
        TRY(read_bits(in, &bits));
        return append_4(column, (uint32_t)bits);
    case OP_PB_FIXED64:
        if (wire != WIRE_64 || in->end - in->at < 8)
            return UNUSUAL;
        memcpy(&bits, in->at, 8);
        in->at += 8;
        return append_8(column, bits);
    default:
        return UNUSUAL;
    }
}

static int stream_message(Run *run, const Node *node, Cursor in, int depth) {
    int32_t next = 0; /* the first field that has not been appended */
    const Node *fields = CHILD(run, node, 0);
    Column *columns = run->columns;
    if (depth > DEPTH_MAX)
        return MALFORMED;
    while (in.at < in.end) {
        uint32_t number;
        int wire;
        Occurrence found;
        TRY(read_tag(&in, &number, &wire));
        int32_t index = find_field(run, node, number, next);
        if (index == next && !fields[index].d && !IS_REPEATED(&fields[index])) {
            int result = stream_scalar(&columns[fields[index].column], fields[index].op, wire, &in);
            next += result == OK;
            if (result == OK)
                continue;
            if (result != UNUSUAL)
                return result;
        }
        TRY(read_content(&in, number, wire, &found, 0));
        if (index < 0)
            continue;
        const Node *field = CHILD(run, node, index);
        int expected = wire_of(field->op);
        if (index < next || ONEOF(field) || IS_CLOSED(field) || expected == WIRE_GROUP ||
            (wire != expected && !(IS_REPEATED(field) && wire == WIRE_BYTES)))
            return UNUSUAL;
        for (; next < index; next++)
            TRY(stream_absent(run, CHILD(run, node, next), depth));
        if (IS_REPEATED(field))
            TRY(stream_items(run, field, &in, &found, number, depth));
        else
            TRY(stream_value(run, field, &run->columns[field->column], &found, depth));
        next = index + 1;
    }
    for (; next < node->count; next++)
        TRY(stream_absent(run, CHILD(run, node, next), depth));
    return append_struct(&run->columns[node->column]);
}

static int read_root_message(Run *run, Cursor *in, const Node *node) {
    Column *rows = &run->columns[node->column];
    Py_ssize_t row = rows->length;
    Occurrence whole = {-1, 0, in->at, in->end - in->at, WIRE_BYTES};
    int64_t values_left = run->values_left;
    run->seen_used = run->heads_used = 0;
    int result = stream_message(run, node, *in, 0);
    in->at = in->end;
    if (result == OK || result == FAILED)
        return result;
    cut(run->columns, rows, row);
    run->seen_used = run->heads_used = 0;
    run->values_left = values_left;
    if (run->seen_capacity == 0)
        TRY(grow_seen(run));
    run->seen[run->seen_used++] = whole;
    return read_message(run, node, 0, 1, 0);
}
