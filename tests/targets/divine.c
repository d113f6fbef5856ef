// divine FACTOR SECONDS: runs two blocks in turn for SECONDS of CPU time, the second one FACTOR times as often as the first. Both do the
// same work, of about 20 us, so that their shares follow from FACTOR alone.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static int64_t cpu_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

#define BLOCK(name)                                                                                      \
    __attribute__((noipa)) static uint64_t name(uint64_t value) {                                         \
        for (int i = 0; i < 16000; i++) value = value * 6364136223846793005ULL + 1442695040888963407ULL; \
        asm volatile("");                                                                                \
        return value;                                                                                    \
    }
BLOCK(steady)
BLOCK(slowed)

int main(int count, char **arguments) {
    if (count < 3) return 2;
    int factor = atoi(arguments[1]);
    int64_t end = cpu_ns() + (int64_t)(atof(arguments[2]) * 1e9);
    uint64_t value = 1;
    while (cpu_ns() < end) {
        value = steady(value);
        for (int i = 0; i < factor; i++) value = slowed(value);
    }
    return value == 0;
}
