// checked_calls COUNT [NAME...]: makes each system call of a list that many times, computes for some microseconds before each, and checks
// its result. Prints one line for each: how often it was made, how often it did less than it does alone, how often it reported EINTR, and
// how often its result was wrong. COUNT is that of a cheap call; calls of many bytes are made less often. With COUNT 0 it waits until the
// standard input ends and then makes each call 1000 times.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MIB = 1 << 20, LARGE = 4 * MIB };
static char *from, *to;
static int file, other, urandom, zero, pipes[2], sockets[2], event, epoll, semaphores;
static sem_t semaphore;
static volatile unsigned long sink;

static long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

// The results of one call: 0 if it is right, 1 if it did less, 2 if it reported EINTR, 3 if it is wrong.
static int whole(long result, long wanted) {
    if (result == wanted) return 0;
    if (result < 0) return errno == EINTR ? 2 : 3;
    return result < wanted ? 1 : 3;
}

static int reads_urandom(void) { return whole(read(urandom, to, MIB), MIB); }
static int reads_zero(void) {
    to[LARGE - 1] = 1;
    int bad = whole(read(zero, to, LARGE), LARGE);
    return bad ? bad : to[LARGE - 1] ? 3 : 0;
}
static int gets_random(void) { return whole(getrandom(to, MIB, 0), MIB); }
static int preads(void) {
    to[LARGE - 1] = 1;
    int bad = whole(pread(file, to, LARGE, 0), LARGE);
    return bad ? bad : memcmp(from, to, LARGE) ? 3 : 0;
}
static int preads_vectors(void) {
    struct iovec parts[2] = {{to, MIB}, {to + MIB, LARGE - MIB}};
    int bad = whole(preadv(file, parts, 2, 0), LARGE);
    return bad ? bad : memcmp(from, to, LARGE) ? 3 : 0;
}
static int reads_memory(void) {
    struct iovec ours = {to, LARGE}, theirs = {from, LARGE};
    return whole(process_vm_readv(getpid(), &ours, 1, &theirs, 1, 0), LARGE);
}
static int copies_range(void) {
    off_t in = 0, out = 0;
    return whole(copy_file_range(file, &in, other, &out, LARGE, 0), LARGE);
}
static int sends_file(void) {
    off_t in = 0;
    lseek(other, 0, SEEK_SET);
    return whole(sendfile(other, file, &in, LARGE), LARGE);
}
static void *drains(void *descriptor) {
    static char buffer[4096];
    while (read((int)(intptr_t)descriptor, buffer, sizeof buffer) > 0) {}
    return 0;
}
static int writes_pipe(void) { return whole(write(pipes[1], from, MIB), MIB); }
static int writes_socket(void) { return whole(write(sockets[0], from, MIB), MIB); }
static int waits(long result, long start, long ns) {
    if (result < 0) return errno == EINTR ? 2 : 3;
    return result > 0 || now() - start < ns ? 3 : 0;
}
static int sleeps(void) {
    struct timespec pause = {0, 50000};
    long start = now();
    return waits(nanosleep(&pause, 0), start, 50000);
}
static int polls(void) {
    struct pollfd polled = {event, POLLIN, 0};
    long start = now();
    return waits(poll(&polled, 1, 1), start, 1000000);
}
static int selects(void) {
    struct timeval pause = {0, 100};
    long start = now();
    return waits(select(0, 0, 0, 0, &pause), start, 100000);
}
static int waits_for_events(void) {
    struct epoll_event events;
    long start = now();
    return waits(epoll_wait(epoll, &events, 1, 1), start, 1000000);
}
static int waits_for_semaphore(void) {
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_nsec += 100000;
    if (end.tv_nsec >= 1000000000) end.tv_nsec -= 1000000000, end.tv_sec++;
    if (sem_timedwait(&semaphore, &end) == 0) return 3;
    return errno == ETIMEDOUT ? 0 : errno == EINTR ? 2 : 3;
}
static int waits_for_system_semaphore(void) {
    struct sembuf down = {0, -1, 0};
    struct timespec pause = {0, 100000};
    if (semtimedop(semaphores, &down, 1, &pause) == 0) return 3;
    return errno == EAGAIN ? 0 : errno == EINTR ? 2 : 3;
}
static int waits_for_signal(void) {
    sigset_t set;
    sigemptyset(&set), sigaddset(&set, SIGUSR2);
    struct timespec pause = {0, 100000};
    if (sigtimedwait(&set, 0, &pause) > 0) return 3;
    return errno == EAGAIN ? 0 : errno == EINTR ? 2 : 3;
}
static int reads_timer(void) {
    int timer = timerfd_create(CLOCK_MONOTONIC, 0);
    struct itimerspec when = {{0, 0}, {0, 50000}};
    uint64_t count = 0;
    timerfd_settime(timer, 0, &when, 0);
    int bad = whole(read(timer, &count, 8), 8);
    close(timer);
    return bad ? bad : count != 1 ? 3 : 0;
}
static int waits_for_child(void) {
    int status = 0;
    pid_t child = fork();
    if (!child) _exit(7);
    int bad = whole(waitpid(child, &status, 0), child);
    return bad ? bad : WEXITSTATUS(status) != 7 ? 3 : 0;
}

static const struct {
    const char *name;
    int (*make)(void);
    int rarely;
} CALLS[] = {
    {"urandom", reads_urandom, 20}, {"zero", reads_zero, 20}, {"getrandom", gets_random, 20}, {"pread", preads, 20},
    {"preadv", preads_vectors, 20}, {"process_vm_readv", reads_memory, 20}, {"copy_file_range", copies_range, 20},
    {"sendfile", sends_file, 20}, {"pipe", writes_pipe, 20}, {"socket", writes_socket, 20}, {"nanosleep", sleeps, 1}, {"poll", polls, 4},
    {"select", selects, 1}, {"epoll_wait", waits_for_events, 4}, {"sem_timedwait", waits_for_semaphore, 1},
    {"semtimedop", waits_for_system_semaphore, 1}, {"sigtimedwait", waits_for_signal, 1}, {"timerfd", reads_timer, 1},
    {"waitpid", waits_for_child, 20},
};

int main(int count, char **arguments) {
    if (count < 2) return 2;
    long times = atol(arguments[1]);
    if (times == 0) {
        char byte;
        while (read(0, &byte, 1) > 0) {}
        times = 1000;
    }
    sigset_t set;
    sigemptyset(&set), sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, 0);
    from = mmap(0, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    to = mmap(0, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    for (long i = 0; i < LARGE; i++) from[i] = (char)(i * 31 + i / 4096);
    file = memfd_create("from", 0), other = memfd_create("to", 0);
    urandom = open("/dev/urandom", O_RDONLY), zero = open("/dev/zero", O_RDONLY);
    event = eventfd(0, 0), epoll = epoll_create1(0), semaphores = semget(IPC_PRIVATE, 1, 0600);
    sem_init(&semaphore, 0, 0);
    struct epoll_event wanted = {EPOLLIN, {0}};
    if (write(file, from, LARGE) != LARGE || write(other, from, LARGE) != LARGE || urandom < 0 || zero < 0 || pipe(pipes) ||
        socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) || epoll_ctl(epoll, EPOLL_CTL_ADD, event, &wanted))
        return 3;
    pthread_t drain;
    if (pthread_create(&drain, 0, drains, (void *)(intptr_t)pipes[0]) || pthread_create(&drain, 0, drains, (void *)(intptr_t)sockets[1]))
        return 3;
    for (unsigned call = 0; call < sizeof CALLS / sizeof *CALLS; call++) {
        int is_wanted = count == 2;
        for (int i = 2; i < count; i++) is_wanted |= !strcmp(arguments[i], CALLS[call].name);
        if (!is_wanted) continue;
        long made = times / CALLS[call].rarely, results[4] = {0};
        for (long i = 0; i < made; i++) {
            for (int k = 0; k < 2000 + (i * 37) % 3000; k++) sink += k;
            results[CALLS[call].make()]++;
        }
        printf("%s made %ld short %ld eintr %ld wrong %ld\n", CALLS[call].name, made, results[1], results[2], results[3]);
        fflush(stdout);
    }
    semctl(semaphores, 0, IPC_RMID);
    return 0;
}
