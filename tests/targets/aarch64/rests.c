// Sleeps in poll(2). The system calls of musl are functions that save nothing.
#include <poll.h>
#include <time.h>
#include <unistd.h>
static volatile unsigned long sink;
__attribute__((noinline)) void rest(void) { poll(0, 0, 40); sink++; }
__attribute__((noinline)) void outer(void) { rest(); sink++; }
int main(void) { for (int i = 0; i < 60; i++) outer(); return 0; }
