// restarts CALL MILLISECONDS [first]: computes a little and makes one blocking call, over and over, for so much CPU time or, with
// `first`, until a call reports EINTR, for so much wall time at most. Another thread ends each wait. Prints a line: the call, how often it was
// made, how often it reported EINTR, and how often it had another result than it should. Without CALL: prints the names of all calls. Ends
// with 77, and prints nothing, where the kernel lacks the call.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { MESSAGE = 2000, UNAVAILABLE = 77 };
static atomic_long asked, served;
static atomic_int stop;
static int pair[2], listener, event, poller, ring, semaphores;
static struct sockaddr_un name = {.sun_family = AF_UNIX};
static socklen_t name_length;
static aio_context_t aio;
static sigset_t awaited;
static char bytes[MESSAGE];
static struct iovec part = {bytes, 1};
static struct mmsghdr message = {.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1}};
static const struct timespec soon = {0, 300000}, late = {20, 0};

static long clock_ms(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

// The calls. Each returns 1 if the result is right, and -1 with EINTR if it was interrupted.
static long is(long wanted, long result) { return result == wanted ? 1 : result < 0 ? -1 : 0; }
static long closed(int accepted) { return accepted < 0 ? -1 : !close(accepted); }
static long drained(long result) {
    long count;
    return result == 1 ? read(event, &count, sizeof count) == sizeof count : is(1, result);
}
static long timed_out(int error, long result) { return result < 0 && errno == error ? 1 : is(1, result); }

static long do_read(void) { return is(1, read(pair[0], bytes, 1)); }
static long do_readv(void) { return is(1, readv(pair[0], &part, 1)); }
static long do_recvfrom(void) { return is(1, recv(pair[0], bytes, 1, 0)); }
static long do_recvmsg(void) { return is(1, recvmsg(pair[0], &message.msg_hdr, 0)); }
static long do_recvmmsg(void) { return is(1, recvmmsg(pair[0], &message, 1, 0, 0)); }
static long do_write(void) { return is(MESSAGE, write(pair[0], bytes, MESSAGE)); }
static long do_writev(void) { return is(MESSAGE, writev(pair[0], &part, 1)); }
static long do_sendto(void) { return is(MESSAGE, send(pair[0], bytes, MESSAGE, 0)); }
static long do_sendmsg(void) { return is(MESSAGE, sendmsg(pair[0], &message.msg_hdr, 0)); }
static long do_sendmmsg(void) { return is(1, sendmmsg(pair[0], &message, 1, 0)); }
static long do_accept(void) { return closed(accept(listener, 0, 0)); }
static long do_accept4(void) { return closed(accept4(listener, 0, 0, SOCK_CLOEXEC)); }
static int client = -1;
static long do_connect(void) {
    if (client < 0) {
        client = socket(AF_UNIX, SOCK_STREAM, 0);
        setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &(struct timeval){20, 0}, sizeof(struct timeval));
    }
    long result = is(0, connect(client, (void *)&name, name_length));
    if (result == 1) close(client), client = -1;
    return result;
}
static long do_semop(void) { return is(0, semop(semaphores, &(struct sembuf){0, -1, 0}, 1)); }
static long do_semtimedop(void) { return is(0, semtimedop(semaphores, &(struct sembuf){0, -1, 0}, 1, &late)); }
static long do_rt_sigtimedwait(void) { return is(SIGUSR2, sigtimedwait(&awaited, 0, &late)); }
static long do_io_getevents(void) {
    struct io_event done;
    struct timespec timeout = soon;
    return is(0, syscall(SYS_io_getevents, aio, 1, 1, &done, &timeout));
}
static long do_io_uring_enter(void) {
    struct __kernel_timespec timeout = {soon.tv_sec, soon.tv_nsec};
    struct io_uring_getevents_arg wait = {.sigmask_sz = 8, .ts = (unsigned long)&timeout};
    return timed_out(ETIME, syscall(SYS_io_uring_enter, ring, 0, 1, IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG, &wait, sizeof wait));
}
static long do_epoll_wait(void) { return drained(syscall(SYS_epoll_wait, poller, &(struct epoll_event){0}, 1, -1)); }
static long do_epoll_pwait(void) { return drained(syscall(SYS_epoll_pwait, poller, &(struct epoll_event){0}, 1, -1, 0, 8)); }
static long do_epoll_pwait2(void) { return drained(syscall(SYS_epoll_pwait2, poller, &(struct epoll_event){0}, 1, &late, 0, 8)); }

// What the other thread does to end a wait.
static void send_byte(void) { if (send(pair[1], "x", 1, 0)) {} }
static void drain(void) { while (recv(pair[1], (char[MESSAGE]){0}, MESSAGE, MSG_DONTWAIT) > 0) {} }
static void come(void) {
    int visitor = socket(AF_UNIX, SOCK_STREAM, 0);
    connect(visitor, (void *)&name, name_length);
    close(visitor);
}
static void take_all(void) { for (int visitor; (visitor = accept4(listener, 0, 0, SOCK_NONBLOCK)) >= 0;) close(visitor); }
static void raise_semaphore(void) { semop(semaphores, &(struct sembuf){0, 1, 0}, 1); }
static void send_signal(void) { kill(getpid(), SIGUSR2); }
static void notify(void) { if (write(event, &(long){1}, 8)) {} }
static void nothing(void) {}

static const struct { const char *name; long (*make)(void); void (*end)(void); } calls[] = {
    {"read", do_read, send_byte}, {"readv", do_readv, send_byte}, {"recvfrom", do_recvfrom, send_byte},
    {"recvmsg", do_recvmsg, send_byte}, {"recvmmsg", do_recvmmsg, send_byte},
    {"write", do_write, drain}, {"writev", do_writev, drain}, {"sendto", do_sendto, drain},
    {"sendmsg", do_sendmsg, drain}, {"sendmmsg", do_sendmmsg, drain},
    {"accept", do_accept, come}, {"accept4", do_accept4, come}, {"connect", do_connect, take_all},
    {"semop", do_semop, raise_semaphore}, {"semtimedop", do_semtimedop, raise_semaphore},
    {"rt_sigtimedwait", do_rt_sigtimedwait, send_signal},
    {"io_getevents", do_io_getevents, nothing}, {"io_uring_enter", do_io_uring_enter, nothing},
    {"epoll_wait", do_epoll_wait, notify}, {"epoll_pwait", do_epoll_pwait, notify}, {"epoll_pwait2", do_epoll_pwait2, notify},
};
enum { CALLS = sizeof calls / sizeof *calls };

static void *serve(void *end) {
    while (!stop) {
        if (served < asked) {
            usleep(100);
            ((void (*)(void))end)();
            served++;
        }
        usleep(20);
    }
    return 0;
}

static void prepare(const char *call) {
    struct timeval timeout = {20, 0};
    int small = 1, sends = strstr(call, "send") || strstr(call, "write");
    sigemptyset(&awaited);
    sigaddset(&awaited, SIGUSR2);
    sigprocmask(SIG_BLOCK, &awaited, 0);
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    setsockopt(pair[0], SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
    setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    part.iov_len = sends ? MESSAGE : 1;
    listener = socket(AF_UNIX, SOCK_STREAM | (strcmp(call, "connect") ? 0 : SOCK_NONBLOCK), 0);
    setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    name_length = sizeof(sa_family_t) + 1 + snprintf(name.sun_path + 1, 40, "restarts-%d", getpid());
    bind(listener, (void *)&name, name_length);
    listen(listener, 0);
    event = eventfd(0, EFD_NONBLOCK), poller = epoll_create1(0);
    epoll_ctl(poller, EPOLL_CTL_ADD, event, &(struct epoll_event){.events = EPOLLIN});
    semaphores = semget(IPC_PRIVATE, 1, 0600);
    ring = strstr(call, "uring") ? (int)syscall(SYS_io_uring_setup, 4, &(struct io_uring_params){0}) : 0;
    long has_aio = strstr(call, "getevents") ? syscall(SYS_io_setup, 4, &aio) : 0;
    if (ring < 0 || has_aio < 0 || (strstr(call, "sem") && semaphores < 0)) exit(UNAVAILABLE);
}

int main(int count, char **arguments) {
    int row = 0;
    if (count < 3) {
        while (row < CALLS) puts(calls[row++].name);
        return 0;
    }
    while (row < CALLS && strcmp(calls[row].name, arguments[1])) row++;
    if (row == CALLS) return 2;
    prepare(arguments[1]);
    int until_first = count > 3;
    clockid_t clock = until_first ? CLOCK_MONOTONIC : CLOCK_PROCESS_CPUTIME_ID;
    long made = 0, interrupted = 0, wrong = 0, end = clock_ms(clock) + atol(arguments[2]);
    pthread_t other;
    pthread_create(&other, 0, serve, (void *)calls[row].end);
    while (clock_ms(clock) < end && !(until_first && interrupted)) {
        for (volatile int i = 0; i < 20000; i++) {}
        asked++;
        for (long result = -1; result < 0;) {
            errno = 0;
            result = calls[row].make();
            made++;
            if (result < 0 && errno == ENOSYS) exit(UNAVAILABLE);
            if (result < 0 && errno == EINTR) interrupted++;
            else if (result != 1) wrong++, result = 0;
        }
    }
    stop = 1;
    pthread_join(other, 0);
    semctl(semaphores, 0, IPC_RMID);
    printf("%s calls %ld interrupted %ld wrong %ld\n", arguments[1], made, interrupted, wrong);
    return 0;
}
