// Forks COUNT children, one after another, each of which uses MS milliseconds of CPU time and ends.
// Prints what all of them and the parent have used.
//   children COUNT MS
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int64_t cpu_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

__attribute__((noipa)) static void burn(int64_t ms) {
    volatile double x = 1;
    for (int64_t end = cpu_ns() + ms * 1000000; cpu_ns() < end;)
        for (int i = 0; i < 1000; i++) x = x * 1.0000001 + 0.5;
    asm volatile("");
}

static int64_t used_ns(int who) {
    struct rusage used;
    getrusage(who, &used);
    return (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000000LL + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1000LL;
}

int main(int count, char **arguments) {
    if (count < 3) return 2;
    for (int left = atoi(arguments[1]); left > 0; left--) {
        pid_t child = fork();
        if (child == 0) {
            burn(atoll(arguments[2]));
            _exit(0);
        }
        waitpid(child, 0, 0);
    }
    printf("process %lld\n", (long long)(used_ns(RUSAGE_SELF) + used_ns(RUSAGE_CHILDREN)));
    return 0;
}
