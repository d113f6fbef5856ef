// A bad preload: leaks a descriptor into the target and goes on writing to its number from a signal handler, as profilers with an open
// file do.
#include <fcntl.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

static int file;

static void tick(int number) {
    (void)number;
    if (write(file, "a sample of mine", 16) < 0) return;
}

__attribute__((constructor)) static void start(void) {
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
    struct itimerval timer = {{0, 5000}, {0, 5000}};
    file = open("/dev/null", O_WRONLY);
    sigaction(SIGVTALRM, &action, 0);
    setitimer(ITIMER_VIRTUAL, &timer, 0);
}
