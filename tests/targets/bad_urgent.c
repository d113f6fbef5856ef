// A bad preload: sends SIGURG to the process every 4 ms of its CPU time, as if nobody else used it.
#include <signal.h>
#include <time.h>

__attribute__((constructor)) static void start(void) {
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGURG};
    struct itimerspec period = {{0, 4000000}, {0, 4000000}};
    timer_t timer;
    if (!timer_create(CLOCK_PROCESS_CPUTIME_ID, &event, &timer)) timer_settime(timer, 0, &period, 0);
}
