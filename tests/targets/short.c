// short KIND COUNT MS: uses MS ms of CPU time COUNT times, one after the other: in fork children (fork), in fork children that execute
// this program (exec), in fork children that block all signals (blocked), in threads (thread), or itself (self). Prints the CPU time of all of them in ns, by getrusage.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long ms;

__attribute__((noipa)) static void work(long rounds) {
    volatile double x = 1;
    for (long i = 0; i < rounds; i++) x = x * 1.0000001 + 0.5;
}

static long long now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void *burn(void *unused) {
    for (long long end = now_ns() + ms * 1000000; now_ns() < end;) work(5000);
    return unused;
}

static long long used_ns(int who) {
    struct rusage used;
    getrusage(who, &used);
    return (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000000LL + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1000LL;
}

int main(int count, char **arguments) {
    if (count < 4) return 2;
    const char *kind = arguments[1];
    ms = atol(arguments[3]);
    for (int i = atoi(arguments[2]); i > 0; i--) {
        if (!strcmp(kind, "thread")) {
            pthread_t thread;
            if (pthread_create(&thread, 0, burn, 0)) return 3;
            pthread_join(thread, 0);
        } else if (!strcmp(kind, "fork") || !strcmp(kind, "exec") || !strcmp(kind, "blocked")) {
            pid_t child = fork();
            if (!child && *kind == 'b') {
                unsigned long all = ~0ul;
                syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, 0, sizeof all);
            }
            if (!child && *kind == 'e') execl("/proc/self/exe", arguments[0], "quiet", "1", arguments[3], (char *)0);
            if (!child) {
                burn(0);
                _exit(0);
            }
            waitpid(child, 0, 0);
        } else {
            burn(0);
        }
    }
    if (strcmp(kind, "quiet")) printf("%lld\n", used_ns(RUSAGE_SELF) + used_ns(RUSAGE_CHILDREN));
    return 0;
}
