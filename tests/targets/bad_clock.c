// A bad preload: a helper's thread that works all the while, with every signal blocked, and a timer of the whole process's CPU time, which
// counts that work and wakes those who sleep.
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

static void tick(int number) { (void)number; }

static void *work(void *unused) {
    for (;;) {
        for (volatile int i = 0; i < 3000000; i++) {}
        usleep(1000);
    }
    return unused;
}

__attribute__((constructor)) static void start(void) {
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGURG};
    struct itimerspec period = {{0, 1000000}, {0, 1000000}};
    sigset_t all, old;
    pthread_t thread;
    timer_t timer;
    sigaction(SIGURG, &action, 0);
    timer_create(CLOCK_PROCESS_CPUTIME_ID, &event, &timer);
    timer_settime(timer, 0, &period, 0);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    pthread_create(&thread, 0, work, 0);
    pthread_sigmask(SIG_SETMASK, &old, 0);
}
