// epoll_idle SECONDS: a server that nobody calls. Waits in epoll_wait for so long in all, going back to it when interrupted, and prints how
// often it was.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

__attribute__((noipa)) static int serve(int poll, int milliseconds) {
    struct epoll_event event;
    return epoll_wait(poll, &event, 1, milliseconds);
}

int main(int count, char **arguments) {
    if (count < 2) return 2;
    int ends[2], interrupted = 0;
    if (pipe(ends)) return 3;
    int poll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN};
    epoll_ctl(poll, EPOLL_CTL_ADD, ends[0], &event);
    double end = now() + atof(arguments[1]);
    for (double left; (left = end - now()) > 0;)
        if (serve(poll, (int)(left * 1000) + 1) < 0 && errno == EINTR) interrupted++;
    printf("interrupted %d\n", interrupted);
    return 0;
}
