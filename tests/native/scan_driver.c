/* The scanner of messages (native/scan.h). Input: limits of values and of depth, and a message. */
#include "harness.h"

#include "scan.h"

const char *const dictionary[] = {
    "{", "}", "[", "]", ",", ":", "\"", "null", "true", "false", "-", "0", "{\"id\":1,", "\"id\":", "\"method\":", "\"params\":{",
    "\"result\":{", "\"jsonrpc\":\"2.0\"", "=\"", "\\u0000", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", NULL,
};

static bool is_in(struct span inner, struct span outer) {
    return inner.begin >= outer.begin && inner.begin <= inner.end && inner.end <= outer.end;
}

void try_input(const uint8_t *data, size_t size) {
    struct input input = {data, data + size};
    long max_values = take_byte(&input), max_depth = take_byte(&input);
    size_t length = left_of(&input);
    const char *text = copy_of(input.at, length);
    struct span message = {text, text + length};
    struct scan found;
    if (!scan_message(text, length, max_values, max_depth, &found))
        return;
    check(!found.id.begin || (is_in(found.id, message) && found.id.end > found.id.begin), "an id is in the message");
    check(!found.method.begin || is_in(found.method, message), "a method is in the message");
    check(found.is_result == !found.method.begin, "what has no method is a result");
    check(!found.body.begin || is_in(found.body, message), "a body is in the message");
    if (!found.body.begin)
        check(!found.encoded.begin, "without a body nothing is encoded");
    if (!found.encoded.begin)
        return;
    check(is_in(found.encoded, found.body) && is_in(found.encoded_key, found.body), "what is encoded is in the body");
    check(found.encoded.begin[-1] == '"' && *found.encoded.end == '"', "what is encoded is a string");
}
