/*
 * Memory and strings without a C library (bare.h): string(3), as far as paddock-init uses it.
 *
 * Privilege: none; it calls nothing.
 */
#ifndef PADDOCK_BARE_STRING_H
#define PADDOCK_BARE_STRING_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* In assembler, because the compiler turns an equivalent loop into a call of memcpy or memset. */
void *memcpy(void *restrict to, const void *restrict from, size_t size) {
    void *result = to;
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(size) : : "memory");
    return result;
}

void *memset(void *to, int byte, size_t size) {
    void *result = to;
    __asm__ volatile("rep stosb" : "+D"(to), "+c"(size) : "a"(byte) : "memory");
    return result;
}

void *mempcpy(void *restrict to, const void *restrict from, size_t size) {
    return (char *)memcpy(to, from, size) + size;
}

int memcmp(const void *one, const void *other, size_t size) {
    const unsigned char *a = one, *b = other;
    for (; size > 0 && *a == *b; size--)
        a++, b++;
    return size > 0 ? *a - *b : 0;
}

size_t strlen(const char *text) {
    size_t length = 0;
    while (text[length])
        length++;
    return length;
}

char *stpcpy(char *restrict to, const char *restrict from) {
    size_t length = strlen(from);
    return (char *)memcpy(to, from, length + 1) + length;
}

int strncmp(const char *one, const char *other, size_t size) {
    for (; size > 0 && *one && *one == *other; size--)
        one++, other++;
    return size > 0 ? (unsigned char)*one - (unsigned char)*other : 0;
}

int strcmp(const char *one, const char *other) {
    return strncmp(one, other, SIZE_MAX);
}

char *strchrnul(const char *text, int c) {
    while (*text && *text != (char)c)
        text++;
    return (char *)text;
}

char *strchr(const char *text, int c) {
    char *found = strchrnul(text, c);
    return *found == (char)c ? found : NULL;
}

char *strrchr(const char *text, int c) {
    const char *last = NULL;
    for (; (text = strchr(text, c)); text++)
        last = text;
    return (char *)last;
}

size_t strspn(const char *text, const char *accepted) {
    size_t length = 0;
    while (text[length] && strchr(accepted, text[length]))
        length++;
    return length;
}

size_t strcspn(const char *text, const char *refused) {
    size_t length = 0;
    while (text[length] && !strchr(refused, text[length]))
        length++;
    return length;
}

#endif
