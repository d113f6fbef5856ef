// wakes SECONDS, or - for the time until the end of stdin: eleven threads that sleep and wake in system calls of many kinds, most of
// which report EINTR when a signal or a tracer interrupts them. Prints how many calls there were, how many reported EINTR, and how many
// sleeps ended early.
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define KINDS 11
static volatile int stop;
static long calls[KINDS], interrupted[KINDS], early[KINDS];
static int events[2], sockets[2];

static long now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000L + now.tv_nsec / 1000;
}

static void burn(long us) {
    for (long end = now_us() + us; now_us() < end;)
        for (volatile int i = 0; i < 50; i++) {}
}

// Makes one call of a kind, and returns its result. `wanted` is the time that it should take, if any.
static long call(int kind, int poller, int semaphores, sem_t *semaphore, long *wanted) {
    struct timespec ms = {0, 1000000}, until;
    struct sembuf down = {0, -1, 0};
    struct timeval tv = {0, 1000};
    struct epoll_event event;
    sigset_t set;
    char byte;
    long count, one = 1, result;
    *wanted = kind < 4 ? 0 : 900;
    switch (kind) {
    case 0:
    case 1:
        if ((result = epoll_wait(poller, &event, 1, -1)) == 1 && read(events[kind], &count, 8) == 8)
            write(events[!kind], &one, 8);
        return result;
    case 2:
    case 3:
        if ((result = recv(sockets[kind & 1], &byte, 1, 0)) == 1) write(sockets[kind & 1], &byte, 1);
        return result;
    case 4: return nanosleep(&ms, 0);
    case 5: return poll(0, 0, 1);
    case 6: return epoll_wait(poller, &event, 1, 1);
    case 7:
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 1000000;
        if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
        return sem_timedwait(semaphore, &until);
    case 8: return semtimedop(semaphores, &down, 1, &ms);
    case 9:
        sigemptyset(&set);
        sigaddset(&set, SIGUSR2);
        return sigtimedwait(&set, 0, &ms);
    default: return select(0, 0, 0, 0, &tv);
    }
}

static void *work(void *argument) {
    int kind = (int)(long)argument, poller = epoll_create1(0), semaphores = semget(IPC_PRIVATE, 1, 0600);
    struct epoll_event event = {.events = EPOLLIN};
    struct timeval second = {1, 0};
    sem_t semaphore;
    long one = 1;
    sem_init(&semaphore, 0, 0);
    if (kind < 2) epoll_ctl(poller, EPOLL_CTL_ADD, events[kind], &event);
    setsockopt(sockets[kind & 1], SOL_SOCKET, SO_RCVTIMEO, &second, sizeof second);
    if (kind == 0) write(events[0], &one, 8);
    if (kind == 2) write(sockets[1], "x", 1);
    while (!stop) {
        long start = now_us(), wanted;
        errno = 0;
        long result = call(kind, poller, semaphores, &semaphore, &wanted);
        calls[kind]++;
        if (result < 0 && errno == EINTR) interrupted[kind]++;
        else if (wanted && now_us() - start < wanted) early[kind]++;
        burn(kind > 3 ? 100 : 2);
    }
    write(events[0], &one, 8), write(events[1], &one, 8);
    write(sockets[0], "x", 1), write(sockets[1], "x", 1);
    semctl(semaphores, 0, IPC_RMID);
    return 0;
}

int main(int count, char **arguments) {
    if (count < 2) return 2;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    sigprocmask(SIG_BLOCK, &set, 0);
    signal(SIGPIPE, SIG_IGN);
    events[0] = eventfd(0, 0), events[1] = eventfd(0, 0);
    socketpair(AF_UNIX, SOCK_STREAM, 0, sockets);
    pthread_t threads[KINDS];
    for (long kind = 0; kind < KINDS; kind++) pthread_create(&threads[kind], 0, work, (void *)kind);
    char byte;
    if (arguments[1][0] == '-') while (read(0, &byte, 1)) {}
    else for (long end = now_us() + (long)(atof(arguments[1]) * 1e6); now_us() < end;) usleep(10000);
    stop = 1;
    for (int kind = 0; kind < KINDS; kind++) pthread_join(threads[kind], 0);
    long sums[3] = {0};
    for (int kind = 0; kind < KINDS; kind++)
        sums[0] += calls[kind], sums[1] += interrupted[kind], sums[2] += early[kind];
    printf("calls %ld\ninterrupted %ld\nearly %ld\n", sums[0], sums[1], sums[2]);
    return 0;
}
