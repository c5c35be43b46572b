/* paddock.protocol._scanner: finds the parts of a message without making objects of them.
 *
 * An extension module, loaded into the server and the client. It reads what the other side sends, so it trusts nothing:
 * it goes from the first byte to the last, keeps no state and allocates nothing but its answer. It accepts only a request,
 * a notification or a result in plain JSON - no escapes and no bytes beyond ASCII in strings, no fractions, no key twice.
 * It says None to everything else, which paddock/protocol/codec.py then reads or refuses. It knows the envelope and no
 * method: a string of the body that may be base64 it leaves out, for whoever knows whether it has to be. It has the
 * privileges of the process and adds none.
 *
 * Compiled against the limited API of Python 3.11, so that one file serves every later version.
 */
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <string.h>

/* How deep, with how many keys in one object, and with keys of how many bytes a message is still plain: any real one
 * is below these. Keys are compared with each other, so their number and length bound the work. */
#define MAX_DEPTH 16
#define MAX_KEYS 64
#define MAX_KEY_BYTES 256

/* A string of the body that is this long may be base64, for which there are quicker decoders than a JSON parser's. A
 * short one may be if it ends with padding, which parsers do not check. */
#define LONG_BYTES 1024

/* How far from the end of a message a long string ends, mostly. */
#define TAIL_BYTES 256

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
    /* The parameters or the result if they are an object, whether either was there, and whether it was a result. */
    struct span body;
    bool has_body;
    bool is_result;
    /* The string of the body that may be base64, and its key. Nobody has looked into a long one. */
    struct span encoded_key;
    struct span encoded;
    /* Whether where that ends was guessed, and whether it may be. */
    bool is_guess;
    bool may_guess;
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

static bool take_object(struct scan *scan, bool is_body);
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

static bool
take_long_string(struct scan *scan, struct span *content)
{
    const char *begin = scan->at + 1;
    if (scan->end - begin < LONG_BYTES || memchr(begin, '"', LONG_BYTES) != NULL)
        return false;
    /* To search all of it takes as long as to decode a third. Where the guess is wrong there is a quote in between,
     * which no base64 has, and mostly the rest of the message makes no sense. */
    const char *from = scan->may_guess && scan->end - begin > 2 * LONG_BYTES ? scan->end - TAIL_BYTES : begin;
    const char *quote = memchr(from, '"', (size_t)(scan->end - from));
    if (quote == NULL)
        return false;
    scan->is_guess = from != begin;
    *content = (struct span){begin, quote};
    scan->at = quote + 1;
    return true;
}

/* A value of the body. */
static bool
take_body_value(struct scan *scan, struct span key)
{
    struct span content;
    skip_space(scan);
    if (scan->at == scan->end || *scan->at != '"')
        return take_value(scan);
    if (scan->values_left-- <= 0)
        return false;
    if (!take_long_string(scan, &content)) {
        if (!take_string(scan, &content))
            return false;
        if (content.end[-1] != '=')
            return true;
    }
    if (scan->encoded.begin != NULL)
        return false;
    scan->encoded_key = key;
    scan->encoded = content;
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
take_object(struct scan *scan, bool is_body)
{
    struct span keys[MAX_KEYS];
    int count = 0;
    if (scan->depth_left-- <= 0 || !take(scan, '{'))
        return false;
    if (!take(scan, '}')) {
        do {
            if (!take_key(scan, keys, count))
                return false;
            if (!(is_body ? take_body_value(scan, keys[count]) : take_value(scan)))
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
take_body(struct scan *scan, bool is_result)
{
    skip_space(scan);
    const char *begin = scan->at;
    if (begin == scan->end || scan->has_body || scan->values_left-- <= 0)
        return false;
    scan->has_body = true;
    scan->is_result = is_result;
    if (*begin == 'n')
        return take_word(scan, "null");
    if (!take_object(scan, true))
        return false;
    scan->body = (struct span){begin, scan->at};
    return true;
}

static bool
take_member(struct scan *scan, struct span key)
{
    if (is_text(key, "id"))
        return take_id(scan);
    if (is_text(key, "method"))
        return scan->values_left-- > 0 && take_string(scan, &scan->method);
    if (is_text(key, "params") || is_text(key, "result"))
        return take_body(scan, is_text(key, "result"));
    return is_text(key, "jsonrpc") && take_value(scan);
}

/* Only a message without a method is a result. */
static bool
take_message(struct scan *scan)
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
    return scan->at == scan->end && scan->is_result == (scan->method.begin == NULL);
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

/* The body without what may be base64, so that the member is an empty string. */
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
    struct scan begin = {
        .at = text,
        .end = text + message.len,
        .values_left = max_values,
        .depth_left = max_depth < MAX_DEPTH ? (int)max_depth : MAX_DEPTH,
    };
    struct scan found = begin;
    found.may_guess = true;
    bool is_plain = take_message(&found);
    if (!is_plain && found.is_guess) {
        found = begin;
        is_plain = take_message(&found);
    }
    PyObject *result = is_plain ? answer(&found, text) : Py_NewRef(Py_None);
    PyBuffer_Release(&message);
    return result;
}

static PyMethodDef functions[] = {
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
