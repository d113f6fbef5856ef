// small_stacks MODE [PERCENT]: burns CPU time where there is no room for the frame of a signal, or so many per cent of that. Prints what it
// saw of its stacks, which is the same in every run.
//   thread   threads of 16 KiB that burn with 3000 bytes left, made by pthread_create and thrd_create
//   data     rsp points to data, in the first thread and in another: an array, whose contents are checked, and memory that is read-only
//   handler  handlers with SA_ONSTACK and SA_NODEFER on a stack that has 1 KiB besides their frame; they return, jump out, and nest
//   answers  what sigaltstack(2) and the contexts of handlers say in every state of two threads and a fork child
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

static int64_t used_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

// Needs no more than a few words of stack.
__attribute__((noipa)) static void burn(uint64_t rounds) {
    asm volatile("1: dec %0\n jnz 1b\n" : "+r"(rounds) : : "cc");
}

static int percent = 100;

__attribute__((noipa)) static void burn_ms(int64_t ms) {
    for (int64_t end = used_ns() + ms * 1000000; used_ns() < end;) burn(100000);
}

// Burns with the stack pointer 3000 bytes above the lowest address of the stack.
__attribute__((noipa)) static void burn_at_the_end(uint64_t low, uint64_t rounds) {
    asm volatile(
        "mov %%rsp, %%r12\n lea 3000(%0), %%rsp\n and $-16, %%rsp\n"
        "1: push %1\n pop %1\n dec %1\n jnz 1b\n mov %%r12, %%rsp\n"
        : "+r"(low), "+r"(rounds) : : "r12", "memory", "cc");
}

static void *small_thread(void *unused) {
    pthread_attr_t attributes;
    void *low;
    size_t size;
    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_getstack(&attributes, &low, &size);
    pthread_attr_destroy(&attributes);
    for (int64_t end = used_ns() + percent * 3000000L; used_ns() < end;) burn_at_the_end((uint64_t)low, 3000000);
    return unused;
}

static int standard_thread(void *argument) {
    small_thread(0);
    return *(int *)argument;
}

static void thread_mode(void) {
    pthread_attr_t small;
    pthread_t thread;
    thrd_t standard;
    void *result;
    int given = 4711, returned = 0;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 16384);
    for (int i = 0; i < 3; i++) {
        if (pthread_create(&thread, &small, small_thread, &result)) _exit(3);
        pthread_join(thread, &result);
        printf("thread returned its argument %d\n", result == (void *)&result);
    }
    if (thrd_create(&standard, standard_thread, &given)) _exit(3);
    thrd_join(standard, &returned);
    printf("thread returned %d\n", returned);
}

// Moves the words of an array one up and back by push and pop, again and again. The lowest word is not used.
__attribute__((noipa)) static void shuffle(uint64_t *words, uint64_t count, uint64_t rounds) {
    asm volatile(
        "mov %%rsp, %%r12\n"
        "1: lea 8(%0), %%rsp\n mov %1, %%rcx\n"
        "2: pop %%rax\n xor %%rcx, %%rax\n xor %%rcx, %%rax\n push %%rax\n add $8, %%rsp\n dec %%rcx\n jnz 2b\n"
        "dec %2\n jnz 1b\n mov %%r12, %%rsp\n"
        : "+r"(words), "+r"(count), "+r"(rounds) : : "rax", "rcx", "r12", "memory", "cc");
}

__attribute__((noipa)) static void burn_with_sp(uint64_t sp, uint64_t rounds) {
    asm volatile("mov %%rsp, %%r12\n mov %0, %%rsp\n1: dec %1\n jnz 1b\n mov %%r12, %%rsp\n"
                 : "+r"(sp), "+r"(rounds) : : "r12", "memory", "cc");
}

static void *with_data(void *unused) {
    enum { WORDS = 4096 };
    uint64_t *words = malloc((WORDS + 1) * sizeof *words), wrong = 0;
    char *constant = mmap(0, 16384, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int64_t end = used_ns() + percent * 3000000L; used_ns() < end;) {
        for (uint64_t i = 0; i <= WORDS; i++) words[i] = i * 0x9e3779b97f4a7c15;
        shuffle(words, WORDS, 200);
        for (uint64_t i = 0; i <= WORDS; i++) wrong += words[i] != i * 0x9e3779b97f4a7c15;
        burn_with_sp((uint64_t)constant + 8192, 3000000);
    }
    printf("wrong words %d\n", (int)wrong);
    return unused;
}

static void data_mode(void) {
    pthread_t thread;
    with_data(0);
    if (pthread_create(&thread, 0, with_data, 0)) _exit(3);
    pthread_join(thread, 0);
}

static stack_t own;
static sigjmp_buf place;
static volatile int leave, depth, deepest, strays;

static int is_within(const void *address) { return address >= own.ss_sp && address < own.ss_sp + own.ss_size; }

static void on_small_stack(int number, siginfo_t *info, void *context) {
    if (!is_within(&number) || !is_within(info) || !is_within(context)) strays++;
    if (++depth > deepest) deepest = depth;
    burn(percent * 100000);
    if (depth == 1 && number == SIGUSR2) raise(SIGUSR2);
    depth--;
    if (leave) siglongjmp(place, 1);
}

static void use_handlers(size_t room) {
    own.ss_size = sysconf(_SC_MINSIGSTKSZ) * (room > 2048 ? 2 : 1) + room;
    own.ss_sp = mmap(0, own.ss_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct sigaction action = {.sa_sigaction = on_small_stack, .sa_flags = SA_ONSTACK | SA_NODEFER | SA_SIGINFO}, back;
    if (sigaltstack(&own, 0)) _exit(3);
    int number = room > 2048 ? SIGUSR2 : SIGUSR1;
    sigaction(number, &action, 0);
    sigaction(number, 0, &back);
    printf("handler is mine %d, flags %x\n", back.sa_sigaction == on_small_stack, back.sa_flags & ~0x04000000);
    depth = deepest = strays = 0;
    volatile int jumps = 0;
    // Functions that are called for the first time need more stack.
    if (!sigsetjmp(place, 1)) siglongjmp(place, 1);
    for (volatile int i = 0; i < 60; i++) {
        leave = i % 2;
        if (sigsetjmp(place, 1)) {
            jumps++, depth = 0;
            continue;
        }
        raise(number);
    }
    printf("jumps %d, deepest %d, strays %d\n", jumps, deepest, strays);
}

static void *handlers_thread(void *unused) {
    use_handlers(1024);
    use_handlers(4096);
    return unused;
}

static void handler_mode(void) {
    pthread_t thread;
    handlers_thread(0);
    if (pthread_create(&thread, 0, handlers_thread, 0)) _exit(3);
    pthread_join(thread, 0);
}

static char *expected;

static void show(const char *when) {
    stack_t now;
    memset(&now, 0x55, sizeof now);
    int result = sigaltstack(0, &now);
    printf("%s: %d, mine %d, size %zu, flags %x\n", when, result, now.ss_sp == expected, now.ss_size, (unsigned)now.ss_flags);
}

static void show_within(int number, siginfo_t *info, void *context) {
    ucontext_t *interrupted = context;
    stack_t other = {.ss_sp = expected, .ss_size = 65536};
    show("within");
    printf("sent to %d by myself %d, on mine %d\n", number, info->si_pid == getpid(),
           (char *)&other >= expected && (char *)&other < expected + 65536);
    printf("context: mine %d, size %zu, disabled %d\n", interrupted->uc_stack.ss_sp == expected, interrupted->uc_stack.ss_size,
           !!(interrupted->uc_stack.ss_flags & SS_DISABLE));
    int result = sigaltstack(&other, 0);
    printf("set within: %d %s\n", result, result ? strerror(errno) : "");
    burn_ms(20);
}

static void *answers(void *unused) {
    expected = 0;
    show("at first");
    burn_ms(50);
    show("after a while");
    struct sigaction action = {.sa_sigaction = show_within, .sa_flags = SA_ONSTACK | SA_SIGINFO};
    sigaction(SIGUSR1, &action, 0);
    for (size_t size = 8192; size <= 65536; size *= 8) {
        expected = mmap(0, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        stack_t mine = {.ss_sp = expected, .ss_size = size}, old;
        printf("set %d", sigaltstack(&mine, &old));
        printf(", before: %p, size %zu, flags %x\n", old.ss_sp, old.ss_size, (unsigned)old.ss_flags);
        show("set");
        burn_ms(20);
        show("and after a while");
        raise(SIGUSR1);
        show("after a handler");
        mine.ss_size = 100;
        printf("too small %d", sigaltstack(&mine, 0));
        printf(" %s\n", strerror(errno));
        mine.ss_flags = 77;
        printf("wrong flags %d", sigaltstack(&mine, 0));
        printf(" %s\n", strerror(errno));
        fflush(stdout);
        pid_t child = fork();
        if (!child) {
            show("in a child");
            burn_ms(20);
            raise(SIGUSR1);
            fflush(stdout);
            _exit(0);
        }
        int status;
        waitpid(child, &status, 0);
        printf("child %d\n", status);
        mine.ss_flags = SS_DISABLE;
        printf("disabled %d", sigaltstack(&mine, &old));
        printf(", before: mine %d, size %zu\n", old.ss_sp == expected, old.ss_size);
        expected = 0;
        show("disabled");
        burn_ms(20);
    }
    struct sigaction ignored = {.sa_handler = SIG_IGN}, back;
    printf("handler by signal: mine %d\n", signal(SIGUSR1, SIG_DFL) == (void *)show_within);
    sigaction(SIGUSR1, &ignored, &back);
    printf("then default %d\n", back.sa_handler == SIG_DFL);
    return unused;
}

static void answers_mode(void) {
    pthread_t thread;
    answers(0);
    if (pthread_create(&thread, 0, answers, 0)) _exit(3);
    pthread_join(thread, 0);
}

int main(int count, char **arguments) {
    if (count < 2) return 2;
    if (count > 2) percent = atoi(arguments[2]);
    if (!strcmp(arguments[1], "thread")) thread_mode();
    else if (!strcmp(arguments[1], "data")) data_mode();
    else if (!strcmp(arguments[1], "handler")) handler_mode();
    else if (!strcmp(arguments[1], "answers")) answers_mode();
    else return 2;
    return 0;
}
