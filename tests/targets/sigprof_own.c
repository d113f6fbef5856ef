// sigprof_own SECONDS: has its own SIGPROF handler and ITIMER_PROF at 10 ms, burns SECONDS of CPU time, prints how many ticks it got and
// whether the handler is still what it set.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static volatile sig_atomic_t ticks;

static void tick(int number) {
    (void)number;
    ticks++;
}

int main(int count, char **arguments) {
    if (count < 2) return 2;
    struct sigaction mine = {.sa_handler = tick, .sa_flags = SA_RESTART}, found;
    struct itimerval timer = {{0, 10000}, {0, 10000}};
    sigaction(SIGPROF, &mine, 0);
    setitimer(ITIMER_PROF, &timer, 0);
    struct timespec now;
    volatile double x = 1;
    do {
        for (int i = 0; i < 10000; i++) x = x * 1.0000001 + 0.5;
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    } while (now.tv_sec + now.tv_nsec / 1e9 < atof(arguments[1]));
    sigaction(SIGPROF, 0, &found);
    printf("ticks %d\nhandler %s\n", (int)ticks, found.sa_handler == tick ? "mine" : "not mine");
    return 0;
}
