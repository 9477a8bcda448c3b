/* Walking over a batch's records without an object for each: the compiled twin of walk.py, which says what is
 * asked of both, and whose tests run over both. How a record is read stands in walk_record.h. The payload does
 * not change meanwhile (its owner waits), so the walk gives up the GIL.
 *
 * Not here: what is wrong with a malformed record, and the words for a record that is refused (the callers).
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

#include "walk_record.h"

/* Version of the interface to the Python module beside this; core/kernels.py has the same number. Raise both with a
   change after which an older kernel or an older module would not do. */
#define KERNEL_VERSION 1

enum { WALKED, MALFORMED, NOTICED };

static int check_place(const Py_buffer *payload, Py_ssize_t position) {
    if (position >= 0 && position <= payload->len)
        return 1;
    PyErr_SetString(PyExc_ValueError, "the position lies outside the payload");
    return 0;
}

static PyObject *check(PyObject *module, PyObject *arguments) {
    Py_buffer payload;
    Py_ssize_t position;
    long long index, stop, base_timestamp_ms, oldest_ms, newest_ms, max_timestamp_ms;
    int keys;
    if (!PyArg_ParseTuple(arguments, "y*nLLLpLLL", &payload, &position, &index, &stop, &base_timestamp_ms, &keys,
                          &oldest_ms, &newest_ms, &max_timestamp_ms))
        return NULL;
    if (!check_place(&payload, position)) {
        PyBuffer_Release(&payload);
        return NULL;
    }
    const uint8_t *start = payload.buf;
    Cursor all = {start + position, start + payload.len};
    int outcome = WALKED;
    Py_BEGIN_ALLOW_THREADS
    for (; index < stop; index++) {
        const uint8_t *record_start = all.at;
        Record record;
        if (!read_record(&all, base_timestamp_ms, &record))
            outcome = MALFORMED;
        else if (record.offset_delta != index || (keys && !record.has_key) ||
                 (record.timestamp_ms != NO_TIMESTAMP &&
                  (record.timestamp_ms < oldest_ms || record.timestamp_ms > newest_ms)))
            outcome = NOTICED;
        if (outcome != WALKED) {
            all.at = record_start;
            break;
        }
        if (record.timestamp_ms > max_timestamp_ms)
            max_timestamp_ms = record.timestamp_ms;
    }
    Py_END_ALLOW_THREADS
    position = all.at - start;
    PyBuffer_Release(&payload);
    return Py_BuildValue("inLL", outcome, position, index, max_timestamp_ms);
}

static PyObject *find(PyObject *module, PyObject *arguments) {
    Py_buffer payload;
    Py_ssize_t position;
    long long index, stop, base_timestamp_ms, wanted_ms, first_delta;
    if (!PyArg_ParseTuple(arguments, "y*nLLLLL", &payload, &position, &index, &stop, &base_timestamp_ms, &wanted_ms,
                          &first_delta))
        return NULL;
    if (!check_place(&payload, position)) {
        PyBuffer_Release(&payload);
        return NULL;
    }
    const uint8_t *start = payload.buf;
    Cursor all = {start + position, start + payload.len};
    Record record = {0, 0, 0};
    int outcome = WALKED;
    Py_BEGIN_ALLOW_THREADS
    for (; index < stop; index++) {
        const uint8_t *record_start = all.at;
        if (!read_record(&all, base_timestamp_ms, &record))
            outcome = MALFORMED;
        else if (record.timestamp_ms >= wanted_ms && record.offset_delta >= first_delta)
            outcome = NOTICED;
        if (outcome != WALKED) {
            all.at = record_start;
            break;
        }
    }
    Py_END_ALLOW_THREADS
    position = all.at - start;
    PyBuffer_Release(&payload);
    if (outcome != NOTICED)
        record.timestamp_ms = record.offset_delta = -1;
    return Py_BuildValue("inLLL", outcome, position, index, (long long)record.timestamp_ms,
                         (long long)record.offset_delta);
}

static PyMethodDef functions[] = {
    {"check", check, METH_VARARGS, "See walk.py."},
    {"find", find, METH_VARARGS, "See walk.py."},
    {NULL, NULL, 0, NULL},
};

static int module_exec(PyObject *module) { return PyModule_AddIntMacro(module, KERNEL_VERSION); }

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, module_exec}, {0, NULL}};

static PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT, "_walk", "A walk over a batch's records.", 0, functions, module_slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__walk(void) { return PyModuleDef_Init(&module_definition); }
