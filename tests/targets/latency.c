/* One thread computes alone in alone(), then two compute at a time in both(). Usage:
   latency ALONE_MS BOTH_MS. Each thread notes when it was on a processor: between two looks at the
   clock that are close together. It prints, in millionths, the share of alone() in the wall-clock
   time with a thread on a processor, where the time with two is half each one's, its share in the
   CPU time, and the share of the time for which its threads wanted a processor and had one. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { SLICES = 100000 };

/* The time that threads were on a processor in each 100 us. */
static uint64_t slice_ns[2][SLICES];
static uint64_t start_ns;

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ull + now.tv_nsec;
}

static void note(int thread, uint64_t from_ns, uint64_t to_ns) {
    uint64_t slice = (from_ns - start_ns) / 100000;
    if (to_ns - from_ns < 50000 && slice < SLICES) slice_ns[thread][slice] += to_ns - from_ns;
}

#define BURN(name)                                                                   \
    __attribute__((noinline)) void name(int thread, uint64_t end_ns) {               \
        uint64_t before_ns = now_ns();                                               \
        while (before_ns < end_ns) {                                                 \
            for (volatile int turn = 0; turn < 1000; turn++) {}                      \
            uint64_t after_ns = now_ns();                                            \
            note(thread, before_ns, after_ns);                                       \
            before_ns = after_ns;                                                    \
        }                                                                            \
    }
BURN(alone)
BURN(both)

static uint64_t end_ns;

/* Sleeps all the time. */
static void *sleeper(void *unused) {
    for (;;) pause();
    return unused;
}

static void *other(void *unused) {
    both(1, end_ns);
    return unused;
}

int main(int count, char **arguments) {
    if (count < 3) return 2;
    /* Both threads need a processor, whatever else runs; only root gets this. */
    if (nice(-15) == -1) fputs("not preferred\n", stderr);
    start_ns = now_ns();
    uint64_t middle_ns = start_ns + atoll(arguments[1]) * 1000000;
    end_ns = middle_ns + atoll(arguments[2]) * 1000000;
    pthread_t thread;
    if (pthread_create(&thread, 0, sleeper, 0)) return 1;
    alone(0, middle_ns);
    if (pthread_create(&thread, 0, other, 0)) return 1;
    both(0, end_ns);
    pthread_join(thread, 0);

    uint64_t middle = (middle_ns - start_ns) / 100000;
    double cpu[2] = {0, 0}, wall[2] = {0, 0};
    for (uint64_t slice = 0; slice < SLICES; slice++) {
        uint64_t a = slice_ns[0][slice], b = slice_ns[1][slice];
        cpu[slice >= middle] += a + b;
        wall[slice >= middle] += a > b ? a : b;
    }
    printf("wall %.0f\ncpu %.0f\n", 1e6 * wall[0] / (wall[0] + wall[1]), 1e6 * cpu[0] / (cpu[0] + cpu[1]));
    printf("ran %.0f\n", (cpu[0] + cpu[1]) / (middle_ns - start_ns + 2 * (end_ns - middle_ns)) * 1e6);
    return 0;
}
