// Sleeps in functions that save nothing: their return addresses are in a register, of which the kernel says nothing
// while a thread sleeps. One is called, and the other is entered by a jump from a function that is called.
struct timespec;
long doze(const void *, void *), nod(const void *, void *);
__asm__(".text\n"
        ".globl doze\n.type doze, %function\n"
        "doze:\n.cfi_startproc\nmov x8, #101\nsvc #0\nret\n.cfi_endproc\n.size doze, . - doze\n"
        ".globl nod\n.type nod, %function\n"
        "nod:\n.cfi_startproc\nmov x2, xzr\nb doze\n.cfi_endproc\n.size nod, . - nod\n");
static volatile unsigned long sink;
__attribute__((noinline)) void once(const long *time) {
    sink += doze(time, 0);
}
__attribute__((noinline)) void twice(const long *time) {
    sink += doze(time, 0);
    sink -= doze(time, 0);
}
__attribute__((noinline)) void by_jump(const long *time) {
    sink += nod(time, 0);
}
__attribute__((noinline)) void outer(const long *time) {
    once(time);
    twice(time);
    by_jump(time);
    sink++;
}
int main(void) {
    static const long time[2] = {0, 40000000};
    for (int i = 0; i < 30; i++) outer(time);
    return 0;
}
