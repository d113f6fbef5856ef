// A bad preload: its handler runs on whatever stack is there, and takes 20 KB of it.
#include <signal.h>
#include <sys/time.h>

static void on_tick(int signal) {
    volatile char room[20000];
    for (int i = sizeof room - 1; i >= 0; i -= 64) room[i] = signal;
}

__attribute__((constructor)) static void start(void) {
    struct sigaction action = {.sa_handler = on_tick, .sa_flags = SA_RESTART};
    struct itimerval every = {{0, 4000}, {0, 4000}};
    sigaction(SIGPROF, &action, 0);
    setitimer(ITIMER_PROF, &every, 0);
}
