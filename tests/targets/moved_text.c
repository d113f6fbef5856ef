// moved_text SECONDS: moves the middle of its code, 6 MiB, to anonymous memory at the same addresses, as programs do for huge pages, and burns
// SECONDS of CPU time in a function there.
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

// The parts follow one another in the file: filler, burn, filler.
__asm__(".pushsection .text.moved, \"ax\", @progbits\n"
        ".balign 4096\nmoved_start: .fill 3 << 20, 1, 0x90\n"
        ".globl burn\n.type burn, @function\nburn: .cfi_startproc\n1: dec %rdi\njnz 1b\nret\n.cfi_endproc\n.size burn, . - burn\n"
        ".fill 3 << 20, 1, 0x90\n.balign 4096\nmoved_end: .fill 8192, 1, 0x90\n.popsection");
extern char moved_start[], moved_end[];
void burn(long);

__attribute__((noipa)) void caller(long n) { burn(n); __asm__ volatile(""); }

int main(int count, char **words) {
    if (count < 2) return 2;
    size_t size = moved_end - moved_start - 4096;
    char *copy = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(copy, moved_start + 4096, size);
    char *there = mmap(moved_start + 4096, size, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (there == MAP_FAILED) return 1;
    memcpy(there, copy, size);
    mprotect(there, size, PROT_READ | PROT_EXEC);
    struct timespec now;
    do {
        for (int i = 0; i < 100; i++) caller(100000);
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    } while (now.tv_sec + now.tv_nsec / 1e9 < atof(words[1]));
    return 0;
}
