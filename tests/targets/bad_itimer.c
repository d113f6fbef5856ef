// A bad preload: arms setitimer(ITIMER_PROF) bare, in fork children too, guards nothing and disarms nothing.
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>

static void tick(int number) { (void)number; }

static void arm(void) {
    struct itimerval timer = {{0, 10000}, {0, 10000}};
    setitimer(ITIMER_PROF, &timer, 0);
}

__attribute__((constructor)) static void start(void) {
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
    sigaction(SIGPROF, &action, 0);
    arm();
    pthread_atfork(0, 0, arm);
}
