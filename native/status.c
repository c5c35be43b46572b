/* paddock.fs._status: describes a path if the kernel can do it without waiting.
 *
 * An extension module for the server. With three system calls it does what paddock/fs/syscall.py does through ctypes,
 * in half the time. It holds the interpreter meanwhile: none of the calls can wait. It has the privileges of the server
 * and adds none.
 *
 * Compiled against the limited API of Python 3.11, so that one file serves every later version.
 */
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef RESOLVE_CACHED
#define RESOLVE_CACHED 0x20
#endif

/* Return 0 for a time that does not fit into 64 bits: some file systems keep whatever seconds a user sets. */
static long long
milliseconds(struct statx_timestamp time)
{
    long long result;
    if (__builtin_mul_overflow((long long)time.tv_sec, 1000, &result) ||
        __builtin_add_overflow(result, (long long)(time.tv_nsec / 1000000), &result))
        return 0;
    return result;
}

static int
describe(const char *path, struct statx *found)
{
    struct open_how how = {.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC, .resolve = RESOLVE_CACHED};
    int descriptor = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
    if (descriptor < 0 && errno == EAGAIN)
        /* Any rename on the host disturbs a lookup without locks. A second one usually succeeds. */
        descriptor = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
    if (descriptor < 0)
        return errno;
    unsigned wanted = STATX_TYPE | STATX_MODE | STATX_MTIME | STATX_SIZE | STATX_BTIME;
    int error = statx(descriptor, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, wanted, found) ? errno : 0;
    /* The descriptor only names the file, so closing it does not wait either. */
    close(descriptor);
    return error;
}

PyDoc_STRVAR(describe_at_once_doc,
             "describe_at_once(path, /)\n--\n\n"
             "Give mode, size, birth and modification of an absolute path; see paddock.fs.syscall.");

static PyObject *
describe_at_once(PyObject *module, PyObject *path)
{
    (void)module;
    char *text;
    /* For the kernel, a NUL would end the path; this call rejects it with ValueError. */
    if (PyBytes_AsStringAndSize(path, &text, NULL) < 0)
        return NULL;
    struct statx found;
    int error = describe(text, &found);
    if (error != 0) {
        errno = error;
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    long long born = found.stx_mask & STATX_BTIME ? milliseconds(found.stx_btime) : 0;
    return Py_BuildValue("HKLL", found.stx_mode, (unsigned long long)found.stx_size, born,
                         milliseconds(found.stx_mtime));
}

static PyMethodDef functions[] = {
    {"describe_at_once", describe_at_once, METH_O, describe_at_once_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "paddock.fs._status",
    .m_size = 0,
    .m_methods = functions,
};

PyMODINIT_FUNC
PyInit__status(void)
{
    return PyModuleDef_Init(&definition);
}
