// turns MS BEFORE AFTER: burns its own CPU time in burn_a, burn_b and burn_c, in turns of about MS milliseconds, drawn by lot: 2 to 1 to 1.
// After BEFORE seconds of that, burn_b has twice its share, for AFTER seconds. Prints when, on CLOCK_MONOTONIC: a line of `doubled nanoseconds`.
//
// The load is the same all the time and yet comes in bursts, the longer ones the longer the turns are.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define NOINLINE __attribute__((noipa))

static volatile double sink;

static int64_t clock_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

#define BURNER(name, factor)                                                                                                   \
    NOINLINE void name(int64_t ns) {                                                                                           \
        double x = factor;                                                                                                     \
        int64_t end = clock_ns(CLOCK_THREAD_CPUTIME_ID) + ns;                                                                  \
        while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < end)                                                                        \
            for (int i = 0; i < 20000; i++) x = x * 1.0000001 + factor;                                                        \
        sink = x;                                                                                                              \
    }
BURNER(burn_a, 0.5)
BURNER(burn_b, 0.25)
BURNER(burn_c, 0.125)

int main(int count, char **arguments) {
    if (count < 4) return 2;
    int64_t turn_ns = atof(arguments[1]) * 1e6;
    int64_t change = atof(arguments[2]) * 1e9, end = change + atof(arguments[3]) * 1e9;
    uint64_t random = 88172645463325252ULL;
    int doubled = 0;
    for (int64_t now; (now = clock_ns(CLOCK_THREAD_CPUTIME_ID)) < end;) {
        if (!doubled && now >= change) {
            doubled = 1;
            printf("doubled %lld\n", (long long)clock_ns(CLOCK_MONOTONIC));
            fflush(stdout);
        }
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        double lot = (random >> 11) * 0x1p-53, b = doubled ? 0.5 : 0.25;
        int64_t ns = turn_ns / 2 + (int64_t)((random >> 5) % (uint64_t)turn_ns);
        (lot < b ? burn_b : lot < b + (1 - b) * 2 / 3 ? burn_a : burn_c)(ns);
    }
    return 0;
}
