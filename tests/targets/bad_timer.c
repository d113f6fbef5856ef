// A bad preload: a POSIX timer that runs although nobody watches.
#include <signal.h>
#include <time.h>

static void tick(int number) { (void)number; }

__attribute__((constructor)) static void start(void) {
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGPROF};
    struct itimerspec period = {{0, 10000000}, {0, 10000000}};
    timer_t timer;
    sigaction(SIGPROF, &action, 0);
    timer_create(CLOCK_PROCESS_CPUTIME_ID, &event, &timer);
    timer_settime(timer, 0, &period, 0);
}
