/* paddock.protocol._scanner: finds the parts of a message without creating objects for them.
 *
 * It also counts them, so that the server can refuse a message with too many before it creates objects.
 *
 * An extension module for the server and the client. It reads what the other side sends, so it trusts nothing: it reads
 * from the first byte to the last, keeps no state and allocates nothing but its answer. It accepts only a request, a
 * notification or a result in plain JSON - no escapes and no bytes beyond ASCII in strings, no fractions, no duplicate
 * key. For everything else it returns None, and paddock/protocol/codec.py parses or refuses the message. It knows the
 * envelope, but no method: it leaves out a string of the body that may be base64, for a caller that knows the method.
 * It has the privileges of the process and adds none.
 *
 * Compiled against the limited API of Python 3.11, so that one file serves every later version.
 */
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <string.h>

#include "scan.h"
#include "value_count.h"

static PyObject *
text_of(struct span span)
{
    return PyUnicode_FromStringAndSize(span.begin, span.end - span.begin);
}

static PyObject *
id_of(struct span span)
{
    if (*span.begin == '"')
        return text_of((struct span){span.begin + 1, span.end - 1});
    long long number = 0;
    const char *at = span.begin + (*span.begin == '-');
    for (; at < span.end; at++)
        number = number * 10 + (*at - '0');
    return PyLong_FromLongLong(*span.begin == '-' ? -number : number);
}

/* Return the body without the string that may be base64, which becomes an empty string. */
static PyObject *
body_of(const struct scan *scan)
{
    if (scan->encoded.begin == NULL)
        return PyBytes_FromStringAndSize(scan->body.begin, scan->body.end - scan->body.begin);
    Py_ssize_t before = scan->encoded.begin - scan->body.begin;
    Py_ssize_t after = scan->body.end - scan->encoded.end;
    PyObject *body = PyBytes_FromStringAndSize(NULL, before + after);
    if (body != NULL) {
        char *bytes = PyBytes_AsString(body);
        memcpy(bytes, scan->body.begin, (size_t)before);
        memcpy(bytes + before, scan->encoded.end, (size_t)after);
    }
    return body;
}

static PyObject *
encoded_of(const struct scan *scan, const char *message)
{
    Py_ssize_t begin = scan->encoded.begin - message;
    Py_ssize_t end = scan->encoded.end - message;
    Py_ssize_t key_bytes = scan->encoded_key.end - scan->encoded_key.begin;
    return Py_BuildValue("(s#nn)", scan->encoded_key.begin, key_bytes, begin, end);
}

static PyObject *
answer(const struct scan *scan, const char *message)
{
    PyObject *parts[] = {
        scan->id.begin == NULL ? Py_NewRef(Py_None) : id_of(scan->id),
        scan->method.begin == NULL ? Py_NewRef(Py_None) : text_of(scan->method),
        scan->body.begin == NULL ? Py_NewRef(Py_None) : body_of(scan),
        scan->encoded.begin == NULL ? Py_NewRef(Py_None) : encoded_of(scan, message),
    };
    enum { COUNT = sizeof parts / sizeof parts[0] };
    PyObject *tuple = PyTuple_New(COUNT);
    for (int at = 0; at < COUNT; at++)
        if (tuple == NULL || parts[at] == NULL) {
            Py_XDECREF(parts[at]);
            Py_CLEAR(tuple);
        } else {
            PyTuple_SetItem(tuple, at, parts[at]);
        }
    return tuple;
}

PyDoc_STRVAR(scan_doc, "scan(message, max_values, max_depth, /)\n--\n\n"
                       "Give id, method, parameters or result without the string that may be base64, and of that the\n"
                       "key and where it begins and ends; None if the message is not a plain one.");

static PyObject *
scan(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module;
    if (count != 3) {
        PyErr_SetString(PyExc_TypeError, "scan takes three arguments");
        return NULL;
    }
    long max_values = PyLong_AsLong(arguments[1]);
    long max_depth = PyLong_AsLong(arguments[2]);
    if (PyErr_Occurred())
        return NULL;
    Py_buffer message;
    if (PyObject_GetBuffer(arguments[0], &message, PyBUF_SIMPLE) < 0)
        return NULL;
    const char *text = message.buf;
    struct scan found;
    bool is_plain = scan_message(text, (size_t)message.len, max_values, max_depth, &found);
    PyObject *result = is_plain ? answer(&found, text) : Py_NewRef(Py_None);
    PyBuffer_Release(&message);
    return result;
}

PyDoc_STRVAR(count_doc, "count_strings(message, max_values, /)\n--\n\n"
                        "Give the number of strings in a JSON document, keys included; None if it has more values than\n"
                        "so many.");

static PyObject *
count(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module;
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "count_strings takes two arguments");
        return NULL;
    }
    long max_values = PyLong_AsLong(arguments[1]);
    if (PyErr_Occurred())
        return NULL;
    Py_buffer message;
    if (PyObject_GetBuffer(arguments[0], &message, PyBUF_SIMPLE) < 0)
        return NULL;
    long strings = count_strings(message.buf, (size_t)message.len, max_values);
    PyBuffer_Release(&message);
    return strings < 0 ? Py_NewRef(Py_None) : PyLong_FromLong(strings);
}

static PyMethodDef functions[] = {
    {"count_strings", (PyCFunction)(void (*)(void))count, METH_FASTCALL, count_doc},
    {"scan", (PyCFunction)(void (*)(void))scan, METH_FASTCALL, scan_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "paddock.protocol._scanner",
    .m_size = 0,
    .m_methods = functions,
};

PyMODINIT_FUNC
PyInit__scanner(void)
{
    return PyModuleDef_Init(&definition);
}
