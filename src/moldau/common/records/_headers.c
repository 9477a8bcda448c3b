/* Whether batches that lie behind each other fit together by their headers: the compiled twin of headers.py,
 * which says what is asked of both, and whose tests run over both.
 *
 *   base offset 8 | length 4 | leader epoch 4 | magic 1 | crc 4 | attributes 2 | last offset delta 4 | ...
 *
 * Not here: what a reader does about a header that does not fit (appending/header_check.py).
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

/* Version of the interface to the Python module beside this; core/kernels.py has the same number. Raise both with a
   change after which an older kernel or an older module would not do. */
#define KERNEL_VERSION 1

#define HEADER_BYTES 61
#define LENGTH_OVERHEAD 12
#define LENGTH_MIN (HEADER_BYTES - LENGTH_OVERHEAD)
#define MAGIC 2

static inline uint32_t read_u32(const uint8_t *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static inline int64_t read_i64(const uint8_t *at) {
    return (int64_t)((uint64_t)read_u32(at) << 32 | read_u32(at + 4));
}

static PyObject *fit(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    if (count != 6) {
        PyErr_SetString(PyExc_TypeError, "fit takes six arguments");
        return NULL;
    }
    int64_t numbers[5];
    for (int index = 0; index < 5; index++) {
        numbers[index] = PyLong_AsLongLong(arguments[index + 1]);
        if (numbers[index] == -1 && PyErr_Occurred())
            return NULL;
    }
    Py_buffer data;
    if (PyObject_GetBuffer(arguments[0], &data, PyBUF_SIMPLE) < 0)
        return NULL;
    const int64_t limit = numbers[0] < data.len ? numbers[0] : data.len;
    const int64_t offset_max = numbers[2], epoch_max = numbers[4];
    int64_t next_offset = numbers[1], next_before = numbers[1], epoch = numbers[3];
    int64_t cut = 0, cut_before = 0, misfit = -1;
    int sure = 1;
    const uint8_t *start = data.buf;
    while (cut + HEADER_BYTES <= data.len) {
        const uint8_t *at = start + cut;
        int64_t base_offset = read_i64(at);
        int32_t length = (int32_t)read_u32(at + 8), leader_epoch = (int32_t)read_u32(at + 12);
        int32_t last_offset_delta = (int32_t)read_u32(at + 23);
        if (length < LENGTH_MIN || at[16] != MAGIC || last_offset_delta < 0 || base_offset < next_offset ||
            base_offset >= offset_max - last_offset_delta || leader_epoch < epoch || leader_epoch > epoch_max) {
            misfit = cut;
            if (!sure) {
                cut = cut_before;
                next_offset = next_before;
            }
            break;
        }
        if (cut + length + LENGTH_OVERHEAD > limit)
            break;
        cut_before = cut;
        next_before = next_offset;
        sure = base_offset == next_offset && leader_epoch == epoch;
        cut += (int64_t)length + LENGTH_OVERHEAD;
        next_offset = base_offset + last_offset_delta + 1;
        epoch = leader_epoch;
    }
    PyBuffer_Release(&data);
    return Py_BuildValue("LLL", (long long)cut, (long long)next_offset, (long long)misfit);
}

static PyMethodDef functions[] = {
    {"fit", (PyCFunction)(void (*)(void))fit, METH_FASTCALL, "See headers.py."},
    {NULL, NULL, 0, NULL},
};

static int module_exec(PyObject *module) { return PyModule_AddIntMacro(module, KERNEL_VERSION); }

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, module_exec}, {0, NULL}};

static PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT, "_headers", "A walk over the headers of batches.", 0, functions, module_slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__headers(void) { return PyModuleDef_Init(&module_definition); }
