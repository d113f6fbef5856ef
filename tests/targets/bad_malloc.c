// A bad preload: its handler allocates.
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>

static void on_tick(int signal) {
    static void *volatile kept;
    free(kept);
    kept = malloc(2000 + signal);
}

__attribute__((constructor)) static void start(void) {
    struct sigaction action = {.sa_handler = on_tick, .sa_flags = SA_RESTART};
    struct itimerval every = {{0, 500}, {0, 500}};
    sigaction(SIGALRM, &action, 0);
    setitimer(ITIMER_REAL, &every, 0);
}
