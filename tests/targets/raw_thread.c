// raw_thread MS: a thread that a raw clone makes, which libc does not know, uses MS of CPU time while the first thread sleeps in one wait.
// Prints the CPU time of that thread and its wall time in ns.
#define _GNU_SOURCE
#include <linux/futex.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static volatile unsigned sink;
static volatile int done;
static volatile long goal_ns, used_ns, lived_ns;

__attribute__((noinline)) static void compute(void) {
    for (unsigned i = 0; i < 1000000; i++) sink = sink * 7 + i;
}

static long now_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

static int body(void *unused) {
    (void)unused;
    long since_ns = now_ns(CLOCK_MONOTONIC);
    while (now_ns(CLOCK_THREAD_CPUTIME_ID) < goal_ns) compute();
    used_ns = now_ns(CLOCK_THREAD_CPUTIME_ID);
    lived_ns = now_ns(CLOCK_MONOTONIC) - since_ns;
    done = 1;
    syscall(SYS_futex, &done, FUTEX_WAKE, 1, 0, 0, 0);
    for (;;) syscall(SYS_exit, 0);
}

int main(int count, char **arguments) {
    if (count < 2) return 2;
    goal_ns = atol(arguments[1]) * 1000000;
    char *stack = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
    if (clone(body, stack + (1 << 20), flags, 0) < 0) return 3;
    while (!done) syscall(SYS_futex, &done, FUTEX_WAIT, 0, 0, 0, 0);
    printf("prof %ld\nreal %ld\n", used_ns, lived_ns);
    return 0;
}
