// interposed COUNT: forks COUNT children one after another. Each uses 5 ms of CPU time, alone and
// with a thread, mostly in functions of libc that a profiler may replace, and in a handler of
// SIGURG; then it ends by exit, by _exit, by another program, or by SIGKILL. Prints the CPU time of
// all of them in ns, by getrusage.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long long now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

__attribute__((noipa)) static void work(long rounds) {
    volatile double x = 1;
    for (long i = 0; i < rounds; i++) x = x * 1.0000001 + 0.5;
}

__attribute__((noipa)) static void handle(int signal) {
    work(20000);
    (void)signal;
}

__attribute__((noipa)) static void *live(void *unused) {
    work(20000);
    return unused;
}

__attribute__((noipa)) static void create_thread(void) {
    pthread_t thread;
    if (pthread_create(&thread, 0, live, 0)) _exit(3);
    pthread_join(thread, 0);
}

__attribute__((noipa)) static void change_signals(void) {
    struct sigaction action = {.sa_handler = handle}, before;
    sigset_t set, old;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    for (int i = 0; i < 200; i++) {
        sigaction(SIGUSR1, &action, &before);
        sigprocmask(SIG_BLOCK, &set, &old);
        sigprocmask(SIG_SETMASK, &old, 0);
        prctl(PR_GET_DUMPABLE);
    }
}

static long long used_ns(int who) {
    struct rusage used;
    getrusage(who, &used);
    return (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000000LL + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1000LL;
}

int main(int count, char **arguments) {
    if (count < 2) return 2;
    signal(SIGURG, handle);
    for (int i = 0; i < atoi(arguments[1]); i++) {
        pid_t child = fork();
        if (!child) {
            for (long long end = now_ns() + 5000000; now_ns() < end;) {
                create_thread();
                change_signals();
                raise(SIGURG);
            }
            switch (i % 4) {
            case 0: exit(0);
            case 1: _exit(0);
            case 2: execl("/proc/self/exe", arguments[0], "0", (char *)0);
            }
            raise(SIGKILL);
        }
        waitpid(child, 0, 0);
    }
    if (atoi(arguments[1])) printf("process %lld\n", used_ns(RUSAGE_SELF) + used_ns(RUSAGE_CHILDREN));
    return 0;
}
