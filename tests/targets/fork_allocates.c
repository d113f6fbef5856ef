// fork_allocates CHILDREN ROUNDS: fork children that allocate 10 MiB in blocks of 1 MiB every 10 ms, ROUNDS times, and hardly use the CPU.
// Prints the bytes.
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define BLOCKS 10
#define BLOCK (1L << 20)

__attribute__((noinline)) static void allocate(void) {
    for (int i = 0; i < BLOCKS; i++) {
        char *volatile block = malloc(BLOCK);
        block[0] = 1;
        free(block);
    }
}

int main(int count, char **arguments) {
    if (count < 3) return 2;
    int children = atoi(arguments[1]), rounds = atoi(arguments[2]), status;
    for (int i = 0; i < children; i++) {
        if (fork()) continue;
        for (int round = 0; round < rounds; round++) {
            allocate();
            usleep(10000);
        }
        _exit(0);
    }
    while (wait(&status) > 0) {}
    printf("bytes %ld\n", children * rounds * BLOCKS * BLOCK);
    return 0;
}
