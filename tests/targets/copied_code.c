/* Maps the page of its own file that holds work() once more, far from its image, as V8 does with
   its built-in functions, and calls it there for 1 s of CPU time. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* It calls nothing and reads no data, so that it works at any address. */
__attribute__((noinline, aligned(4096))) uint64_t work(uint64_t seed) {
    for (int turn = 0; turn < 1000000; turn++) seed = seed * 6364136223846793005ull + (seed >> 33);
    return seed;
}

__attribute__((noinline)) static uint64_t drive(uint64_t (*copied)(uint64_t)) {
    struct timespec used;
    uint64_t seed = 1;
    do {
        seed = copied(seed);
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    } while (used.tv_sec < 1);
    return seed;
}

int main(void) {
    char line[512];
    unsigned long start, end, offset, here = (unsigned long)work;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) {
        if (sscanf(line, "%lx-%lx %*s %lx", &start, &end, &offset) == 3 && start <= here && here < end) {
            int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
            void *page = mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, offset + (here - start));
            if (page == MAP_FAILED) return 2;
            return drive((uint64_t (*)(uint64_t))page) == 0;
        }
    }
    return 3;
}
