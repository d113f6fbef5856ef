// spike BEFORE SPIKE AFTER: naps for BEFORE seconds with a little work, burns SPIKE seconds of CPU time in `burst`, and naps for AFTER seconds.
// Prints the CPU time of the burst in nanoseconds.
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

NOINLINE void burn(int64_t ns) {
    int64_t until = clock_ns(CLOCK_PROCESS_CPUTIME_ID) + ns;
    double x = 1;
    while (clock_ns(CLOCK_PROCESS_CPUTIME_ID) < until)
        for (int i = 0; i < 10000; i++) x = x * 1.0000001 + 0.5;
    sink = x;
}

NOINLINE void steady(double seconds) {
    int64_t until = clock_ns(CLOCK_MONOTONIC) + (int64_t)(seconds * 1e9);
    struct timespec pause = {0, 20000000};
    while (clock_ns(CLOCK_MONOTONIC) < until) {
        burn(4000000);
        nanosleep(&pause, 0);
    }
    sink = 0;
}

NOINLINE void burst(double seconds) {
    burn((int64_t)(seconds * 1e9));
    sink = 1;
}

int main(int count, char **arguments) {
    if (count < 4) return 2;
    steady(atof(arguments[1]));
    int64_t start = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    burst(atof(arguments[2]));
    printf("%ld\n", (long)(clock_ns(CLOCK_PROCESS_CPUTIME_ID) - start));
    steady(atof(arguments[3]));
    return 0;
}
