// Allocates where it is hardest: in a constructor, in handlers of a fast timer that jump out of the allocation they interrupt or
// allocate themselves, on threads that end, in fork children, under a seccomp filter, and in libraries that are loaded and closed.
// Checks what it has written, and says at the end what it has done, and how much it kept of what
// `keep` allocated.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static char *early;
static unsigned long kept;

__attribute__((noinline)) static void keep(unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        char *memory = malloc(1000);
        if (!memory) _exit(8);
        *(volatile char *)memory = 1;
    }
    __atomic_fetch_add(&kept, 1000ul * count, __ATOMIC_RELAXED);
}

__attribute__((constructor)) static void constructor(void) { early = strdup("early"); }

static void churn(unsigned rounds, unsigned seed) {
    char *live[64] = {0};
    size_t sizes[64] = {0};
    for (unsigned round = 0; round < rounds; round++) {
        seed = seed * 1664525 + 1013904223;
        unsigned at = seed >> 26;
        size_t size = 1 + (seed >> 8) % 3000;
        for (size_t i = 0; i < sizes[at]; i += 97)
            if (live[at][i] != (char)at) printf("not what was written\n"), _exit(3);
        if (seed & 64) {
            live[at] = realloc(live[at], size);
        } else {
            free(live[at]);
            live[at] = malloc(size);
        }
        sizes[at] = size;
        memset(live[at], at, size);
    }
    for (int at = 0; at < 64; at++) free(live[at]);
}

static void *thread(void *seed) {
    churn(400, (uintptr_t)seed);
    keep(10);
    return NULL;
}

static void handle(int signal) {
    (void)signal;
    int number = errno;
    errno = number;
}

static volatile sig_atomic_t may_jump;
static sigjmp_buf back;
static void jump(int signal) {
    (void)signal;
    if (may_jump) may_jump = 0, siglongjmp(back, 1);
}

static void set_timer(long us) {
    struct itimerval timer = {{0, us}, {0, us}};
    setitimer(ITIMER_REAL, &timer, NULL);
}

int main(int argc, char **argv) {
    const char *filter = argc > 1 ? argv[1] : "";
    if (strcmp(early, "early")) return 4;
    free(early);
    // Handlers interrupt the allocator and its sampling.
    signal(SIGALRM, handle);
    set_timer(200);
    churn(20000, 7);
    // Handlers leave a function that computes, not the allocator itself, which is not made for that.
    struct sigaction action = {.sa_handler = jump, .sa_flags = SA_NODEFER};
    sigaction(SIGALRM, &action, NULL);
    int jumps = 0;
    while (jumps < 50) {
        if (sigsetjmp(back, 1) == 0) {
            may_jump = 1;
            for (volatile unsigned i = 0; may_jump; i++) {}
        } else {
            jumps++;
            churn(20, jumps);
            keep(20);
        }
    }
    set_timer(0);
    for (int round = 0; round < 40; round++) {
        pthread_t threads[8];
        for (uintptr_t i = 0; i < 8; i++) pthread_create(&threads[i], NULL, thread, (void *)(i + 8 * round));
        for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
    }
    for (int round = 0; round < 20; round++) {
        pid_t child = fork();
        if (child == 0) {
            churn(300, round);
            // What a child keeps is not in the books of its parent.
            keep(100);
            _exit(7);
        }
        int status;
        waitpid(child, &status, 0);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 7) return 5;
    }
    // The agent changes offset tables while the loader fills others in, at the same addresses.
    for (int round = 0; round < 1500; round++) {
        const char *names[] = {"libm.so.6", "libresolv.so.2", "libstdc++.so.6", "libcrypto.so.3"};
        void *libraries[4];
        for (int i = 0; i < 4; i++) libraries[i] = dlopen(names[(i + round) % 4], (round & 1 ? RTLD_NOW : RTLD_LAZY) | RTLD_LOCAL);
        churn(5, round);
        keep(1);
        if (round % 3 == 0) usleep(100);
        for (int i = 0; i < 4; i++)
            if (libraries[(3 * i + round) % 4]) dlclose(libraries[(3 * i + round) % 4]);
    }
    if (!strcmp(filter, "filter")) {
        struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
        struct sock_fprog program = {1, &allow};
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return 6;
        churn(20000, 9);
    }
    printf("constructor, %d jumps, 320 threads, 20 children, libraries%s\nkept %lu\n", jumps, *filter ? ", filter" : "", kept);
    return 0;
}
