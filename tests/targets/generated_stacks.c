// generated_stacks WAY SECONDS: runs code that it generates, which keeps no frame pointer, for SECONDS of CPU time. It is called by near_caller,
// and that by far_caller; both have frame pointers. WAY is `leaf`, `between` (by plain_caller, which has none), `calls` (it calls burn), or
// `aside` (it runs on a stack of its own, with 0 in the base pointer).
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

typedef long (*code)(long, void *);
static volatile long sink;

static double cpu(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

__attribute__((noipa)) void burn(long n) { while (n--) sink += n; }
__attribute__((noipa, optimize("omit-frame-pointer"))) void plain_caller(code f, long n, void *p) { sink += f(n, p); }
__attribute__((noipa)) void near_caller(code f, long n, void *p, int plain) {
    if (plain) plain_caller(f, n, p);
    else sink += f(n, p);
    sink++;
}
__attribute__((noipa)) void far_caller(code f, long n, void *p, int plain) { near_caller(f, n, p, plain); sink++; }

int main(int count, char **words) {
    if (count < 3) return 2;
    // push rbx; mov rbx, rdi; xor eax, eax; 1: imul eax, eax, 7; add eax, ebx; dec rbx; jne 1b; pop rbx; ret
    static const unsigned char leaf[] = {0x53, 0x48, 0x89, 0xfb, 0x31, 0xc0, 0x6b, 0xc0, 0x07, 0x01, 0xd8, 0x48, 0xff, 0xcb, 0x75, 0xf6, 0x5b, 0xc3};
    // push rbx; call rsi; pop rbx; ret
    static const unsigned char calls[] = {0x53, 0xff, 0xd6, 0x5b, 0xc3};
    // push rbx; push rbp; mov rbx, rsp; mov rsp, rsi; xor ebp, ebp; call loop; mov rsp, rbx; pop rbp; pop rbx; ret; and loop at 0x20:
    // xor eax, eax; 1: imul eax, eax, 7; add eax, edi; dec rdi; jne 1b; ret
    static const unsigned char aside[] = {0x53, 0x55, 0x48, 0x89, 0xe3, 0x48, 0x89, 0xf4, 0x31, 0xed, 0xe8, 0x11, 0, 0, 0, 0x48, 0x89, 0xdc, 0x5d, 0x5b, 0xc3,
                                          0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90,
                                          0x31, 0xc0, 0x6b, 0xc0, 0x07, 0x01, 0xf8, 0x48, 0xff, 0xcf, 0x75, 0xf6, 0xc3};
    char *page = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *stack = mmap(0, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED || stack == MAP_FAILED) return 1;
    memcpy(page, leaf, sizeof leaf);
    memcpy(page + 64, calls, sizeof calls);
    memcpy(page + 128, aside, sizeof aside);
    int is_calls = !strcmp(words[1], "calls"), is_aside = !strcmp(words[1], "aside");
    code f = (code)(page + (is_calls ? 64 : is_aside ? 128 : 0));
    void *p = is_calls ? (void *)burn : stack + (1 << 15);
    for (double until = cpu() + atof(words[2]); cpu() < until;) far_caller(f, 200000, p, !strcmp(words[1], "between"));
    return 0;
}
