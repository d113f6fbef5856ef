// signals MODE [PERCENT]: one way of using signals, with CPU time burned around it, or so many per cent of that.
// Prints what it saw of them, which is the same in every run.
//   mask      a thread blocks all signals and burns; masks as they read back after each change
//   sigwait   a thread waits for all signals and prints those that come, while another burns
//   signalfd  likewise by a signalfd, in a loop that burns between two reads
//   handlers  own handlers for SIGPROF, SIGURG and SIGALRM, ignored and reset ones; what sigaction says of each
//   alarm     an alarm ends a burning process
//   errno     a failing call and its errno, a million times
//   jump      a handler of SIGUSR1 that another thread raises all the time jumps out by siglongjmp
//   nested    handlers that raise the next signal, twenty deep, and burn at the bottom
//   altstack  the smallest stack for handlers that the kernel takes, one that is disabled, and one in a small thread
//   segv      an own handler of SIGSEGV that goes on behind the fault, a thousand times
//   crash     an own handler of SIGSEGV that prints the address and lets the default happen
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int64_t now_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static int64_t ms_ns = 1000000;

static void burn_ms(int64_t ms) {
    volatile double x = 1;
    for (int64_t end = now_ns(CLOCK_THREAD_CPUTIME_ID) + ms * ms_ns; now_ns(CLOCK_THREAD_CPUTIME_ID) < end;)
        for (int i = 0; i < 10000; i++) x = x * 1.0000001 + 0.5;
}

__attribute__((noipa)) static void burn(int64_t ms) {
    burn_ms(ms);
    asm volatile("");
}

__attribute__((noipa)) static void burn_blocked(int64_t ms) {
    burn_ms(ms);
    asm volatile("");
}

// Every signal in the calling thread's mask, as ranges.
static void show_mask(const char *when) {
    sigset_t mask;
    pthread_sigmask(SIG_BLOCK, 0, &mask);
    printf("%s:", when);
    for (int number = 1; number <= 64; number++)
        if (sigismember(&mask, number) == 1) printf(" %d", number);
    puts("");
}

static void *block(void *unused) {
    sigset_t all, one, old;
    show_mask("at first");
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    show_mask("all");
    burn_blocked(300);
    sigemptyset(&one);
    sigaddset(&one, SIGALRM);
    pthread_sigmask(SIG_UNBLOCK, &one, &all);
    printf("old has %d %d\n", sigismember(&all, SIGURG), sigismember(&all, SIGPROF));
    show_mask("all but SIGALRM");
    sigaddset(&one, SIGURG);
    pthread_sigmask(SIG_UNBLOCK, &one, 0);
    pthread_sigmask(SIG_BLOCK, 0, &all);
    printf("now has %d %d\n", sigismember(&all, SIGURG), sigismember(&all, SIGPROF));
    sigaddset(&one, SIGPROF);
    pthread_sigmask(SIG_SETMASK, &one, 0);
    show_mask("SIGURG and SIGPROF");
    sigprocmask(SIG_SETMASK, &old, 0);
    show_mask("as before");
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, 0);
    sigdelset(&all, SIGINT);
    sigprocmask(SIG_UNBLOCK, &all, 0);
    show_mask("SIGINT");
    sigprocmask(SIG_SETMASK, &old, 0);
    return unused;
}

// How many signals a thread has read.
static _Atomic int came;

static void *wait_for_all(void *unused) {
    sigset_t all;
    sigfillset(&all);
    for (int number = 0; number != SIGTERM;) {
        if (sigwait(&all, &number)) puts("sigwait failed");
        printf("came %d\n", number);
        came++;
    }
    return unused;
}

// Sends a signal once the one before has come, or is long overdue: of one that is pending, another adds nothing.
static void send_next(int sent, int number) {
    burn_blocked(60);
    for (int64_t end = now_ns(CLOCK_MONOTONIC) + 10000000000; came < sent && now_ns(CLOCK_MONOTONIC) < end;) usleep(100);
    kill(getpid(), number);
}

static void send_some(void) {
    for (int i = 0; i < 5; i++) send_next(i, i % 2 ? SIGUSR1 : SIGUSR2);
    send_next(5, SIGTERM);
}

static void *send_from_a_thread(void *unused) {
    send_some();
    return unused;
}

static void sigwait_mode(void) {
    pthread_t waiter;
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, 0);
    pthread_create(&waiter, 0, wait_for_all, 0);
    send_some();
    pthread_join(waiter, 0);
}

static void signalfd_mode(void) {
    pthread_t sender;
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, 0);
    int file = signalfd(-1, &all, SFD_NONBLOCK);
    pthread_create(&sender, 0, send_from_a_thread, 0);
    struct signalfd_siginfo info;
    for (int over = 0; !over;) {
        for (int i = 0; i < 1000; i++)
            if (read(file, &info, sizeof info) == sizeof info) {
                printf("came %d\n", (int)info.ssi_signo);
                came++;
                over |= info.ssi_signo == SIGTERM;
            }
        burn_blocked(1);
    }
    pthread_join(sender, 0);
}

static volatile sig_atomic_t counts[65];

static void count_one(int number) { counts[number]++; }

static void handlers_mode(void) {
    const int ours[] = {SIGPROF, SIGURG, SIGALRM, SIGVTALRM};
    for (int i = 0; i < 4; i++) {
        struct sigaction mine = {.sa_handler = count_one, .sa_flags = SA_NODEFER}, old;
        sigfillset(&mine.sa_mask);
        burn(50);
        sigaction(ours[i], &mine, &old);
        printf("%d was default: %d\n", ours[i], old.sa_handler == SIG_DFL);
        for (int n = 0; n < 10; n++) raise(ours[i]);
        for (int n = 0; n < 10; n++) kill(getpid(), ours[i]);
        burn(50);
        sigaction(ours[i], 0, &old);
        printf("%d counted %d, mine %d, flags %x, mask %d %d\n", ours[i], (int)counts[ours[i]], old.sa_handler == count_one,
               (unsigned)old.sa_flags & ~0x04000000u, sigismember(&old.sa_mask, SIGURG), sigismember(&old.sa_mask, SIGPROF));
        printf("then ignored, was mine %d\n", signal(ours[i], SIG_IGN) == count_one);
        raise(ours[i]);
        burn(20);
        printf("then default, was ignored %d\n", signal(ours[i], SIG_DFL) == SIG_IGN);
        burn(20);
    }
    struct sigaction mine = {.sa_handler = count_one}, old;
    sigfillset(&mine.sa_mask);
    sigaction(SIGUSR1, &mine, 0);
    sigaction(SIGUSR1, 0, &old);
    printf("mask of another %d %d\n", sigismember(&old.sa_mask, SIGURG), sigismember(&old.sa_mask, SIGPROF));
}

static void errno_mode(void) {
    int wrong = 0;
    for (int i = 0; i < 300000 * ms_ns / 1000000; i++) {
        errno = i % 4000 + 1;
        for (volatile int n = 0; n < 1000; n++) asm volatile("" ::: "memory");
        if (errno != i % 4000 + 1) wrong++;
        if (open("/no such file", O_RDONLY) >= 0 || errno != ENOENT) wrong++;
    }
    printf("wrong %d\n", wrong);
}

static sigjmp_buf place;
static volatile int jumping;

static void jump(int number) {
    if (jumping) siglongjmp(place, number);
}

static void *raise_all_the_time(void *target) {
    while (jumping) {
        pthread_kill(*(pthread_t *)target, SIGUSR1);
        usleep(100);
    }
    return 0;
}

static void jump_mode(void) {
    pthread_t self = pthread_self(), other;
    struct sigaction action = {.sa_handler = jump};
    volatile int jumps = 0;
    sigaction(SIGUSR1, &action, 0);
    sigsetjmp(place, 1);
    if (!jumping++) pthread_create(&other, 0, raise_all_the_time, &self);
    int64_t end = now_ns(CLOCK_THREAD_CPUTIME_ID) + 1000 * ms_ns;
    while (now_ns(CLOCK_THREAD_CPUTIME_ID) < end) {
        if (sigsetjmp(place, 1)) jumps++;
        burn(1);
    }
    jumping = 0;
    pthread_join(other, 0);
    puts(jumps > 500 * ms_ns / 1000000 ? "many jumps" : "few jumps");
}

__attribute__((noipa)) static void deeper(int number) {
    if (number < 50) raise(number + 1);
    else burn(500);
    asm volatile("");
}

static void nested_mode(void) {
    for (int number = 35; number <= 50; number++) {
        struct sigaction action = {.sa_handler = deeper};
        sigaction(number, &action, 0);
    }
    raise(35);
    puts("back");
}

static void on_altstack(int number) {
    burn(150);
    counts[number]++;
}

// What a handler of SIGUSR1 blocks.
static void show_blocked(void) {
    struct sigaction action;
    sigaction(SIGUSR1, 0, &action);
    printf("blocks:");
    for (int number = 1; number <= 64; number++)
        if (sigismember(&action.sa_mask, number) == 1) printf(" %d", number);
    puts("");
}

static void *with_altstack(void *size) {
    size_t bytes = (size_t)size;
    stack_t stack = {.ss_sp = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), .ss_size = bytes};
    struct sigaction action = {.sa_handler = on_altstack, .sa_flags = SA_ONSTACK};
    printf("sigaltstack %d\n", sigaltstack(&stack, 0));
    sigaddset(&action.sa_mask, SIGUSR2);
    sigaction(SIGUSR1, &action, 0);
    show_blocked();
    burn(100);
    raise(SIGUSR1);
    stack.ss_flags = SS_DISABLE;
    printf("sigaltstack %d, handled %d\n", sigaltstack(&stack, 0), (int)counts[SIGUSR1]);
    burn(50);
    return 0;
}

static void altstack_mode(void) {
    pthread_t small;
    pthread_attr_t attributes;
    stack_t bad = {.ss_sp = &small, .ss_size = 1024};
    printf("too small %d", sigaltstack(&bad, 0));
    printf(" %s\n", strerror(errno));
    with_altstack((void *)(size_t)(2 * sysconf(_SC_MINSIGSTKSZ)));
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 16384);
    pthread_create(&small, &attributes, with_altstack, (void *)65536);
    pthread_join(small, 0);
}

static char *page;

static void repair(int number, siginfo_t *info, void *context) {
    (void)context;
    counts[number]++;
    mprotect((void *)((uintptr_t)info->si_addr & ~4095ul), 4096, PROT_READ | PROT_WRITE);
}

static void segv_mode(void) {
    struct sigaction action = {.sa_sigaction = repair, .sa_flags = SA_SIGINFO};
    page = mmap(0, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    sigaction(SIGSEGV, &action, 0);
    for (int i = 0; i < 1000; i++) {
        mprotect(page, 4096, PROT_NONE);
        page[0] = 1;
        if (i % 10 == 0) burn(5);
    }
    printf("repaired %d\n", (int)counts[SIGSEGV]);
}

static void tell(int number, siginfo_t *info, void *context) {
    (void)context;
    char line[64];
    int length = snprintf(line, sizeof line, "fault %d at %p\n", number, info->si_addr);
    if (write(1, line, length) != length) _exit(9);
    signal(number, SIG_DFL);
}

static void crash_mode(void) {
    struct sigaction action = {.sa_sigaction = tell, .sa_flags = SA_SIGINFO};
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    sigaction(SIGSEGV, &action, 0);
    burn(150);
    *(volatile int *)0x1234 = 1;
}

int main(int count, char **arguments) {
    if (count < 2) return 2;
    const char *mode = arguments[1];
    if (count > 2) ms_ns = atoll(arguments[2]) * 10000;
    pthread_t thread;
    setvbuf(stdout, 0, _IOLBF, 0);
    burn(100);
    if (!strcmp(mode, "mask")) {
        block(0);
        pthread_create(&thread, 0, block, 0);
        pthread_join(thread, 0);
    } else if (!strcmp(mode, "sigwait")) sigwait_mode();
    else if (!strcmp(mode, "signalfd")) signalfd_mode();
    else if (!strcmp(mode, "handlers")) handlers_mode();
    else if (!strcmp(mode, "alarm")) {
        // As alarm(2), for a second or this part of it.
        setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {ms_ns / 1000000, ms_ns % 1000000}}, 0);
        for (;;) burn(1000);
    } else if (!strcmp(mode, "errno")) errno_mode();
    else if (!strcmp(mode, "jump")) jump_mode();
    else if (!strcmp(mode, "nested")) nested_mode();
    else if (!strcmp(mode, "altstack")) altstack_mode();
    else if (!strcmp(mode, "segv")) segv_mode();
    else if (!strcmp(mode, "crash")) crash_mode();
    else return 2;
    return 0;
}
