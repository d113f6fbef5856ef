// A library whose constructor runs before the preloaded agent's, and prints what its calls return.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

static void *nothing(void *argument) { return argument; }

__attribute__((constructor(101))) static void first(void) {
    sigset_t set, old;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    printf("pthread_sigmask %d\n", pthread_sigmask(SIG_BLOCK, &set, &old));
    printf("SIGUSR1 was blocked %d\n", sigismember(&old, SIGUSR1));
}

__attribute__((constructor(102))) static void second(void) {
    struct timespec now = {0, 0};
    pthread_t thread;
    stack_t stack;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    printf("prctl %d\n", prctl(PR_SET_DUMPABLE, 1));
    printf("sigprocmask %d\n", sigprocmask(SIG_BLOCK, &set, 0));
    printf("sigtimedwait %d\n", sigtimedwait(&set, 0, &now));
    printf("signalfd works %d\n", signalfd(-1, &set, 0) >= 0);
    printf("unshare %d\n", unshare(CLONE_FS));
    printf("sigaltstack %d\n", sigaltstack(0, &stack));
    int result = pthread_create(&thread, 0, nothing, 0);
    printf("pthread_create %d\n", result);
    if (!result) pthread_join(thread, 0);
}

void early(void) {}
