// duty SECONDS: eight threads work and sleep by turns, from 100 to 5 percent of the time, until they have used SECONDS of CPU time. Each prints
// at its end `tid nanoseconds`: its id and its own CLOCK_THREAD_CPUTIME_ID.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const int duty[8] = {100, 80, 60, 45, 30, 20, 10, 5};
static int64_t total_ns;
static volatile double sink;

static int64_t clock_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void *work(void *argument) {
    int64_t percent = *(const int *)argument;
    uint64_t random = 88172645463325252ULL ^ (uint64_t)percent;
    while (clock_ns(CLOCK_PROCESS_CPUTIME_ID) < total_ns) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        int64_t quantum = 500000 + (int64_t)(random % 9000000), until = clock_ns(CLOCK_THREAD_CPUTIME_ID) + quantum;
        double x = 1;
        while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < until)
            for (int i = 0; i < 10000; i++) x = x * 1.0000001 + 0.5;
        sink = x;
        int64_t rest = quantum * (100 - percent) / percent;
        struct timespec pause = {rest / 1000000000, rest % 1000000000};
        if (rest > 0) nanosleep(&pause, 0);
    }
    printf("%ld %ld\n", syscall(SYS_gettid), (long)clock_ns(CLOCK_THREAD_CPUTIME_ID));
    return 0;
}

int main(int count, char **arguments) {
    if (count < 2) return 2;
    total_ns = atof(arguments[1]) * 1e9;
    pthread_t threads[8];
    for (int i = 0; i < 8; i++) pthread_create(&threads[i], 0, work, (void *)&duty[i]);
    for (int i = 0; i < 8; i++) pthread_join(threads[i], 0);
    return 0;
}
