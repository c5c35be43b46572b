/* paddock.protocol._scanner: finds the parts of a request, or of a path in one, without making objects of them.
 *
 * An extension module, loaded into the server. It reads what any client sends, so it trusts nothing: it goes from
 * the first byte to the last, keeps no state and allocates nothing but its answer. It accepts only a request in
 * plain JSON - no escapes and no bytes beyond ASCII in strings, no fractions, no key twice - and only a path in
 * which nothing is to be decoded or resolved. It says None to everything else, which paddock/protocol/codec.py and
 * path.py then read or refuse. It has the privileges of the server and adds none.
 *
 * Compiled against the limited API of Python 3.11, so that one file serves every later version.
 */
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <string.h>

/* How deep, with how many keys in one object, and with keys of how many bytes a request is still plain: any real one
 * is below these. Keys are compared with each other, so their number and length bound the work. */
#define MAX_DEPTH 16
#define MAX_KEYS 64
#define MAX_KEY_BYTES 256

/* How far from the end of the message a chunk ends, mostly. */
#define TAIL_BYTES 256

/* In a message that goes on for less, base64 is left among the parameters and decoded with them: to lift it out and
 * put it back takes longer. */
#define LIFTED_BYTES 256

/* Integers of so many digits fit into 64 bits. */
#define MAX_DIGITS 18

struct span {
    const char *begin;
    const char *end;
};

struct scan {
    const char *at;
    const char *end;
    long values_left;
    int depth_left;
    struct span id;
    struct span method;
    struct span params;
    /* The content of the member of params that holds base64. Whoever decodes it sees whether it is any. */
    struct span chunk;
};

static bool
is_text(struct span span, const char *text)
{
    size_t length = strlen(text);
    return (size_t)(span.end - span.begin) == length && memcmp(span.begin, text, length) == 0;
}

static void
skip_space(struct scan *scan)
{
    while (scan->at < scan->end &&
           (*scan->at == ' ' || *scan->at == '\n' || *scan->at == '\r' || *scan->at == '\t'))
        scan->at++;
}

/* Take one sign, with the space before it. */
static bool
take(struct scan *scan, char sign)
{
    skip_space(scan);
    if (scan->at == scan->end || *scan->at != sign)
        return false;
    scan->at++;
    return true;
}

static bool
take_string(struct scan *scan, struct span *content)
{
    if (!take(scan, '"'))
        return false;
    content->begin = scan->at;
    for (; scan->at < scan->end; scan->at++) {
        char sign = *scan->at;
        if (sign == '"') {
            content->end = scan->at++;
            return true;
        }
        if (sign < 0x20 || sign > 0x7e || sign == '\\')
            return false;
    }
    return false;
}

/* Whether the bits that padding leaves over are zero (RFC 4648, 3.5): the symbols that may stand before it tell. */
static bool
is_canonical(struct span chunk)
{
    const char *last = chunk.end - 1;
    if (chunk.end - chunk.begin < 4 || *last != '=')
        return true;
    return last[-1] == '=' ? strchr("AQgw", last[-2]) != NULL : strchr("AEIMQUYcgkosw048", last[-1]) != NULL;
}

static bool
is_symbol(char sign)
{
    return (sign >= 'A' && sign <= 'Z') || (sign >= 'a' && sign <= 'z') || (sign >= '0' && sign <= '9') ||
           sign == '+' || sign == '/' || sign == '=';
}

/* Where a chunk ends. Mostly little follows a large one, so the last bytes of the message are searched first: behind
 * symbols alone, the first quote among them ends the chunk, or what is taken for it is not base64. */
static const char *
end_of_chunk(const struct scan *scan)
{
    if (scan->end - scan->at > 8 * TAIL_BYTES) {
        const char *at = scan->end - TAIL_BYTES;
        const char *begin = at;
        while (at < scan->end && is_symbol(*at))
            at++;
        if (at > begin && at < scan->end && *at == '"')
            return at;
    }
    return memchr(scan->at, '"', (size_t)(scan->end - scan->at));
}

/* A string of which only the end is looked at, if it may be long. */
static bool
take_chunk(struct scan *scan)
{
    struct span left;
    if (scan->chunk.begin != NULL)
        return false;
    if (scan->end - scan->at < LIFTED_BYTES)
        return take_string(scan, &left) && is_canonical(left);
    if (!take(scan, '"'))
        return false;
    const char *quote = end_of_chunk(scan);
    if (quote == NULL)
        return false;
    scan->chunk = (struct span){scan->at, quote};
    scan->at = quote + 1;
    return is_canonical(scan->chunk);
}

static bool
take_integer(struct scan *scan)
{
    if (*scan->at == '-')
        scan->at++;
    const char *digits = scan->at;
    while (scan->at < scan->end && *scan->at >= '0' && *scan->at <= '9')
        scan->at++;
    long count = scan->at - digits;
    if (count < 1 || count > MAX_DIGITS || (count > 1 && *digits == '0'))
        return false;
    return scan->at < scan->end && strchr(",]} \t\r\n", *scan->at) != NULL && *scan->at != '\0';
}

static bool
take_word(struct scan *scan, const char *word)
{
    size_t length = strlen(word);
    if ((size_t)(scan->end - scan->at) < length || memcmp(scan->at, word, length) != 0)
        return false;
    scan->at += length;
    return true;
}

static bool take_object(struct scan *scan, bool is_params);
static bool take_array(struct scan *scan);

static bool
take_value(struct scan *scan)
{
    struct span ignored;
    skip_space(scan);
    if (scan->at == scan->end || scan->values_left-- <= 0)
        return false;
    switch (*scan->at) {
    case '{':
        return take_object(scan, false);
    case '[':
        return take_array(scan);
    case '"':
        return take_string(scan, &ignored);
    case 't':
        return take_word(scan, "true");
    case 'f':
        return take_word(scan, "false");
    case 'n':
        return take_word(scan, "null");
    default:
        return take_integer(scan);
    }
}

static bool
take_array(struct scan *scan)
{
    if (scan->depth_left-- <= 0 || !take(scan, '['))
        return false;
    if (!take(scan, ']')) {
        do {
            if (!take_value(scan))
                return false;
        } while (take(scan, ','));
        if (!take(scan, ']'))
            return false;
    }
    scan->depth_left++;
    return true;
}

/* The key of a member and the colon; not one of those before it. */
static bool
take_key(struct scan *scan, struct span *keys, int count)
{
    if (count == MAX_KEYS || !take_string(scan, &keys[count]) || !take(scan, ':'))
        return false;
    size_t length = (size_t)(keys[count].end - keys[count].begin);
    if (length > MAX_KEY_BYTES)
        return false;
    for (int other = 0; other < count; other++)
        if ((size_t)(keys[other].end - keys[other].begin) == length &&
            memcmp(keys[other].begin, keys[count].begin, length) == 0)
            return false;
    return true;
}

static bool
take_object(struct scan *scan, bool is_params)
{
    struct span keys[MAX_KEYS];
    int count = 0;
    if (scan->depth_left-- <= 0 || !take(scan, '{'))
        return false;
    if (!take(scan, '}')) {
        do {
            if (!take_key(scan, keys, count))
                return false;
            bool is_chunk = is_params && (is_text(keys[count], "chunk") || is_text(keys[count], "dataBase64"));
            if (is_chunk ? scan->values_left-- <= 0 || !take_chunk(scan) : !take_value(scan))
                return false;
            count++;
        } while (take(scan, ','));
        if (!take(scan, '}'))
            return false;
    }
    scan->depth_left++;
    return true;
}

static bool
take_id(struct scan *scan)
{
    struct span ignored;
    skip_space(scan);
    const char *begin = scan->at;
    if (begin == scan->end || scan->values_left-- <= 0)
        return false;
    if (!(*begin == '"' ? take_string(scan, &ignored) : take_integer(scan)))
        return false;
    scan->id = (struct span){begin, scan->at};
    return true;
}

static bool
take_params(struct scan *scan)
{
    skip_space(scan);
    const char *begin = scan->at;
    if (begin == scan->end || scan->values_left-- <= 0)
        return false;
    if (*begin == 'n')
        return take_word(scan, "null");
    if (!take_object(scan, true))
        return false;
    scan->params = (struct span){begin, scan->at};
    return true;
}

static bool
take_member(struct scan *scan, struct span key)
{
    if (is_text(key, "id"))
        return take_id(scan);
    if (is_text(key, "method"))
        return scan->values_left-- > 0 && take_string(scan, &scan->method);
    if (is_text(key, "params"))
        return take_params(scan);
    return is_text(key, "jsonrpc") && take_value(scan);
}

static bool
take_request(struct scan *scan)
{
    struct span keys[MAX_KEYS];
    int count = 0;
    if (scan->values_left-- <= 0 || scan->depth_left-- <= 0 || !take(scan, '{'))
        return false;
    do {
        if (!take_key(scan, keys, count) || !take_member(scan, keys[count]))
            return false;
        count++;
    } while (take(scan, ','));
    if (!take(scan, '}'))
        return false;
    skip_space(scan);
    return scan->at == scan->end && scan->id.begin != NULL && scan->method.begin != NULL;
}

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

/* The parameters without the content of the chunk, so that its member is an empty string; None if there are none. */
static PyObject *
params_of(const struct scan *scan)
{
    if (scan->params.begin == NULL)
        return Py_NewRef(Py_None);
    if (scan->chunk.begin == NULL)
        return PyBytes_FromStringAndSize(scan->params.begin, scan->params.end - scan->params.begin);
    Py_ssize_t before = scan->chunk.begin - scan->params.begin;
    Py_ssize_t after = scan->params.end - scan->chunk.end;
    PyObject *params = PyBytes_FromStringAndSize(NULL, before + after);
    if (params != NULL) {
        char *content = PyBytes_AsString(params);
        memcpy(content, scan->params.begin, (size_t)before);
        memcpy(content + before, scan->chunk.end, (size_t)after);
    }
    return params;
}

static PyObject *
answer(const struct scan *scan, const char *message)
{
    Py_ssize_t begin = scan->chunk.begin == NULL ? -1 : scan->chunk.begin - message;
    Py_ssize_t end = scan->chunk.begin == NULL ? -1 : scan->chunk.end - message;
    PyObject *parts[] = {
        id_of(scan->id), text_of(scan->method), params_of(scan), PyLong_FromSsize_t(begin), PyLong_FromSsize_t(end),
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
                       "Give id, method, parameters without their chunk if it is long, and where that begins and\n"
                       "ends (-1 if it was left); None if the message is not a plain request.");

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
    struct scan found = {
        .at = text,
        .end = text + message.len,
        .values_left = max_values,
        .depth_left = max_depth < MAX_DEPTH ? (int)max_depth : MAX_DEPTH,
    };
    PyObject *result = take_request(&found) ? answer(&found, text) : Py_NewRef(Py_None);
    PyBuffer_Release(&message);
    return result;
}

static bool
is_name_sign(char sign)
{
    return (sign >= 'a' && sign <= 'z') || (sign >= 'A' && sign <= 'Z') || (sign >= '0' && sign <= '9') ||
           sign == '_' || sign == '-' || sign == '.';
}

/* Whether these are names, each behind a slash; one that begins with a dot may be more than a name. */
static bool
is_plain_path(const char *at, const char *end)
{
    if (at == end)
        return false;
    while (at < end) {
        if (*at++ != '/' || at == end || *at == '.' || !is_name_sign(*at))
            return false;
        while (at < end && is_name_sign(*at))
            at++;
    }
    return true;
}

PyDoc_STRVAR(plain_path_doc, "plain_path(text, /)\n--\n\n"
                             "Give the path of a file: URI; None if something is to be decoded, resolved or refused.");

static PyObject *
plain_path(PyObject *module, PyObject *text)
{
    static const char scheme[] = "file://";
    const Py_ssize_t scheme_bytes = sizeof scheme - 1;
    (void)module;
    Py_ssize_t bytes;
    const char *uri = PyUnicode_AsUTF8AndSize(text, &bytes);
    if (uri == NULL) {
        /* A lone surrogate has no UTF-8. */
        if (!PyErr_ExceptionMatches(PyExc_UnicodeEncodeError))
            return NULL;
        PyErr_Clear();
        Py_RETURN_NONE;
    }
    if (bytes < scheme_bytes || memcmp(uri, scheme, (size_t)scheme_bytes) != 0 ||
        !is_plain_path(uri + scheme_bytes, uri + bytes))
        Py_RETURN_NONE;
    return PyUnicode_FromStringAndSize(uri + scheme_bytes, bytes - scheme_bytes);
}

static PyMethodDef functions[] = {
    {"scan", (PyCFunction)(void (*)(void))scan, METH_FASTCALL, scan_doc},
    {"plain_path", plain_path, METH_O, plain_path_doc},
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
