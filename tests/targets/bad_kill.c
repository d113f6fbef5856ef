// A bad preload: its ticks are signals sent from outside, by a process of its own, every half millisecond for five seconds. The kernel keeps
// such a signal over an exec, where the handler for it is gone.
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static void tick(int number) { (void)number; }

__attribute__((constructor)) static void start(void) {
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
    sigaction(SIGPROF, &action, 0);
    if (getenv("SIGTOP_TEST_TICKER")) return;
    setenv("SIGTOP_TEST_TICKER", "1", 1);
    pid_t target = getpid();
    if (fork() == 0) {
        // Nobody may wait for our end of a pipe.
        for (int i = 0; i < 1024; i++) close(i);
        struct timespec pause = {0, 500000};
        for (int i = 0; i < 10000 && !kill(target, SIGPROF); i++) nanosleep(&pause, 0);
        _exit(0);
    }
}
