// naps: works a little and waits 30 ms, 20 times in each of the calls that end early when a handler has run, whatever SA_RESTART says. Prints for
// each `name COUNT`, how often it did.
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { WAIT_NS = 30000000, WAIT_MS = 30 };

static volatile double x = 1;
static const struct timespec wait = {0, WAIT_NS};

static void work(void) {
    for (int i = 0; i < 200000; i++) x = x * 1.0000001 + 0.5;
}

static struct timespec deadline(void) {
    struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    at.tv_nsec += WAIT_NS;
    if (at.tv_nsec >= 1000000000) at.tv_sec++, at.tv_nsec -= 1000000000;
    return at;
}

static int pipe_ends[2], pair[2], epoll, semaphores;
static sem_t semaphore;
static sigset_t signals;

static int by_nanosleep(void) { return nanosleep(&wait, 0); }
static int by_usleep(void) { return usleep(WAIT_MS * 1000); }
static int by_clock_nanosleep(void) { return clock_nanosleep(CLOCK_MONOTONIC, 0, &wait, 0); }
static int by_poll(void) { return poll(&(struct pollfd){pipe_ends[0], POLLIN, 0}, 1, WAIT_MS); }
static int by_ppoll(void) { return ppoll(&(struct pollfd){pipe_ends[0], POLLIN, 0}, 1, &wait, 0); }
static int by_select(void) { return select(0, 0, 0, 0, &(struct timeval){0, WAIT_MS * 1000}); }
static int by_epoll_wait(void) { return epoll_wait(epoll, &(struct epoll_event){0}, 1, WAIT_MS); }
static int by_recv(void) { return (int)recv(pair[0], &(char){0}, 1, 0); }
static int by_sem_timedwait(void) {
    struct timespec at = deadline();
    return sem_timedwait(&semaphore, &at);
}
static int by_semtimedop(void) { return semtimedop(semaphores, &(struct sembuf){0, -1, 0}, 1, &wait); }
static int by_sigtimedwait(void) { return sigtimedwait(&signals, 0, &wait); }

static void count(const char *name, int (*call)(void)) {
    int interrupted = 0;
    for (int i = 0; i < 20; i++) {
        work();
        errno = 0;
        int result = call();
        interrupted += result == EINTR || (result < 0 && errno == EINTR);
    }
    printf("%s %d\n", name, interrupted);
}

int main(void) {
    if (pipe(pipe_ends) || socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) return 3;
    setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){0, WAIT_MS * 1000}, sizeof(struct timeval));
    sem_init(&semaphore, 0, 0);
    epoll = epoll_create1(0);
    semaphores = semget(IPC_PRIVATE, 1, 0600);
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    for (int i = 0; i < 200; i++) work();
    count("nanosleep", by_nanosleep);
    count("usleep", by_usleep);
    count("clock_nanosleep", by_clock_nanosleep);
    count("poll", by_poll);
    count("ppoll", by_ppoll);
    count("select", by_select);
    count("epoll_wait", by_epoll_wait);
    count("recv", by_recv);
    count("sem_timedwait", by_sem_timedwait);
    count("semtimedop", by_semtimedop);
    count("sigtimedwait", by_sigtimedwait);
    semctl(semaphores, 0, IPC_RMID);
    return 0;
}
