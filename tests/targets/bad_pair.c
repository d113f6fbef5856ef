// A bad preload: a timer of the first thread's CPU time and one of the whole process's with the same signal, and a handler that takes its
// time while all signals are blocked: the second tick is handed on to a thread that sleeps.
#define _GNU_SOURCE
#include <signal.h>
#include <time.h>
#include <unistd.h>

static void tick(int number) {
    for (volatile int i = 0; i < 300000; i++) {}
    (void)number;
}

__attribute__((constructor)) static void start(void) {
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
    struct sigevent to_process = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGURG};
    struct sigevent to_thread = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGURG};
    struct itimerspec period = {{0, 4000000}, {0, 4000000}};
    timer_t process, thread;
    to_thread._sigev_un._tid = gettid();
    sigfillset(&action.sa_mask);
    sigaction(SIGURG, &action, 0);
    timer_create(CLOCK_PROCESS_CPUTIME_ID, &to_process, &process);
    timer_create(CLOCK_THREAD_CPUTIME_ID, &to_thread, &thread);
    timer_settime(process, 0, &period, 0);
    timer_settime(thread, 0, &period, 0);
}
