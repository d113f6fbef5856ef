// user_dispatch: turns Syscall User Dispatch on in one thread, burns CPU time while every system call is blocked, makes one now and then,
// and turns it off. Another thread burns meanwhile. Then the same on an alternate signal stack. Prints what was dispatched, and the
// thread's mask in each state.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#endif
enum { OFF, ON, ALLOW = 0, BLOCK = 1, CALLS = 100, MADE_UP = 4711, RESULT = 815 };

static volatile char selector;
static volatile int dispatched, others;
static volatile int over;

static void on_call(int number, siginfo_t *info, void *context) {
    selector = ALLOW;
    dispatched++;
    if (number != SIGSYS || info->si_syscall != MADE_UP) others++;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RAX] = RESULT;
}

__attribute__((noipa)) static void burn_blocked(uint64_t rounds) {
    asm volatile("1: dec %0\n jnz 1b\n" : "+r"(rounds) : : "cc");
}

__attribute__((noipa)) static void burn_beside(uint64_t rounds) {
    asm volatile("1: dec %0\n jnz 1b\n" : "+r"(rounds) : : "cc");
}

static long made_up_call(void) {
    long result;
    asm volatile("syscall" : "=a"(result) : "a"(MADE_UP) : "rcx", "r11", "memory");
    return result;
}

static void show_mask(const char *when) {
    sigset_t mask;
    pthread_sigmask(SIG_BLOCK, 0, &mask);
    printf("%s:", when);
    for (int number = 1; number <= 64; number++)
        if (sigismember(&mask, number) == 1) printf(" %d", number);
    puts("");
}

static void *beside(void *shows) {
    if (shows) show_mask("another thread");
    while (!over) burn_beside(1000000);
    return shows;
}

static void round_of_calls(int raw) {
    long wrong = 0;
    dispatched = others = 0;
    int result = raw ? (int)syscall(SYS_prctl, PR_SET_SYSCALL_USER_DISPATCH, ON, 0, 0, &selector)
                     : prctl(PR_SET_SYSCALL_USER_DISPATCH, ON, 0, 0, &selector);
    printf("on: %d %s\n", result, result ? strerror(errno) : "");
    if (result) return;
    show_mask("on");
    for (int i = 0; i < CALLS; i++) {
        selector = BLOCK;
        // 3 ms or so.
        burn_blocked(6000000);
        if (made_up_call() != RESULT) wrong++;
    }
    sigset_t set, old;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, 0);
    show_mask("SIGUSR2");
    sigemptyset(&set);
    pthread_sigmask(SIG_SETMASK, &set, &old);
    printf("before: SIGUSR2 %d, SIGURG %d\n", sigismember(&old, SIGUSR2), sigismember(&old, SIGURG));
    for (int i = 0; i < CALLS / 5; i++) {
        selector = BLOCK;
        burn_blocked(6000000);
        if (made_up_call() != RESULT) wrong++;
    }
    pthread_t child;
    pthread_create(&child, 0, beside, "shows");
    over = 1;
    pthread_join(child, 0);
    over = 0;
    fflush(stdout);
    pid_t pid = fork();
    if (!pid) {
        show_mask("in a child");
        fflush(stdout);
        burn_blocked(50000000);
        _exit(0);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    printf("child %d\n", status);
    result = raw ? (int)syscall(SYS_prctl, PR_SET_SYSCALL_USER_DISPATCH, OFF, 0, 0, 0)
                 : prctl(PR_SET_SYSCALL_USER_DISPATCH, OFF, 0, 0, 0);
    printf("off: %d, dispatched %d, others %d, wrong results %ld\n", result, dispatched, others, wrong);
    show_mask("off");
    burn_blocked(50000000);
}

int main(int count, char **arguments) {
    int raw = count > 1 && !strcmp(arguments[1], "raw");
    pthread_t thread;
    struct sigaction action = {.sa_sigaction = on_call, .sa_flags = SA_SIGINFO};
    stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};
    sigaction(SIGSYS, &action, 0);
    burn_blocked(300000000);
    pthread_create(&thread, 0, beside, 0);
    round_of_calls(raw);
    over = 1;
    pthread_join(thread, 0);
    over = 0;
    action.sa_flags |= SA_ONSTACK;
    sigaction(SIGSYS, &action, 0);
    sigaltstack(&stack, 0);
    round_of_calls(raw);
    return 0;
}
