// A timer's handler runs on an alternate stack and burns CPU time, while the code that it interrupts keeps values in
// all registers of SVE, whose signal frames are large. Status 1: a register was lost, or the handler ran elsewhere.
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { SVE = 1 << 22, STACK = 128 * 1024 };
static char stack[STACK];
static volatile unsigned long sink, handled, elsewhere;

__attribute__((noinline)) void inside(unsigned long n) {
    for (unsigned long i = 0; i < n; i++) sink += i;
}
__attribute__((noinline)) void on_tick(int signal) {
    char here;
    elsewhere += &here < stack || &here >= stack + STACK;
    handled++;
    inside(300000);
    sink += signal;
}
#define EACH(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9) DO(10) DO(11) DO(12) DO(13) DO(14) DO(15) DO(16) DO(17) \
    DO(18) DO(19) DO(20) DO(21) DO(22) DO(23) DO(24) DO(25) DO(26) DO(27) DO(28) DO(29) DO(30) DO(31)
#define FILL(n) "index z" #n ".b, %w[seed], #" #n " - 16 + (" #n " >= 16)\n"
#define STORE(n) "str z" #n ", [%[to], #" #n ", mul vl]\n"
#define ALL(n) , "z" #n

// Fills the registers, counts for a while without a call, and returns whether all of them are as they were.
__attribute__((noinline)) int keep(unsigned seed) {
    static uint8_t before[32 * 256], after[32 * 256];
    unsigned long rounds = 3000000;
    __asm__ volatile(".arch_extension sve\n" EACH(FILL) : : [seed] "r"(seed) : "memory");
    __asm__ volatile(".arch_extension sve\n" EACH(STORE) : : [to] "r"(before) : "memory");
    __asm__ volatile("1: subs %0, %0, #1\nb.ne 1b" : "+r"(rounds) : : "cc");
    __asm__ volatile(".arch_extension sve\n" EACH(STORE) : : [to] "r"(after) : "memory");
    return memcmp(before, after, sizeof before) == 0;
}
__attribute__((noinline)) int work(unsigned seed) {
    int kept = keep(seed);
    sink++;
    return kept;
}
int main(void) {
    stack_t own = {.ss_sp = stack, .ss_size = STACK};
    struct sigaction action = {.sa_handler = on_tick, .sa_flags = SA_ONSTACK | SA_RESTART};
    struct itimerval often = {{0, 20000}, {0, 20000}};
    sigaltstack(&own, 0);
    sigaction(SIGALRM, &action, 0);
    setitimer(ITIMER_REAL, &often, 0);
    int kept = 1;
    for (clock_t end = clock() + 4 * CLOCKS_PER_SEC; clock() < end;)
        kept &= getauxval(AT_HWCAP) & SVE ? work(++handled) : (inside(300000), 1);
    _exit(kept && handled > 20 && !elsewhere ? 0 : 1);
}
