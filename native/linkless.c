/* paddock.sandbox.host._linkless: looks at files of the host without following links.
 *
 * An extension module for planning: a plan looks at some sixty paths, and each of these calls takes a fraction of what
 * paddock/sandbox/host/linkless.py needs for the same. It lets other threads run meanwhile, because a dead network file
 * system may answer late. It has the privileges of the process and adds none.
 *
 * Compiled against the limited API of Python 3.11, so that one file serves every later version.
 */
#define _GNU_SOURCE
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "without_links.h"

/* Returns the bytes of a path, which the caller releases, or NULL. A path with a NUL is a ValueError. */
static PyObject *bytes_of(PyObject *path, const char **text) {
    PyObject *bytes;
    if (!PyUnicode_FSConverter(path, &bytes))
        return NULL;
    *text = PyBytes_AsString(bytes);
    return bytes;
}

/* Returns an errno, or 0. */
static int look_at(const char *path, struct stat *found) {
    int error;
    Py_BEGIN_ALLOW_THREADS
    error = lstat(path, found) == 0 ? 0 : errno;
    Py_END_ALLOW_THREADS
    return error;
}

/* ---- Functions of the module ---- */

PyDoc_STRVAR(status_doc, "status(path, /)\n--\n\nReturn mode, owner, size and number of names, or an errno.");

static PyObject *status(PyObject *module, PyObject *path) {
    (void)module;
    const char *text;
    struct stat found;
    PyObject *bytes = bytes_of(path, &text);
    if (!bytes)
        return NULL;
    int error = look_at(text, &found);
    Py_DECREF(bytes);
    if (error)
        return PyLong_FromLong(error);
    return Py_BuildValue("IILk", found.st_mode, found.st_uid, (long long)found.st_size, (unsigned long)found.st_nlink);
}

static PyObject *identity_of(const struct stat *found) {
    return Py_BuildValue("KK", (unsigned long long)found->st_dev, (unsigned long long)found->st_ino);
}

PyDoc_STRVAR(identity_doc, "identity(path, /)\n--\n\nReturn device and inode, or None if there is nothing in reach.");

static PyObject *identity(PyObject *module, PyObject *path) {
    (void)module;
    const char *text;
    struct stat found;
    PyObject *bytes = bytes_of(path, &text);
    if (!bytes)
        return NULL;
    int error = look_at(text, &found);
    Py_DECREF(bytes);
    return error ? Py_NewRef(Py_None) : identity_of(&found);
}

/* Like `look_at`, but fails with ENOTDIR if a link is on the way, as where each name is opened for itself. */
static int look_without_links(const char *path, struct stat *found) {
    int error;
    Py_BEGIN_ALLOW_THREADS
    int fd = open_without_links(path);
    if (fd < 0 && errno == ENAMETOOLONG)
        /* Each name alone may be short enough. */
        fd = walk_without_links(path);
    error = fd < 0 || fstat(fd, found) != 0 ? errno : 0;
    if (fd >= 0)
        close(fd);
    Py_END_ALLOW_THREADS
    return error == ELOOP ? ENOTDIR : error;
}

PyDoc_STRVAR(identity_without_links_doc,
             "identity_without_links(path, /)\n--\n\n"
             "Return device and inode. Raise OSError if there is nothing, or a link is on the way.");

static PyObject *identity_without_links(PyObject *module, PyObject *path) {
    (void)module;
    const char *text;
    struct stat found;
    PyObject *bytes = bytes_of(path, &text);
    if (!bytes)
        return NULL;
    int error = look_without_links(text, &found);
    Py_DECREF(bytes);
    if (error == 0)
        return identity_of(&found);
    errno = error;
    return PyErr_SetFromErrnoWithFilenameObject(PyExc_OSError, path);
}

/* Returns whether a path is absolute and has no empty name, `.`, `..` or slash at its end. */
static bool is_plain(const char *path) {
    if (*path != '/')
        return false;
    if (path[1] == '\0')
        return true;
    do {
        size_t length = strcspn(++path, "/");
        if (length == 0 || (length <= 2 && strspn(path, ".") >= length))
            return false;
        path += length;
    } while (*path);
    return true;
}

/* Returns 1 if no link is on the way to a plain path or at its end, and 0 if there is one or it is unknown. A name that is
 * missing is no link, and nothing is below it. */
static int has_no_links(char *path) {
    struct stat found;
    int error;
    while ((error = look_without_links(path, &found)) == ENOENT) {
        char *end = strrchr(path, '/');
        if (end == path)
            return 1;
        *end = '\0';
    }
    return error == 0 && !S_ISLNK(found.st_mode);
}

static PyObject *answer_about_links(PyObject *path, int (*judge)(char *path)) {
    const char *text;
    char copy[PATH_MAX];
    PyObject *bytes = bytes_of(path, &text);
    if (!bytes)
        return NULL;
    size_t length = strlen(text);
    bool is_short = length < sizeof copy && is_plain(text);
    if (is_short)
        memcpy(copy, text, length + 1);
    Py_DECREF(bytes);
    return PyBool_FromLong(is_short && judge(copy));
}

PyDoc_STRVAR(is_real_doc,
             "is_real(path, /)\n--\n\n"
             "Return whether a path certainly is what os.path.realpath would return for it.");

static PyObject *is_real(PyObject *module, PyObject *path) {
    (void)module;
    return answer_about_links(path, has_no_links);
}

static int exists_without_links(char *path) {
    struct stat found;
    return look_without_links(path, &found) == 0 && !S_ISLNK(found.st_mode);
}

PyDoc_STRVAR(is_real_and_there_doc,
             "is_real_and_there(path, /)\n--\n\nThe same for os.path.realpath with strict=True.");

static PyObject *is_real_and_there(PyObject *module, PyObject *path) {
    (void)module;
    return answer_about_links(path, exists_without_links);
}

/* What is expected at a path; the other side is src/paddock/sandbox/host/recheck.py. */
enum expectation { EXPECT_STATUS, EXPECT_FAILURE, EXPECT_NOTHING, EXPECT_IDENTITY, EXPECT_IDENTITY_WITHOUT_LINKS };

struct __attribute__((packed)) expected {
    uint32_t kind;
    int32_t error;          /* of a failure */
    uint64_t first, second; /* mode and owner, or device and inode */
};

static bool is_as_expected(const char *path, const struct expected *expected) {
    struct stat found;
    int error;
    if (expected->kind == EXPECT_IDENTITY_WITHOUT_LINKS) {
        int fd = open_without_links(path);
        error = fd < 0 || fstat(fd, &found) != 0 ? errno : 0;
        if (fd >= 0)
            close(fd);
    } else
        error = lstat(path, &found) == 0 ? 0 : errno;
    switch (expected->kind) {
    case EXPECT_STATUS:
        return error == 0 && found.st_mode == expected->first && found.st_uid == expected->second;
    case EXPECT_FAILURE:
        return error == expected->error;
    case EXPECT_NOTHING:
        return error != 0;
    case EXPECT_IDENTITY:
    case EXPECT_IDENTITY_WITHOUT_LINKS:
        return error == 0 && found.st_dev == expected->first && found.st_ino == expected->second;
    default:
        return false;
    }
}

/* Looks at each path, while other threads run. Sets the flags of those that differ. */
static void compare(const char **paths, const struct expected *expected, Py_ssize_t count, bool *differs) {
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t i = 0; i < count; i++)
        differs[i] = !is_as_expected(paths[i], expected + i);
    Py_END_ALLOW_THREADS
}

static PyObject *indexes_of(const bool *flags, Py_ssize_t count) {
    PyObject *found = PyList_New(0);
    for (Py_ssize_t i = 0; found && i < count; i++) {
        PyObject *index = flags[i] ? PyLong_FromSsize_t(i) : NULL;
        if (flags[i] && (!index || PyList_Append(found, index) < 0))
            Py_CLEAR(found);
        Py_XDECREF(index);
    }
    return found;
}

PyDoc_STRVAR(differing_doc,
             "differing(paths, expected, /)\n--\n\n"
             "Return the indexes of the paths, a tuple of bytes, at which something else is than expected.");

static PyObject *differing(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *paths, *result = NULL;
    const char *expected;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(arguments, "O!y#", &PyTuple_Type, &paths, &expected, &size))
        return NULL;
    Py_ssize_t count = PyTuple_Size(paths);
    if (size != count * (Py_ssize_t)sizeof(struct expected))
        return PyErr_Format(PyExc_ValueError, "%zd bytes do not describe %zd paths", size, count);
    /* The tuple keeps the strings. */
    const char **texts = PyMem_Malloc((size_t)(count + 1) * sizeof *texts);
    bool *differs = PyMem_Malloc((size_t)count + 1);
    if (!texts || !differs)
        PyErr_NoMemory();
    for (Py_ssize_t i = 0; !PyErr_Occurred() && i < count; i++) {
        char *text = NULL;
        /* For the kernel, a NUL would end the path; this call rejects it with ValueError. */
        PyBytes_AsStringAndSize(PyTuple_GetItem(paths, i), &text, NULL);
        texts[i] = text;
    }
    if (!PyErr_Occurred()) {
        compare(texts, (const struct expected *)expected, count, differs);
        result = indexes_of(differs, count);
    }
    PyMem_Free(texts);
    PyMem_Free(differs);
    return result;
}

static PyMethodDef functions[] = {
    {"status", status, METH_O, status_doc},
    {"identity", identity, METH_O, identity_doc},
    {"identity_without_links", identity_without_links, METH_O, identity_without_links_doc},
    {"is_real", is_real, METH_O, is_real_doc},
    {"differing", differing, METH_VARARGS, differing_doc},
    {"is_real_and_there", is_real_and_there, METH_O, is_real_and_there_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "paddock.sandbox.host._linkless",
    .m_size = 0,
    .m_methods = functions,
};

PyMODINIT_FUNC PyInit__linkless(void) {
    return PyModuleDef_Init(&definition);
}
