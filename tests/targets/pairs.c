// `pairs N`: N pairs of malloc and free of 64 bytes, and the CPU time of a pair in picoseconds.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return time.tv_sec * 1000000000ull + time.tv_nsec;
}

int main(int argc, char **argv) {
    uint64_t count = argc > 1 ? strtoull(argv[1], NULL, 10) : 10000000;
    // The clock of allocations has begun by now.
    for (int i = 0; i < 1000; i++) free(malloc(64));
    uint64_t before = now();
    for (uint64_t i = 0; i < count; i++) {
        void *volatile memory = malloc(64);
        free(memory);
    }
    printf("pair %llu\n", (unsigned long long)((now() - before) * 1000 / count));
    return 0;
}
