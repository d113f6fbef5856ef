// crowd THREADS SECONDS [busy|awake]: so many threads that sleep, and a first thread that burns 100 ms and then naps for so long, in naps of 50 ms:
// one that is interrupted is not gone on with. `busy`: it burns on instead. Prints how many threads there were, how many naps and sleeps were
// interrupted since the burning, and how many naps ended early. The sleepers sleep on at its end; `awake`: they all wake up two seconds later.
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int seconds;
static _Atomic int interrupted;

static int64_t now_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void *sleep_on(void *unused) {
    struct timespec left = {seconds + 2, 0};
    while (nanosleep(&left, &left) && errno == EINTR) interrupted++;
    return unused;
}

__attribute__((noipa)) static void burn(int64_t ns) {
    volatile double x = 1;
    for (int64_t end = now_ns(CLOCK_THREAD_CPUTIME_ID) + ns; now_ns(CLOCK_THREAD_CPUTIME_ID) < end;)
        for (int i = 0; i < 10000; i++) x = x * 1.0000001 + 0.5;
}

int main(int count, char **arguments) {
    if (count < 3) return 2;
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 16384);
    seconds = atoi(arguments[2]);
    int wanted = atoi(arguments[1]), threads = 0, early = 0;
    int busy = count > 3 && !strcmp(arguments[3], "busy"), awake = count > 3 && !strcmp(arguments[3], "awake");
    pthread_t *all = calloc(wanted + 1, sizeof *all);
    while (threads < wanted && !pthread_create(&all[threads], &small, sleep_on, 0)) threads++;
    printf("threads %d\n", threads);
    fflush(stdout);
    burn(100000000);
    interrupted = 0;
    if (busy) burn(seconds * 1000000000LL);
    for (int64_t end = now_ns(CLOCK_MONOTONIC) + (busy ? 0 : seconds * 1000000000LL); now_ns(CLOCK_MONOTONIC) < end;) {
        struct timespec nap = {0, 50000000};
        int64_t start = now_ns(CLOCK_MONOTONIC);
        if (nanosleep(&nap, 0) && errno == EINTR) interrupted++;
        if (now_ns(CLOCK_MONOTONIC) - start < 50000000) early++;
    }
    while (awake && threads > 0) pthread_join(all[--threads], 0);
    printf("interrupted %d\nearly %d\n", interrupted, early);
    return 0;
}
