/* Records with a schema -> Arrow columns: the compiled twin of kernel.py, which says what is asked of both, and
 * whose tests run over both.
 *
 *     column_buffers.h   the columns that grow
 *     read_avro.h        nodes that read Avro             read_protobuf.h   nodes that read Protobuf
 *
 * A row is appended as it is read; if its bytes turn out not to be what the program says, the columns are cut
 * back to where the row began, and a null row takes its place.
 */
#include "column_buffers.h"

/* Version of the interface to the Python module beside this; core/kernels.py has the same number. Raise both with a
   change after which an older kernel or an older module would not do. */
#define KERNEL_VERSION 1

enum {
    OP_BAD, OP_NULL, OP_BOOLEAN, OP_INT, OP_INT_AS_LONG, OP_INT_AS_FLOAT, OP_INT_AS_DOUBLE, OP_LONG,
    OP_LONG_AS_FLOAT, OP_LONG_AS_DOUBLE, OP_FLOAT, OP_FLOAT_AS_DOUBLE, OP_DOUBLE, OP_BYTES, OP_STRING, OP_FIXED,
    OP_ENUM, OP_MILLIS, OP_DECIMAL, OP_DECIMAL_FIXED, OP_RECORD, OP_ARRAY, OP_MAP, OP_UNION, OP_MEMBER,
    OP_CONSTANT, OP_SKIP_VARINT, OP_SKIP_BYTES, OP_SKIP_FIXED, OP_SKIP_ARRAY, OP_SKIP_MAP, OP_SKIP_UNION,
    OP_SKIP_RECORD,
    OP_MESSAGE, OP_PB_BOOL, OP_PB_INT32, OP_PB_SINT32, OP_PB_INT64, OP_PB_SINT64, OP_PB_FIXED32, OP_PB_FIXED64,
    OP_PB_STRING, OP_PB_BYTES, OP_PB_ENUM, OP_PB_TIMESTAMP, OP_PB_MESSAGE, OP_PB_GROUP,
};

#include "read_avro.h"
#include "read_protobuf.h"

#define SPARE_ITEMS 1000
#define VALUES_PER_BYTE 64
#define SPARE_VALUES 1000000
#define INDEXES_MAX 32
#define ID_BYTES 5    /* with the magic byte 0 */
#define GUID_BYTES 17 /* with the magic byte 1 */

static int run_node(Run *run, Cursor *in, const Node *node, int depth) {
    if (depth > DEPTH_MAX)
        return MALFORMED;
    if (node->op == OP_MESSAGE)
        return read_root_message(run, in, node);
    return run_avro(run, in, node, depth);
}

/* ---- The kernel: columns, and the programs by the header of records --------------------------------------- */

typedef struct {
    PyObject_HEAD
    Column *columns;
    Py_ssize_t column_count;
    Column bad;
    Program *programs;
    Py_ssize_t program_count;
    PyObject *numbers; /* header -> number of its program */
    PyObject *last_key;
    Py_ssize_t last_number;
    int with_indexes;
    Run run;
} Kernel;

static void forget_programs(Kernel *self) {
    for (Py_ssize_t index = 0; index < self->program_count; index++) {
        PyMem_Free(self->programs[index].by_child);
        Py_CLEAR(self->programs[index].constants);
        Py_CLEAR(self->programs[index].nodes_bytes);
        Py_CLEAR(self->programs[index].children_bytes);
    }
    PyMem_Free(self->programs);
    self->programs = NULL;
    self->program_count = 0;
    Py_CLEAR(self->last_key);
}

static void discard_columns(Kernel *self) {
    for (Py_ssize_t index = 0; index < self->column_count; index++)
        discard_column(&self->columns[index]);
    discard_column(&self->bad);
}

static void kernel_dealloc(Kernel *self) {
    discard_columns(self);
    forget_programs(self);
    PyMem_Free(self->columns);
    PyMem_Free(self->run.seen);
    PyMem_Free(self->run.heads);
    Py_CLEAR(self->numbers);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static int kernel_init(Kernel *self, PyObject *arguments, PyObject *keywords) {
    Py_buffer layout;
    (void)keywords;
    if (self->columns != NULL) {
        PyErr_SetString(PyExc_TypeError, "a kernel is made once");
        return -1;
    }
    if (!PyArg_ParseTuple(arguments, "y*p:Kernel", &layout, &self->with_indexes))
        return -1;
    self->column_count = layout.len / 12;
    self->columns = PyMem_Calloc((size_t)self->column_count + 1, sizeof(Column));
    self->numbers = PyDict_New();
    const int32_t *words = layout.buf;
    int valid = self->columns != NULL && self->numbers != NULL && self->column_count > 0;
    for (Py_ssize_t index = 0; valid && index < self->column_count; index++, words += 3) {
        Column *column = &self->columns[index];
        column->kind = words[0];
        column->first = words[1];
        column->count = words[2];
        valid = words[0] >= 0 && words[0] <= KIND_STRUCT && words[1] > index && words[2] >= 0 &&
                words[1] + (int64_t)words[2] <= self->column_count;
        column->width = valid ? WIDTHS[column->kind] : 0;
    }
    for (Py_ssize_t index = self->column_count - 1; valid && index >= 0; index--) {
        Column *column = &self->columns[index]; /* its children are behind it */
        column->weight = 1;
        for (int32_t child = 0; column->kind == KIND_STRUCT && child < column->count; child++)
            column->weight += self->columns[column->first + child].weight;
    }
    PyBuffer_Release(&layout);
    self->bad.kind = KIND_BOOLEAN;
    self->run.columns = self->columns;
    if (!valid && !PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "this is no layout of columns");
    return valid ? 0 : -1;
}

/* Programs come from program.py; what it got wrong must not become an access outside of the tables. */
static int is_sound(const Kernel *self, const Program *program) {
    Py_ssize_t constants = PyList_GET_SIZE(program->constants);
    if (program->root < -1 || program->root >= program->node_count)
        return 0;
    for (Py_ssize_t index = 0; index < constants; index++)
        if (!PyBytes_Check(PyList_GET_ITEM(program->constants, index)))
            return 0;
    for (Py_ssize_t index = 0; index < program->node_count; index++) {
        const Node *node = &program->nodes[index];
        if (node->first < 0 || node->count < 0 || node->first + (int64_t)node->count > program->child_count ||
            node->column < -1 || node->column >= self->column_count || node->c >= constants)
            return 0;
        if (node->op == OP_CONSTANT && (node->a < 0 || node->a >= constants))
            return 0;
        int32_t limit = node->op == OP_ENUM || node->op == OP_PB_ENUM ? 0 : (int32_t)program->node_count;
        for (int32_t child = 0; limit && child < node->count; child++) {
            int32_t number = program->children[node->first + child];
            if (number < 0 || number >= limit)
                return 0;
        }
        for (int32_t child = 0; node->op == OP_ENUM && child < node->count; child++)
            if (program->children[node->first + child] >= constants)
                return 0;
        /* the prefix and every second word behind it: constants */
        for (int32_t child = 0; node->op == OP_PB_ENUM && child < node->count; child += 2) {
            int32_t number = program->children[node->first + child];
            if (number < 0 || number >= constants)
                return 0;
        }
    }
    return 1;
}

static Node *nodes_by_child(const Program *program) {
    Node *by_child = PyMem_Calloc((size_t)program->child_count + 1, sizeof(Node));
    for (Py_ssize_t index = 0; by_child != NULL && index < program->child_count; index++) {
        int32_t number = program->children[index]; /* of enums it is another number */
        if (number >= 0 && number < program->node_count)
            by_child[index] = program->nodes[number];
    }
    return by_child;
}

static PyObject *kernel_add(Kernel *self, PyObject *arguments) {
    PyObject *key, *nodes, *children, *constants;
    int root;
    if (!PyArg_ParseTuple(arguments, "SSSO!i:add", &key, &nodes, &children, &PyList_Type, &constants, &root))
        return NULL;
    Program *grown = PyMem_Realloc(self->programs, sizeof(Program) * (size_t)(self->program_count + 1));
    if (grown == NULL)
        return PyErr_NoMemory();
    self->programs = grown;
    Program *program = &self->programs[self->program_count];
    PyObject *own = PyList_GetSlice(constants, 0, PyList_GET_SIZE(constants)); /* nobody may change it */
    if (own == NULL)
        return NULL;
    program->nodes = (Node *)PyBytes_AS_STRING(nodes);
    program->node_count = PyBytes_GET_SIZE(nodes) / (Py_ssize_t)sizeof(Node);
    program->children = (int32_t *)PyBytes_AS_STRING(children);
    program->child_count = PyBytes_GET_SIZE(children) / 4;
    program->constants = own;
    program->root = root;
    if (!is_sound(self, program)) {
        Py_DECREF(own);
        PyErr_SetString(PyExc_ValueError, "this is no program for these columns");
        return NULL;
    }
    PyObject *number = PyLong_FromSsize_t(self->program_count);
    program->by_child = nodes_by_child(program);
    if (program->by_child == NULL)
        PyErr_NoMemory();
    if (program->by_child == NULL || number == NULL || PyDict_SetItem(self->numbers, key, number) < 0) {
        PyMem_Free(program->by_child);
        Py_XDECREF(number);
        Py_DECREF(own);
        return NULL;
    }
    Py_DECREF(number);
    Py_INCREF(nodes);
    Py_INCREF(children);
    program->nodes_bytes = nodes;
    program->children_bytes = children;
    self->program_count++;
    Py_RETURN_NONE;
}

static PyObject *kernel_forget(Kernel *self, PyObject *nothing) {
    (void)nothing;
    forget_programs(self);
    PyDict_Clear(self->numbers);
    Py_RETURN_NONE;
}

/* How long the header is; 0: there is none. */
static Py_ssize_t header_size(const Kernel *self, const uint8_t *value, Py_ssize_t size) {
    if (size < ID_BYTES || value[0] > 1 || (value[0] == 1 && size < GUID_BYTES))
        return 0;
    Py_ssize_t named = value[0] == 0 ? ID_BYTES : GUID_BYTES;
    if (!self->with_indexes)
        return named;
    Cursor in = {value + named, value + size};
    int64_t count, index;
    if (read_long(&in, &count) != OK || count < 0 || count > INDEXES_MAX)
        return 0;
    while (count-- > 0)
        if (read_long(&in, &index) != OK || index < 0)
            return 0;
    return in.at - value;
}

/* The program of a header; NULL without an exception: `add` it first. */
static Program *find_program(Kernel *self, const uint8_t *header, Py_ssize_t size, PyObject **unknown) {
    if (self->last_key != NULL && PyBytes_GET_SIZE(self->last_key) == size &&
        memcmp(PyBytes_AS_STRING(self->last_key), header, (size_t)size) == 0)
        return &self->programs[self->last_number];
    PyObject *key = PyBytes_FromStringAndSize((const char *)header, size);
    if (key == NULL)
        return NULL;
    PyObject *number = PyDict_GetItemWithError(self->numbers, key);
    if (number == NULL) {
        *unknown = key;
        return NULL;
    }
    Py_XSETREF(self->last_key, key);
    self->last_number = PyLong_AsSsize_t(number);
    return &self->programs[self->last_number];
}

static int end_row(Kernel *self, Py_ssize_t row, int result) {
    if (result == MALFORMED) {
        cut(self->columns, self->columns, row);
        if (append_null(self->columns, self->columns) < 0)
            return FAILED;
    }
    return append_boolean(&self->bad, result == MALFORMED);
}

static int read_row(Kernel *self, const uint8_t *value, Py_ssize_t size, PyObject **unknown) {
    Py_ssize_t header = header_size(self, value, size), row = self->columns[0].length;
    int result = MALFORMED;
    if (header > 0) {
        Program *program = find_program(self, value, header, unknown);
        if (program == NULL)
            return FAILED;
        if (program->root >= 0) {
            Cursor in = {value + header, value + size};
            self->run.program = program;
            self->run.items_left = size + SPARE_ITEMS;
            self->run.values_left = VALUES_PER_BYTE * (int64_t)size + SPARE_VALUES;
            result = run_node(&self->run, &in, &program->nodes[program->root], 0);
            if (result == OK && in.at != in.end)
                result = MALFORMED;
        }
    }
    return result == FAILED ? FAILED : end_row(self, row, result);
}

/* run(validity or None, offsets, data, first, end): append the rows of values first..end; returns the row that
 * it stopped at, and the header that has no program yet (None: all done). */
static PyObject *kernel_run(Kernel *self, PyObject *arguments) {
    Py_buffer validity = {0}, offsets = {0}, data = {0};
    Py_ssize_t row, end;
    PyObject *unknown = NULL, *result = NULL;
    if (!PyArg_ParseTuple(arguments, "z*y*y*nn:run", &validity, &offsets, &data, &row, &end))
        return NULL;
    const uint8_t *bits = validity.buf;
    const int32_t *ends = offsets.buf;
    if (row < 0 || row > end || offsets.len < 4 * (end + 1) || (bits != NULL && validity.len < (end + 7) / 8)) {
        PyErr_SetString(PyExc_ValueError, "rows outside of the values");
        goto done;
    }
    for (; row < end; row++) {
        if (bits != NULL && !(bits[row >> 3] >> (row & 7) & 1)) {
            if (append_null(self->columns, self->columns) < 0 || append_boolean(&self->bad, 0) < 0)
                goto failed;
            continue;
        }
        if (ends[row] < 0 || ends[row + 1] < ends[row] || ends[row + 1] > data.len) {
            PyErr_SetString(PyExc_ValueError, "a value outside of the data");
            goto failed;
        }
        if (read_row(self, (const uint8_t *)data.buf + ends[row], ends[row + 1] - ends[row], &unknown) < 0) {
            if (unknown == NULL)
                goto failed;
            break;
        }
    }
    result = Py_BuildValue("(nO)", row, unknown == NULL ? Py_None : unknown);
    Py_XDECREF(unknown);
    goto done;
failed:
    discard_columns(self);
done:
    PyBuffer_Release(&validity);
    PyBuffer_Release(&offsets);
    PyBuffer_Release(&data);
    return result;
}

/* take(): the rows so far as (list of columns, bad), and empty. */
static PyObject *kernel_take(Kernel *self, PyObject *nothing) {
    (void)nothing;
    PyObject *columns = PyList_New(self->column_count);
    if (columns == NULL)
        return NULL;
    for (Py_ssize_t index = 0; index < self->column_count; index++) {
        PyObject *released = release_column(&self->columns[index]);
        if (released == NULL)
            goto failed;
        PyList_SET_ITEM(columns, index, released);
    }
    PyObject *bad = release_column(&self->bad);
    if (bad == NULL)
        goto failed;
    return Py_BuildValue("(NN)", columns, bad);
failed:
    Py_DECREF(columns);
    discard_columns(self);
    return NULL;
}

static PyMethodDef kernel_methods[] = {
    {"add", (PyCFunction)kernel_add, METH_VARARGS, "The program for records with this header."},
    {"forget", (PyCFunction)kernel_forget, METH_NOARGS, "Forget all programs."},
    {"run", (PyCFunction)kernel_run, METH_VARARGS, "Append rows."},
    {"take", (PyCFunction)kernel_take, METH_NOARGS, "The columns so far; empties them."},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject KernelType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "moldau.schemas.columns._decode.Kernel",
    .tp_basicsize = sizeof(Kernel),
    .tp_dealloc = (destructor)kernel_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "Decodes records into Arrow columns.",
    .tp_methods = kernel_methods,
    .tp_init = (initproc)kernel_init,
    .tp_new = PyType_GenericNew,
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_decode", "Records with a schema -> Arrow columns (see kernel.py).", -1,
    NULL, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__decode(void) {
    if (PyType_Ready(&KernelType) < 0)
        return NULL;
    PyObject *made = PyModule_Create(&module);
    if (made == NULL)
        return NULL;
    Py_INCREF(&KernelType);
    if (PyModule_AddObject(made, "Kernel", (PyObject *)&KernelType) < 0) {
        Py_DECREF(&KernelType);
        Py_DECREF(made);
        return NULL;
    }
    if (PyModule_AddIntMacro(made, KERNEL_VERSION) < 0) {
        Py_DECREF(made);
        return NULL;
    }
    return made;
}
