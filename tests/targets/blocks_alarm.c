// blocks_alarm: computes with SIGALRM blocked by a raw system call, and prints `blocked`, until its standard input ends. Then it unblocks
// SIGALRM and prints `alive`.
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(void) {
    unsigned long alarm = 1UL << (SIGALRM - 1);
    if (syscall(SYS_rt_sigprocmask, SIG_BLOCK, &alarm, 0, 8)) return 2;
    puts("blocked");
    fflush(stdout);
    volatile unsigned sum = 0;
    for (struct pollfd in = {0, POLLIN, 0}; !poll(&in, 1, 0);) {
        for (unsigned at = 0; at < 1000000; at++) sum += at;
    }
    if (syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &alarm, 0, 8)) return 2;
    puts("alive");
    return 0;
}
