// wild: threads that go astray and burn CPU time there, with a stack for handlers of their own: base and stack pointers that lead nowhere, into
// forbidden, unmapped, cut-off and circular memory. Then 16 KiB threads that recurse to the end of their stack. Prints what was done.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 60000000 };

// Burns with these two registers; the frame pointer is not used by this function.
__attribute__((noipa)) static void astray(uint64_t bp, uint64_t sp, uint64_t rounds) {
    asm volatile(
        "push %%rbp\n push %%rbx\n mov %%rsp, %%r12\n mov %0, %%rbp\n test %1, %1\n jz 1f\n mov %1, %%rsp\n"
        "1: dec %2\n jnz 1b\n mov %%r12, %%rsp\n pop %%rbx\n pop %%rbp\n"
        : "+r"(bp), "+r"(sp), "+r"(rounds)
        :
        : "r12", "memory", "cc");
}

static uint64_t places[16];
static int count;

static void *wander(void *wild_stack) {
    stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};
    sigaltstack(&stack, 0);
    for (int i = 0; i < count; i++) {
        if (wild_stack) astray(places[i], places[i], ROUNDS / 4);
        astray(places[i], 0, ROUNDS / 4);
    }
    stack.ss_flags = SS_DISABLE;
    sigaltstack(&stack, 0);
    return 0;
}

__attribute__((noipa)) static int recurse(int depth) {
    volatile char room[200];
    room[0] = (char)depth;
    if (depth == 0)
        for (volatile long i = 0; i < ROUNDS / 2; i++) {}
    return depth ? recurse(depth - 1) + room[0] : 0;
}

static void *deep(void *unused) {
    // To within 6 KiB of the end.
    recurse(30);
    return unused;
}

int main(void) {
    pthread_t one, other;
    pthread_attr_t small;
    char *forbidden = mmap(0, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(forbidden + 4096, 4096, PROT_NONE);
    munmap(forbidden + 8192, 4096);
    static uint64_t circle[2], zeros[64];
    circle[0] = circle[1] = (uint64_t)circle;
    // A file that is cut off: reading behind its end is a bus error.
    FILE *file = tmpfile();
    char *cut = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
    uint64_t wild[] = {8, 16, -8ull, -4096ull, 0xffff800000000000ull, 0x00007fffffffeff8ull, (uint64_t)forbidden, (uint64_t)forbidden + 4088,
                       (uint64_t)forbidden + 4096, (uint64_t)forbidden + 8192, (uint64_t)circle, (uint64_t)zeros, (uint64_t)cut, (uint64_t)main + 3};
    for (unsigned i = 0; i < sizeof wild / sizeof *wild; i++) places[count++] = wild[i];
    pthread_create(&one, 0, wander, 0);
    pthread_create(&other, 0, wander, &other);
    pthread_join(one, 0);
    pthread_join(other, 0);
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 16384);
    for (int i = 0; i < 4; i++) {
        pthread_create(&one, &small, deep, 0);
        pthread_join(one, 0);
    }
    printf("wandered %d\n", count);
    return 0;
}
