// A bad preload: takes signals, and the timers that belong to them, as if the process were its own; its handler changes errno.
#include <errno.h>
#include <signal.h>
#include <sys/time.h>

static void tick(int number) {
    (void)number;
    errno = EIO;
}

__attribute__((constructor)) static void start(void) {
    const int taken[] = {SIGPROF, SIGURG, SIGALRM, SIGVTALRM};
    struct itimerval period = {{0, 2000}, {0, 2000}};
    for (int i = 0; i < 4; i++) {
        struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
        sigaction(taken[i], &action, 0);
    }
    setitimer(ITIMER_PROF, &period, 0);
}
