// What code.elf is made of: calls through stubs and tables, loops, jumps, vectors, and code from a template and an inlined
// function. Made by: g++ -O2 -g1 -fno-exceptions -fno-asynchronous-unwind-tables -ffile-prefix-map=$PWD=/src -o code.elf code.cc
#include <math.h>
#include <stdlib.h>
#include <string.h>

namespace app {
static long calls;
static int order(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

__attribute__((noinline)) long mix(const char *text, long seed) {
    for (size_t at = 0; at < strlen(text); at++)
        seed = (seed ^ text[at]) * 1099511628211L;
    return ++calls, seed;
}

template <class T> __attribute__((noinline)) T twice(T value) {
    if (value < 0)
        abort();
    return value + value;
}

static inline double root(double value) { return value > 2 ? sqrt(value) : value; }

__attribute__((noinline)) double sum(int *values, int count) {
    double all = 0;
    qsort(values, count, sizeof *values, order);
    for (int at = 0; at < count; at++)
        all += root(twice(values[at])) * (float)twice<long>(at);
    return all;
}

__attribute__((noinline)) int choose(int which) {
    switch (which) {
    case 0: return 11;
    case 1: return calls;
    case 2: return mix("two", 2);
    case 3: return 7 * which;
    case 4: return strlen((const char *)&calls);
    case 5: return __builtin_popcountl(calls);
    default: return -1;
    }
}
}

int main(int count, char **words) {
    int values[64];
    for (int at = 0; at < 64; at++)
        values[at] = app::mix(words[0], at) & 1023;
    return app::sum(values, 64) > 9 ? app::choose(count) : 0;
}
