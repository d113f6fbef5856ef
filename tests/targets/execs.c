// execs slow COUNT | fast COUNT | last COUNT: a chain of COUNT execs in one process; `slow` burns
// 20 ms of CPU time before each, `last` 400 ms after the last one. Ends with status 7 and prints
// `executed COUNT`.
//
// Every second image is bare: it runs without LD_PRELOAD (and hands it on in its arguments), so
// whatever a profiler left armed meets a program that has no handler for it. The way to exec changes
// from image to image.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

extern char **environ;
static volatile double sink;

__attribute__((noinline)) static void burn(int64_t ns) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    int64_t until = now.tv_sec * 1000000000LL + now.tv_nsec + ns;
    double x = 1;
    do {
        for (int i = 0; i < 10000; i++) x = x * 1.0000001 + 0.5;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    } while (now.tv_sec * 1000000000LL + now.tv_nsec < until);
    sink = x;
}

int main(int count, char **arguments) {
    if (count < 3) return 2;
    char *mode = arguments[1], *preload = count > 4 ? arguments[4] : getenv("LD_PRELOAD");
    int total = atoi(arguments[2]), done = count > 3 ? atoi(arguments[3]) : 0;
    if (!strcmp(mode, "slow")) burn(20000000);
    if (done == total) {
        if (!strcmp(mode, "last")) burn(400000000);
        printf("executed %d\n", done);
        return 7;
    }
    char number[16];
    snprintf(number, sizeof number, "%d", done + 1);
    char *next[] = {arguments[0], mode, arguments[2], number, preload ? preload : "", 0};
    if (done % 2 == 0) unsetenv("LD_PRELOAD");
    else if (next[4][0]) setenv("LD_PRELOAD", next[4], 1);
    switch (done / 2 % 5) {
    case 0: execve(arguments[0], next, environ); break;
    case 1: execv(arguments[0], next); break;
    case 2: execvp(arguments[0], next); break;
    case 3: execl(arguments[0], next[0], next[1], next[2], next[3], next[4], (char *)0); break;
    case 4: fexecve(open(arguments[0], O_RDONLY | O_CLOEXEC), next, environ); break;
    }
    perror("exec");
    return 3;
}
