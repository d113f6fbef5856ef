// Work that repeats: of every CYCLE microseconds of its CPU time the first SHARE per cent are spent
// in first_part, the others in second_part, for SECONDS. Prints what the process has used.
//   periodic CYCLE SHARE SECONDS
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static int64_t now_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void burn_until(int64_t end) {
    volatile double x = 1;
    while (now_ns(CLOCK_THREAD_CPUTIME_ID) < end)
        for (int i = 0; i < 500; i++) x = x * 1.0000001 + 0.5;
}

__attribute__((noipa)) static void first_part(int64_t end) {
    burn_until(end);
    asm volatile("");
}

__attribute__((noipa)) static void second_part(int64_t end) {
    burn_until(end);
    asm volatile("");
}

int main(int count, char **arguments) {
    if (count < 4) return 2;
    int64_t cycle = atoll(arguments[1]) * 1000, first = cycle * atoi(arguments[2]) / 100;
    int64_t start = now_ns(CLOCK_THREAD_CPUTIME_ID), end = start + (int64_t)(atof(arguments[3]) * 1e9);
    for (int64_t at = start; at < end; at += cycle) {
        first_part(at + first);
        second_part(at + cycle);
    }
    printf("process %lld\n", (long long)now_ns(CLOCK_PROCESS_CPUTIME_ID));
    return 0;
}
