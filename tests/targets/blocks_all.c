// blocks_all MS [child]: blocks every signal by a raw system call, which no library can intercept, and burns MS of CPU time; with `child` a
// forked child does the same while the parent waits. The last line is `burnt MS`.
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void burn_blocked(int64_t ms) {
    uint64_t all = ~(uint64_t)0;
    syscall(SYS_rt_sigprocmask, 0 /* SIG_BLOCK */, &all, NULL, sizeof all);
    struct timespec now;
    volatile double x = 1;
    do {
        for (int i = 0; i < 10000; i++) x = x * 1.0000001 + 0.5;
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    } while (now.tv_sec * 1000LL + now.tv_nsec / 1000000 < ms);
}

int main(int count, char **arguments) {
    if (count < 2) return 2;
    int64_t ms = atoll(arguments[1]);
    pid_t child = count > 2 ? fork() : -1;
    if (child != 0) burn_blocked(ms);
    if (child == 0) {
        burn_blocked(ms);
        _exit(0);
    }
    if (child > 0) waitpid(child, NULL, 0);
    printf("burnt %ld\n", (long)ms);
    return 0;
}
