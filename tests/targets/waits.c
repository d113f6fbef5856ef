// waits SECONDS: eight threads that wait for 1 ms by poll, epoll_wait and nanosleep in turn, work a
// little between two waits, and burn for a while now and then; and threads that come and go. Prints
// how many waits there were and how many were interrupted.
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

static atomic_long waits, interrupted;
static int64_t end_ns;

static int64_t now_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void burn(int64_t ns) {
    volatile double x = 1;
    for (int64_t end = now_ns(CLOCK_THREAD_CPUTIME_ID) + ns; now_ns(CLOCK_THREAD_CPUTIME_ID) < end;)
        for (int i = 0; i < 1000; i++) x = x * 1.0000001 + 0.5;
}

static void *wait_often(void *unused) {
    int ends[2];
    if (pipe(ends)) exit(3);
    int epoll = epoll_create1(0);
    for (int i = 0; now_ns(CLOCK_MONOTONIC) < end_ns; i++) {
        int result;
        errno = 0;
        switch (i % 3) {
        case 0: result = poll(&(struct pollfd){ends[0], POLLIN, 0}, 1, 1); break;
        case 1: result = epoll_wait(epoll, &(struct epoll_event){0}, 1, 1); break;
        default: result = nanosleep(&(struct timespec){0, 1000000}, 0);
        }
        waits++;
        interrupted += result < 0 && errno == EINTR;
        burn(i % 100 ? 20000 : 5000000);
    }
    return unused;
}

static void *live_shortly(void *unused) {
    burn(3000000);
    return unused;
}

int main(int count, char **arguments) {
    if (count < 2) return 2;
    end_ns = now_ns(CLOCK_MONOTONIC) + (int64_t)(atof(arguments[1]) * 1e9);
    pthread_t all[8], other;
    for (int i = 0; i < 8; i++) pthread_create(&all[i], 0, wait_often, 0);
    while (now_ns(CLOCK_MONOTONIC) < end_ns) {
        if (!pthread_create(&other, 0, live_shortly, 0)) pthread_join(other, 0);
        waits++;
        errno = 0;
        interrupted += nanosleep(&(struct timespec){0, 5000000}, 0) < 0 && errno == EINTR;
    }
    for (int i = 0; i < 8; i++) pthread_join(all[i], 0);
    printf("waits %ld\ninterrupted %ld\n", waits, interrupted);
    return 0;
}
