// Counts how often the process's CPU clock moves within a fifth of a second: in a process with one
// thread, with two, and in a fork child.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static atomic_bool stop;

static int64_t now_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void count_changes(const char *name) {
    int64_t last = 0, changes = 0;
    for (int64_t end = now_ns(CLOCK_MONOTONIC) + 200000000; now_ns(CLOCK_MONOTONIC) < end;) {
        int64_t now = now_ns(CLOCK_PROCESS_CPUTIME_ID);
        changes += now != last;
        last = now;
    }
    printf("%s %lld\n", name, (long long)changes);
    fflush(stdout);
}

static void *sleep_and_burn(void *nothing) {
    while (!stop) {
        usleep(1000);
        for (volatile int i = 0; i < 10000; i++) {}
    }
    return nothing;
}

int main(void) {
    count_changes("one-thread");
    pthread_t thread;
    pthread_create(&thread, 0, sleep_and_burn, 0);
    count_changes("two-threads");
    stop = 1;
    pthread_join(thread, 0);
    pid_t child = fork();
    if (child == 0) {
        count_changes("child");
        _exit(0);
    }
    waitpid(child, 0, 0);
    return 0;
}
