// offset_table FILE: computes for ever, and appends a line to the file whenever the word of its offset table for malloc(3) has changed:
// `real` if it leads to the allocator, else `replaced`.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static void *volatile block;

// The compiler takes the address of a function for a constant, and a call for one that returns it.
__attribute__((noinline)) static void *word(void) {
    void *address = (void *)malloc;
    __asm__ volatile("" : "+r"(address) : : "memory");
    return address;
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    int file = open(argv[1], O_CREAT | O_TRUNC | O_WRONLY, 0600);
    void *real = dlsym(RTLD_DEFAULT, "malloc");
    for (int was_real = 0, was_replaced = 0;;) {
        int is_real = word() == real;
        if (is_real && !was_real && write(file, "real\n", 5) != 5) return 3;
        if (!is_real && !was_replaced && write(file, "replaced\n", 9) != 9) return 3;
        was_real = is_real, was_replaced = !is_real;
        for (volatile int i = 0; i < 100000; i++) {}
        block = malloc(100);
        free(block);
    }
}
