// fibers ROUNDS: two threads, each with a hundred fibers of 16 KB that compute in turn. Between stacks lie pages that nobody may touch, and
// the lowest bytes of each stack hold a pattern that is looked at in the end. Prints what all sums up to.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { FIBERS = 100, STACK = 16384, PAGE = 4096, PATTERN = 512 };

struct crew {
    ucontext_t home, fibers[FIBERS];
    char *stacks[FIBERS];
    uint64_t sums[FIBERS];
    int now, rounds;
};

static __thread struct crew *crew;

__attribute__((noipa)) static uint64_t fiber_work(uint64_t x) {
    for (int i = 0; i < 20000; i++) x = x * 6364136223846793005u + 1442695040888963407u;
    return x;
}

static void run(void) {
    struct crew *mine = crew;
    for (;;) {
        mine->sums[mine->now] += fiber_work(mine->now);
        swapcontext(&mine->fibers[mine->now], &mine->home);
    }
}

static void *take_turns(void *rounds) {
    static __thread struct crew own;
    uint64_t sum = 0;
    crew = &own;
    for (int i = 0; i < FIBERS; i++) {
        own.stacks[i] = (char *)mmap(0, PAGE + STACK, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) + PAGE;
        if (mprotect(own.stacks[i], STACK, PROT_READ | PROT_WRITE)) abort();
        memset(own.stacks[i], 0x5a, PATTERN);
        getcontext(&own.fibers[i]);
        own.fibers[i].uc_stack.ss_sp = own.stacks[i];
        own.fibers[i].uc_stack.ss_size = STACK;
        makecontext(&own.fibers[i], run, 0);
    }
    for (int round = 0; round < *(int *)rounds; round++)
        for (own.now = 0; own.now < FIBERS; own.now++) swapcontext(&own.home, &own.fibers[own.now]);
    for (int i = 0; i < FIBERS; i++) {
        for (int byte = 0; byte < PATTERN; byte++)
            if (own.stacks[i][byte] != 0x5a) printf("the stack of fiber %d was full\n", i), exit(3);
        sum += own.sums[i];
    }
    return (void *)(uintptr_t)sum;
}

int main(int count, char **words) {
    int rounds = count > 1 ? atoi(words[1]) : 100;
    pthread_t threads[2];
    uintptr_t sums[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, take_turns, &rounds);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], (void **)&sums[i]);
    printf("sum %lu\n", (unsigned long)(sums[0] + sums[1]));
    return 0;
}
