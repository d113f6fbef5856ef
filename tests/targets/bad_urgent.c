// A bad preload: a thread of its own sends SIGURG to the process every 2 ms, as if nobody else used it.
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

static void *send_on(void *unused) {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, 0);
    for (;;) {
        usleep(2000);
        sigqueue(getpid(), SIGURG, (union sigval){0});
    }
    return unused;
}

__attribute__((constructor)) static void start(void) {
    pthread_t thread;
    pthread_create(&thread, 0, send_on, 0);
}
