// late_ticks SECONDS: computes beside a child of its own that holds their CPU at each tick of the scheduler for so long, and 300 ms of CPU
// time more. The kernel notices CPU timers only at a tick that finds their thread running. Prints the CPU time of the process, ns.
#define _GNU_SOURCE
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int64_t ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void hold_ticks(double seconds) {
    struct timespec length;
    clock_getres(CLOCK_MONOTONIC_COARSE, &length);
    int64_t end = ns(CLOCK_MONOTONIC) + (int64_t)(seconds * 1e9);
    while (ns(CLOCK_MONOTONIC) < end) {
        int64_t next = ns(CLOCK_MONOTONIC_COARSE) + length.tv_nsec, early = next - length.tv_nsec / 4;
        struct timespec at = {early / 1000000000, early % 1000000000};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, 0);
        while (ns(CLOCK_MONOTONIC) < next + length.tv_nsec / 8) {}
    }
}

static void burn(int64_t until) {
    while (ns(CLOCK_PROCESS_CPUTIME_ID) < until) {}
}

int main(int count, char **arguments) {
    if (count < 2) return 2;
    // The agent's thread begins meanwhile, and keeps its own CPUs.
    burn(100000000);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    sched_setaffinity(0, sizeof one, &one);
    pid_t child = fork();
    if (child == 0) {
        hold_ticks(atof(arguments[1]));
        _exit(0);
    }
    sched_setscheduler(0, SCHED_IDLE, &(struct sched_param){0});
    while (waitpid(child, 0, WNOHANG) == 0) {}
    burn(ns(CLOCK_PROCESS_CPUTIME_ID) + 300000000);
    printf("process %lld\n", (long long)ns(CLOCK_PROCESS_CPUTIME_ID));
    return 0;
}
