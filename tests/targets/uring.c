// uring SECONDS: has a thread of the kernel poll an empty ring of io_uring. Ends with 3 where that is not allowed. Prints the CPU time
// of the process in ns.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SQPOLL 2
#define SQ_WAKEUP 2

static long now_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

int main(int count, char **arguments) {
    if (count < 2) return 2;
    // struct io_uring_params: the third word has the flags, the fifth the time in ms after which an idle thread sleeps.
    unsigned parameters[30] = {0, 0, SQPOLL, 0, 100000};
    int ring = syscall(SYS_io_uring_setup, 4, parameters);
    if (ring < 0) return 3;
    long end_ns = now_ns(CLOCK_MONOTONIC) + atol(arguments[1]) * 1000000000L;
    while (now_ns(CLOCK_MONOTONIC) < end_ns) {
        syscall(SYS_io_uring_enter, ring, 0, 0, SQ_WAKEUP, 0, 0);
        usleep(50000);
    }
    printf("used %ld\n", now_ns(CLOCK_PROCESS_CPUTIME_ID));
    return 0;
}
