// confined MILLISECONDS: ends itself by a seccomp filter if restart_syscall(2) is called, as sshd's filter does; computes a little and
// waits with a timeout, over and over, for so much wall time. Prints how often it has waited.
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int main(int count, char **arguments) {
    if (count < 2) return 2;
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_restart_syscall, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof code / sizeof *code, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)) return 77;
    long until_us = now_us() + atol(arguments[1]) * 1000, waits = 0;
    volatile unsigned sum = 0;
    for (struct timespec pause = {0, 100000}; now_us() < until_us; waits++) {
        for (unsigned at = 0; at < 20000; at++) sum += at;
        if (waits % 2 ? poll(0, 0, 1) : syscall(SYS_nanosleep, &pause, 0)) return 3;
    }
    printf("waits %ld\n", waits);
    return 0;
}
