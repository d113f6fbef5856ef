// threads COUNT MILLISECONDS [orphaned|beside]: COUNT threads, two at a time, each of which burns so much CPU time and ends. Prints the CPU time
// of the process, ns, and how many had a timer of their own when they ended. `orphaned`: the first thread ends before them.
// `beside`: one at a time, and another thread burns all the while.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int64_t share_ns;
static int lives, timed;
static pthread_t first;
static volatile double sink;

static int64_t clock_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

// Whether a timer sends its signals to this thread.
static int is_timed(void) {
    char line[256], own[64];
    int found = 0;
    snprintf(own, sizeof own, "tid.%d\n", (int)gettid());
    FILE *timers = fopen("/proc/self/timers", "r");
    while (timers && fgets(line, sizeof line, timers)) found |= strstr(line, own) != 0;
    if (timers) fclose(timers);
    return found;
}

__attribute__((noipa)) static void *short_life(void *unused) {
    (void)unused;
    double x = 1;
    while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < share_ns)
        for (int i = 0; i < 10000; i++) x = x * 1.0000001 + 0.5;
    sink = x;
    __atomic_add_fetch(&timed, is_timed(), __ATOMIC_RELAXED);
    return 0;
}

static void *on_and_on(void *unused) {
    for (;;) sink += 1;
    return unused;
}

static void one_after_the_other(void) {
    pthread_t beside, one;
    pthread_create(&beside, 0, on_and_on, 0);
    for (; lives > 0; lives--) {
        pthread_create(&one, 0, short_life, 0);
        pthread_join(one, 0);
    }
}

static void *all(void *is_orphaned) {
    if (is_orphaned) pthread_join(first, 0);
    for (int i = lives; i > 0; i -= 2) {
        pthread_t one, other;
        pthread_create(&one, 0, short_life, 0);
        pthread_create(&other, 0, short_life, 0);
        pthread_join(one, 0);
        pthread_join(other, 0);
    }
    printf("process %ld\ntimed %d\n", (long)clock_ns(CLOCK_PROCESS_CPUTIME_ID), timed);
    exit(0);
}

int main(int count, char **arguments) {
    if (count < 3) return 2;
    lives = atoi(arguments[1]);
    share_ns = atoll(arguments[2]) * 1000000;
    if (count > 3 && !strcmp(arguments[3], "beside")) one_after_the_other();
    if (count < 4 || !lives) all(0);
    pthread_t orphan;
    first = pthread_self();
    pthread_create(&orphan, 0, all, &first);
    pthread_exit(0);
}
