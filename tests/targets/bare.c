// A preload whose ticks do nothing: ITIMER_REAL every SIGTOP_TEST_TICK_US microseconds (none at 0) and an empty handler. At exit it writes how many
// came to the file SIGTOP_TEST_TICKS. What the kernel takes for a tick, whoever gets it.
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

static volatile sig_atomic_t ticks;

static void tick(int number) {
    (void)number;
    ticks++;
}

static void arm(long microseconds) {
    struct itimerval timer = {{0, microseconds}, {0, microseconds}};
    setitimer(ITIMER_REAL, &timer, 0);
}

__attribute__((constructor)) static void start(void) {
    char *period = getenv("SIGTOP_TEST_TICK_US");
    if (!period || !strstr(program_invocation_short_name, "work")) return;
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
    sigfillset(&action.sa_mask);
    sigaction(SIGALRM, &action, 0);
    arm(atol(period));
}

__attribute__((destructor)) static void end(void) {
    char *name = getenv("SIGTOP_TEST_TICKS");
    if (!name || !strstr(program_invocation_short_name, "work")) return;
    arm(0);
    FILE *file = fopen(name, "w");
    if (!file) return;
    fprintf(file, "%ld\n", (long)ticks);
    fclose(file);
}
