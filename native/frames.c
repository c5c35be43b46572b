/* paddock.transport._frames: reads the plain frames of a WebSocket without an object for each.
 *
 * An extension module for the server and clients. It reads what any peer sends, so it trusts nothing: it reads only
 * received bytes, keeps no state and allocates nothing but its answer. It takes only whole messages in one frame each,
 * which is what peers usually send. At anything else - a fragment, a control frame, the first part of a frame, a
 * violation - it stops, and paddock/transport/frames.py reads or refuses that. It has the privileges of its process and
 * adds none.
 *
 * Compiled against the limited API of Python 3.11, so that one file serves every later version.
 */
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>

#include "frame.h"

/* Return a copy of a small message, or a slice of the view for a large one, which costs nothing. */
static PyObject *
message_of(const struct frame *frame, PyObject *view, const unsigned char *base, size_t small_bytes)
{
    if (frame->bytes < small_bytes)
        return PyBytes_FromStringAndSize((const char *)frame->payload, (Py_ssize_t)frame->bytes);
    Py_ssize_t begin = frame->payload - base;
    return PySequence_GetSlice(view, begin, begin + (Py_ssize_t)frame->bytes);
}

/* Return the messages from `*at` on, unmasked in place, or NULL with an exception set. */
static PyObject *
take_messages(PyObject *view, unsigned char *base, unsigned char **at, const unsigned char *end, bool is_masked,
              size_t max_bytes, size_t small_bytes, size_t max_messages)
{
    PyObject *messages = PyList_New(0);
    struct frame frame;
    while (messages != NULL && max_messages-- > 0 && take_frame(at, end, is_masked, max_bytes, &frame)) {
        if (frame.key != NULL)
            apply_key(frame.payload, frame.bytes, frame.key);
        PyObject *message = message_of(&frame, view, base, small_bytes);
        if (message == NULL || PyList_Append(messages, message) < 0)
            Py_CLEAR(messages);
        Py_XDECREF(message);
    }
    return messages;
}

PyDoc_STRVAR(take_plain_doc, "take_plain(view, begin, end, is_masked, max_bytes, small_bytes, max_messages, /)\n--\n\n"
                             "Give the plain messages between two places of a view, and where they end. Those of\n"
                             "`small_bytes` and more are parts of the view.");

static PyObject *
take_plain(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module;
    if (count != 7) {
        PyErr_SetString(PyExc_TypeError, "take_plain takes seven arguments");
        return NULL;
    }
    Py_ssize_t begin = PyLong_AsSsize_t(arguments[1]);
    Py_ssize_t end = PyLong_AsSsize_t(arguments[2]);
    int is_masked = PyObject_IsTrue(arguments[3]);
    size_t max_bytes = PyLong_AsSize_t(arguments[4]);
    size_t small_bytes = PyLong_AsSize_t(arguments[5]);
    size_t max_messages = PyLong_AsSize_t(arguments[6]);
    if (PyErr_Occurred())
        return NULL;
    Py_buffer buffer;
    if (PyObject_GetBuffer(arguments[0], &buffer, PyBUF_WRITABLE) < 0)
        return NULL;
    PyObject *result = NULL;
    if (begin < 0 || begin > end || end > buffer.len) {
        PyErr_SetString(PyExc_ValueError, "the places are not in the view, or not in order");
    } else {
        unsigned char *base = buffer.buf;
        unsigned char *at = base + begin;
        PyObject *messages = take_messages(arguments[0], base, &at, base + end, is_masked, max_bytes,
                                           small_bytes, max_messages);
        if (messages != NULL)
            result = Py_BuildValue("(Nn)", messages, (Py_ssize_t)(at - base));
    }
    PyBuffer_Release(&buffer);
    return result;
}

PyDoc_STRVAR(apply_mask_doc, "apply_mask(data, key, /)\n--\n\n"
                             "Mask or unmask data where it is (RFC 6455, 5.3). The key has four bytes.");

static PyObject *
apply_mask(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module;
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "apply_mask takes two arguments");
        return NULL;
    }
    Py_buffer data, key;
    if (PyObject_GetBuffer(arguments[0], &data, PyBUF_WRITABLE) < 0)
        return NULL;
    if (PyObject_GetBuffer(arguments[1], &key, PyBUF_SIMPLE) < 0) {
        PyBuffer_Release(&data);
        return NULL;
    }
    bool is_key = key.len == KEY_BYTES;
    if (is_key)
        apply_key(data.buf, (size_t)data.len, key.buf);
    else
        PyErr_SetString(PyExc_ValueError, "a key has four bytes");
    PyBuffer_Release(&key);
    PyBuffer_Release(&data);
    return is_key ? Py_NewRef(Py_None) : NULL;
}

static PyMethodDef functions[] = {
    {"take_plain", (PyCFunction)(void (*)(void))take_plain, METH_FASTCALL, take_plain_doc},
    {"apply_mask", (PyCFunction)(void (*)(void))apply_mask, METH_FASTCALL, apply_mask_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "paddock.transport._frames",
    .m_size = 0,
    .m_methods = functions,
};

PyMODINIT_FUNC
PyInit__frames(void)
{
    return PyModuleDef_Init(&definition);
}
