/* Reads the clock without pause, 24 calls deep, for SECONDS, and keeps the COUNT longest times
   between two looks: a sampler's stops, and what the machine adds. Usage: standstills SECONDS COUNT.
   It prints their median, their 99th percentile, the longest and its own CPU time, all in ns, and
   the number of looks. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static uint64_t gaps[1 << 20];
static size_t count;
static unsigned long looks;

static uint64_t now_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * 1000000000ull + now.tv_nsec;
}

static int longer(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

__attribute__((noinline)) static int look(int depth, uint64_t end_ns) {
    if (depth > 0) return look(depth - 1, end_ns) + depth;
    uint64_t before_ns = now_ns(CLOCK_MONOTONIC);
    while (before_ns < end_ns) {
        uint64_t after_ns = now_ns(CLOCK_MONOTONIC);
        if (after_ns - before_ns >= 1000 && count < sizeof gaps / sizeof *gaps) gaps[count++] = after_ns - before_ns;
        before_ns = after_ns;
        looks++;
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    size_t kept = strtoul(argv[2], 0, 10);
    look(24, now_ns(CLOCK_MONOTONIC) + strtoull(argv[1], 0, 10) * 1000000000ull);
    qsort(gaps, count, sizeof *gaps, longer);
    if (kept > count) kept = count;
    printf("median %llu\np99 %llu\nlongest %llu\nprocess %llu\nlooks %lu\n", (unsigned long long)gaps[kept / 2],
           (unsigned long long)gaps[kept / 100], (unsigned long long)gaps[0],
           (unsigned long long)now_ns(CLOCK_PROCESS_CPUTIME_ID), looks);
}
