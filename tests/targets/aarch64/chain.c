// Burns CPU time in each function of a chain, before and after its call. With INDIRECT, functions are called through
// pointers.
#include <time.h>
#include <unistd.h>
static volatile unsigned long sink;
#define burn(a, n) \
    for (unsigned long i = 0; i < (n); i++) a = a * 6364136223846793005ul + i
__attribute__((noipa)) unsigned long leaf(unsigned long n) {
    unsigned long a = 1;
    burn(a, n);
    return a;
}
__attribute__((noipa)) unsigned long middle(unsigned long n);
__attribute__((noipa)) unsigned long top(unsigned long n);
#ifdef INDIRECT
static unsigned long (*volatile to_leaf)(unsigned long) = leaf;
static unsigned long (*volatile to_middle)(unsigned long) = middle;
static unsigned long (*volatile to_top)(unsigned long) = top;
#else
#define to_leaf leaf
#define to_middle middle
#define to_top top
#endif
unsigned long middle(unsigned long n) {
    unsigned long r = to_leaf(n) + to_leaf(n / 2);
    burn(r, n / 2);
    sink += r;
    return r;
}
unsigned long top(unsigned long n) {
    unsigned long r = to_middle(n);
    burn(r, n / 2);
    sink ^= r;
    return r;
}
int main(void) {
    for (clock_t end = clock() + 3 * CLOCKS_PER_SEC; clock() < end;) sink += to_top(300000);
    _exit(0);
}
