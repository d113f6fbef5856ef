// generates SECONDS: runs code that it generates, for SECONDS of CPU time each: a function that a perf map names, one that nothing names, and one
// that later replaces the first and is named, too.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static double cpu(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

static void spin(void *code, double seconds) {
    for (double until = cpu() + seconds; cpu() < until;) ((void (*)(int))code)(200000);
}

int main(int count, char **arguments) {
    if (count < 2) return 2;
    double seconds = atof(arguments[1]);
    // mov %edi, %ecx; 1: dec %ecx; jnz 1b; ret
    static const unsigned char loop[] = {0x89, 0xf9, 0xff, 0xc9, 0x75, 0xfc, 0xc3};
    char *page = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(page, loop, sizeof loop);
    memcpy(page + 64, loop, sizeof loop);
    char name[64];
    snprintf(name, sizeof name, "/tmp/perf-%d.map", getpid());
    FILE *map = fopen(name, "w");
    if (page == MAP_FAILED || !map) return 1;
    fprintf(map, "%lx %zx first\n", (unsigned long)page, sizeof loop);
    fflush(map);
    spin(page, seconds);
    spin(page + 64, seconds);
    fprintf(map, "%lx %zx second\n", (unsigned long)page, sizeof loop);
    fclose(map);
    // A reader of the map has time to notice that the code was replaced.
    sleep(2);
    spin(page, seconds);
    return 0;
}
