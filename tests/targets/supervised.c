// supervised process|thread COUNT PAUSE: a thread under a seccomp filter makes COUNT system calls for which a supervisor answers, PAUSE µs
// after it has read the request: a second process, or a second thread. It computes for some tens of microseconds before each. Each call
// has a number, so that the supervisor knows one that is made again. Prints how many calls were made and requested, how many requests came
// twice or vanished before they were answered, how many results were wrong, and the CPU time of the thread.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// The supervised call, and its first argument, by which others like it are let through.
enum { CALL = SYS_getpriority, MARK = 4711 };
static struct {
    long requests, again, vanished, last;
} *counts;
static long pause_us;
static volatile unsigned long sink;
static int pair[2];

static int filter(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, CALL, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MARK, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return -1;
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
}

static void supervise(int listener) {
    for (;;) {
        struct pollfd polled = {listener, POLLIN, 0};
        if (poll(&polled, 1, -1) < 1 || !(polled.revents & POLLIN)) return;
        struct seccomp_notif request;
        memset(&request, 0, sizeof request);
        if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &request)) {
            counts->vanished += errno == ENOENT;
            continue;
        }
        long number = (long)request.data.args[1];
        counts->requests++, counts->again += number == counts->last, counts->last = number;
        if (pause_us) usleep((useconds_t)pause_us);
        struct seccomp_notif_resp answer = {request.id, number % 1000 + 1, 0, 0};
        if (ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer)) counts->vanished += errno == ENOENT;
    }
}

static void *supervises(void *listener) {
    supervise((int)(intptr_t)listener);
    return 0;
}

static __attribute__((noinline)) void works(long number) {
    for (long i = 0; i < 20000 + number * 37 % 30000; i++) sink += (unsigned long)i;
}

static int calls(long count) {
    long wrong = 0;
    for (long number = 1; number <= count; number++) {
        works(number);
        wrong += syscall(CALL, MARK, number) != number % 1000 + 1;
    }
    struct timespec used;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    printf("made %ld\nrequests %ld\nagain %ld\nvanished %ld\nwrong %ld\ncpu %ld\n", count, counts->requests, counts->again,
           counts->vanished, wrong, used.tv_sec * 1000000000L + used.tv_nsec);
    return 0;
}

// Sends a descriptor, or receives one.
static int hand_over(int descriptor) {
    char byte = 0, space[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec part = {&byte, 1};
    struct msghdr message = {0, 0, &part, 1, space, sizeof space, 0};
    if (descriptor < 0) {
        if (recvmsg(pair[0], &message, 0) != 1) return -1;
        memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof descriptor);
        return descriptor;
    }
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET, header->cmsg_type = SCM_RIGHTS, header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
    return sendmsg(pair[1], &message, 0) == 1 ? 0 : -1;
}

int main(int count, char **arguments) {
    if (count < 4) return 2;
    long times = atol(arguments[2]);
    pause_us = atol(arguments[3]);
    counts = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!strcmp(arguments[1], "thread")) {
        // Only threads that are made later have the filter: they make no call that it asks for.
        int listener = filter();
        pthread_t thread;
        if (listener < 0 || pthread_create(&thread, 0, supervises, (void *)(intptr_t)listener)) return 3;
        return calls(times);
    }
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) return 3;
    pid_t child = fork();
    if (child == 0) {
        int listener = filter();
        if (listener < 0 || hand_over(listener)) _exit(3);
        close(listener);
        int status = calls(times);
        fflush(stdout);
        _exit(status);
    }
    int listener = hand_over(-1), status = 0;
    if (listener < 0) return 3;
    supervise(listener);
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
}
