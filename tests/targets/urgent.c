// urgent MODE [PERCENT]: uses SIGURG itself, and burns CPU time meanwhile, or so many per cent of that. Prints how often it got its own.
//   blocked  blocks it by name, sends it to itself, finds it pending once, and handles it once
//   waits    a thread waits for it by name; another sends it five times, one after the other
//   sigset   a handler by sigset(3); holds, sends and releases it three times
//   late     a handler by sigaction(2) after it has burned for a while; sends it three times
//   ignored  ignores it, and blocks it by name; sends it, and reads it from a signalfd
//   young    a thread blocks it by name as soon as it starts, and burns, while the first thread has used no CPU time to speak of
//   hidden   the same by a system call of its own
//   unseen   blocks it by a system call of its own, and burns for three seconds
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t handled, foreign;
static int64_t ms_ns = 1000000;

static int64_t used_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

__attribute__((noipa)) static void burn(int ms) {
    volatile double x = 1;
    for (int64_t end = used_ns() + ms * ms_ns; used_ns() < end;)
        for (int i = 0; i < 10000; i++) x = x * 1.0000001 + 0.5;
}

static void count(int number) { handled += number == SIGURG; }

static void count_info(int number, siginfo_t *info, void *context) {
    (void)context;
    handled += number == SIGURG;
    foreign += info->si_code != SI_USER;
}

static void *burn_on(void *unused) {
    burn(400);
    return unused;
}

static sigset_t only_urgent(void);

static void *block_and_burn(void *is_hidden) {
    sigset_t urgent = only_urgent();
    if (is_hidden)
        syscall(SYS_rt_sigprocmask, SIG_BLOCK, &urgent, 0, 8);
    else
        pthread_sigmask(SIG_BLOCK, &urgent, 0);
    burn(1000);
    return 0;
}

static sigset_t only_urgent(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGURG);
    return set;
}

int main(int count_of, char **arguments) {
    if (count_of < 2) return 2;
    const char *mode = arguments[1];
    if (count_of > 2) ms_ns = atoll(arguments[2]) * 10000;
    sigset_t urgent = only_urgent(), pending;
    if (!strcmp(mode, "blocked")) {
        struct sigaction action = {.sa_sigaction = count_info, .sa_flags = SA_SIGINFO};
        sigprocmask(SIG_BLOCK, &urgent, 0);
        sigaction(SIGURG, &action, 0);
        burn(200);
        kill(getpid(), SIGURG);
        burn(100);
        sigpending(&pending);
        printf("pending %d, handled %d\n", sigismember(&pending, SIGURG), handled);
        sigprocmask(SIG_UNBLOCK, &urgent, 0);
        burn(100);
    } else if (!strcmp(mode, "waits")) {
        pthread_t other;
        burn(200);
        pthread_sigmask(SIG_BLOCK, &urgent, 0);
        pthread_create(&other, 0, burn_on, 0);
        for (int i = 0; i < 5; i++) {
            siginfo_t info;
            kill(getpid(), SIGURG);
            handled += sigwaitinfo(&urgent, &info) == SIGURG;
            foreign += info.si_code != SI_USER;
            burn(20);
        }
        pthread_join(other, 0);
        sigpending(&pending);
        printf("pending %d\n", sigismember(&pending, SIGURG));
    } else if (!strcmp(mode, "sigset")) {
        burn(100);
        sigset(SIGURG, count);
        for (int i = 0; i < 3; i++) {
            sighold(SIGURG);
            kill(getpid(), SIGURG);
            burn(60);
            printf("held %d\n", handled);
            sigrelse(SIGURG);
            burn(60);
        }
    } else if (!strcmp(mode, "late")) {
        burn(200);
        struct sigaction action = {.sa_sigaction = count_info, .sa_flags = SA_SIGINFO};
        sigaction(SIGURG, &action, 0);
        for (int i = 0; i < 3; i++) {
            burn(60);
            kill(getpid(), SIGURG);
        }
        burn(100);
    } else if (!strcmp(mode, "ignored")) {
        signal(SIGURG, SIG_IGN);
        sigprocmask(SIG_BLOCK, &urgent, 0);
        int file = signalfd(-1, &urgent, SFD_NONBLOCK);
        struct signalfd_siginfo info;
        for (int i = 0; i < 3; i++) {
            burn(60);
            kill(getpid(), SIGURG);
            while (read(file, &info, sizeof info) == sizeof info) handled++, foreign += info.ssi_code != SI_USER;
        }
        burn(100);
        while (read(file, &info, sizeof info) == sizeof info) handled++, foreign += info.ssi_code != SI_USER;
    } else if (!strcmp(mode, "young") || !strcmp(mode, "hidden")) {
        pthread_t other;
        pthread_create(&other, 0, block_and_burn, strcmp(mode, "hidden") ? 0 : &urgent);
        pthread_join(other, 0);
    } else {
        burn(200);
        syscall(SYS_rt_sigprocmask, SIG_BLOCK, &urgent, 0, 8);
        burn(3000);
        sigpending(&pending);
        return 0;
    }
    printf("handled %d, of others %d\n", handled, foreign);
    return 0;
}
