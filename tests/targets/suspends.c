// suspends CALL COUNT: waits so many times for a signal of a child's with a mask that lets it through: by sigsuspend, ppoll, pselect or
// epoll_pwait. Prints how many waits ended before their signal had been handled.
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t handled;
static volatile double sink;

static void on_signal(int number) {
    (void)number;
    handled++;
}

static int wait_by(const char *call, const sigset_t *mask, int poll) {
    struct epoll_event event;
    if (!strcmp(call, "ppoll")) return ppoll(0, 0, 0, mask);
    if (!strcmp(call, "pselect")) return pselect(0, 0, 0, 0, 0, mask);
    if (!strcmp(call, "epoll_pwait")) return epoll_pwait(poll, &event, 1, -1, mask);
    return sigsuspend(mask);
}

int main(int count, char **arguments) {
    if (count < 3) return 2;
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGUSR1, &action, 0);
    sigset_t blocked, before;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    sigprocmask(SIG_BLOCK, &blocked, &before);
    int ends[2], poll = epoll_create1(0);
    if (pipe(ends)) return 3;
    pid_t parent = getpid(), child = fork();
    if (!child) {
        char byte;
        close(ends[1]);
        while (read(ends[0], &byte, 1) == 1) kill(parent, SIGUSR1);
        _exit(0);
    }
    close(ends[0]);
    long rounds = atol(arguments[2]), early = 0;
    for (long i = 0; i < rounds; i++) {
        int last = handled;
        double x = 1;
        if (write(ends[1], "x", 1) != 1) return 4;
        if (wait_by(arguments[1], &before, poll) != -1 || errno != EINTR) return 5;
        early += handled == last;
        while (handled == last) sigsuspend(&before);
        for (int k = 0; k < 500; k++) x = x * 1.0000001 + 0.5;
        sink = x;
    }
    close(ends[1]);
    waitpid(child, 0, 0);
    printf("%s: %ld of %ld waits ended early\n", arguments[1], early, rounds);
}
