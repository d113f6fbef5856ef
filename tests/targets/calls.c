// calls short|long SECONDS: over and over computes for some 40 us and then makes 120 short system calls, or reads 512 KiB from the
// page cache. Prints the user and the system time of the process, ns.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SIZE = 512 << 10 };
static volatile double sink;

__attribute__((noipa)) static void compute(void) {
    double x = sink;
    for (int i = 0; i < 30000; i++) x = x * 1.0000001 + 0.5;
    sink = x;
}

// The call is in this function itself, so that no time in a library counts as the call's.
__attribute__((noipa)) static long in_kernel(long number, long a, void *b, long c, long offset) {
    long result;
    register long fourth __asm__("r10") = offset;
    __asm__ volatile("syscall" : "=a"(result) : "0"(number), "D"(a), "S"(b), "d"(c), "r"(fourth) : "rcx", "r11", "memory");
    return result;
}

static long ns(struct timeval time) { return time.tv_sec * 1000000000L + time.tv_usec * 1000L; }

int main(int count, char **arguments) {
    if (count < 3) return 2;
    int is_long = !strcmp(arguments[1], "long"), file = memfd_create("pages", 0);
    char *buffer = malloc(SIZE);
    if (write(file, memset(buffer, 1, SIZE), SIZE) != SIZE) return 3;
    struct rusage used;
    double end = atof(arguments[2]) * 1e9;
    do {
        for (int round = 0; round < 100; round++) {
            compute();
            if (is_long) in_kernel(SYS_pread64, file, buffer, SIZE, 0);
            else
                for (int i = 0; i < 120; i++) in_kernel(SYS_getppid, 0, 0, 0, 0);
        }
        getrusage(RUSAGE_SELF, &used);
    } while (ns(used.ru_utime) + ns(used.ru_stime) < end);
    printf("user %ld\nsystem %ld\n", ns(used.ru_utime), ns(used.ru_stime));
    return 0;
}
