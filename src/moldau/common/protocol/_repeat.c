/* A Produce request that begins as an earlier one did: the compiled twin of repeat.py, which says what is asked of
 * both, and whose tests run over both.
 *
 *   | size 4 | head 4 | correlation id 4 | prefix ... | records' size | records | tagged fields |
 *
 * Not here: decoding of any other request (hot_produce.py).
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <structmember.h>

/* Version of the interface to the Python module beside this; core/kernels.py has the same number. Raise both with a
   change after which an older kernel or an older module would not do. */
#define KERNEL_VERSION 1

#define HEAD_AT 4
#define CORRELATION_AT 8
#define PREFIX_AT 12
#define TRAILING_TAGS_BYTES 3
#define UVARINT_BYTES_MAX 5

typedef struct {
    PyObject_HEAD
    PyObject *head, *prefix; /* bytes */
    int flexible;
} Repeat;

static inline uint32_t u32(const uint8_t *at) {
    uint32_t value;
    memcpy(&value, at, 4);
    return __builtin_bswap32(value);
}

/* The records of the frame between `at` and `end`, as (start, stop); 0 when it is not of this form. */
static int records_of(const Repeat *self, const uint8_t *bytes, Py_ssize_t position, Py_ssize_t end, Py_ssize_t *start,
                      Py_ssize_t *stop) {
    Py_ssize_t head_bytes = PyBytes_GET_SIZE(self->head), prefix_bytes = PyBytes_GET_SIZE(self->prefix);
    Py_ssize_t at = position + PREFIX_AT + prefix_bytes;
    if (at + 1 > end || memcmp(bytes + position + HEAD_AT, PyBytes_AS_STRING(self->head), head_bytes) ||
        memcmp(bytes + position + PREFIX_AT, PyBytes_AS_STRING(self->prefix), prefix_bytes))
        return 0;
    if (!self->flexible) {
        if (at + 4 > end)
            return 0;
        *start = at + 4;
        *stop = end;
        return (int32_t)u32(bytes + at) >= 0 && (Py_ssize_t)u32(bytes + at) == end - *start;
    }
    uint64_t size = 0;
    for (int i = 0;; i++) {
        if (i == UVARINT_BYTES_MAX || at >= end)
            return 0;
        uint8_t byte = bytes[at++];
        size |= (uint64_t)(byte & 0x7F) << (7 * i);
        if (byte < 0x80)
            break;
    }
    *start = at;
    *stop = end - TRAILING_TAGS_BYTES;
    if (size == 0 || *stop < *start || (uint64_t)(*stop - *start) != size - 1)
        return 0;
    return !bytes[end - 1] && !bytes[end - 2] && !bytes[end - 3];
}

static PyObject *repeat_match(Repeat *self, PyObject *const *arguments, Py_ssize_t count) {
    if (count != 3) {
        PyErr_SetString(PyExc_TypeError, "match(buffer, position, end)");
        return NULL;
    }
    Py_ssize_t position = PyLong_AsSsize_t(arguments[1]), end = PyLong_AsSsize_t(arguments[2]);
    if (PyErr_Occurred())
        return NULL;
    Py_buffer buffer;
    if (PyObject_GetBuffer(arguments[0], &buffer, PyBUF_SIMPLE) < 0)
        return NULL;
    PyObject *result = NULL;
    Py_ssize_t start, stop;
    if (position < 0 || end > buffer.len) {
        PyErr_SetString(PyExc_ValueError, "the frame lies outside of the buffer");
    } else if (!records_of(self, buffer.buf, position, end, &start, &stop)) {
        result = Py_NewRef(Py_None);
    } else {
        PyObject *fields[3] = {
            PyLong_FromLong((int32_t)u32((const uint8_t *)buffer.buf + position + CORRELATION_AT)),
            PyLong_FromSsize_t(start),
            PyLong_FromSsize_t(stop),
        };
        if (fields[0] != NULL && fields[1] != NULL && fields[2] != NULL)
            result = PyTuple_New(3);
        for (int i = 0; i < 3; i++) {
            if (result != NULL)
                PyTuple_SET_ITEM(result, i, fields[i]);
            else
                Py_XDECREF(fields[i]);
        }
    }
    PyBuffer_Release(&buffer);
    return result;
}

static PyObject *repeat_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords) {
    static char *names[] = {"head", "prefix", "flexible", NULL};
    PyObject *head, *prefix;
    int flexible;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "SSp:Repeat", names, &head, &prefix, &flexible))
        return NULL;
    if (PyBytes_GET_SIZE(head) != CORRELATION_AT - HEAD_AT) {
        PyErr_SetString(PyExc_ValueError, "a head has four bytes");
        return NULL;
    }
    Repeat *self = (Repeat *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->head = Py_NewRef(head);
        self->prefix = Py_NewRef(prefix);
        self->flexible = flexible;
    }
    return (PyObject *)self;
}

static void repeat_dealloc(Repeat *self) {
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(self->head);
    Py_XDECREF(self->prefix);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

static PyMethodDef repeat_methods[] = {
    {"match", (PyCFunction)(void (*)(void))repeat_match, METH_FASTCALL, "Where the records stand; see repeat.py."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef repeat_members[] = {
    {"head", T_OBJECT_EX, offsetof(Repeat, head), READONLY, NULL},
    {"prefix", T_OBJECT_EX, offsetof(Repeat, prefix), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot repeat_slots[] = {
    {Py_tp_doc, "The bytes with which a repeated request begins; see repeat.py."},
    {Py_tp_new, repeat_new},
    {Py_tp_dealloc, repeat_dealloc},
    {Py_tp_methods, repeat_methods},
    {Py_tp_members, repeat_members},
    {0, NULL},
};

static PyType_Spec repeat_spec = {"moldau.common.protocol._repeat.Repeat", sizeof(Repeat), 0, Py_TPFLAGS_DEFAULT,
                                  repeat_slots};

static int module_exec(PyObject *module) {
    PyObject *type = PyType_FromSpec(&repeat_spec);
    if (type == NULL)
        return -1;
    int result = PyModule_AddObjectRef(module, "Repeat", type);
    Py_DECREF(type);
    return result < 0 ? result : PyModule_AddIntMacro(module, KERNEL_VERSION);
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, module_exec}, {0, NULL}};

static PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT, "_repeat", "Repeated Produce requests.", 0, NULL, module_slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__repeat(void) { return PyModuleDef_Init(&module_definition); }
