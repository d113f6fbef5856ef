// late_start: waits 700 ms in first_wait, computes for 300 ms of CPU time in work, and waits 300 ms in second_wait. Prints how often a wait ended
// early.
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <time.h>

static int interrupted;

static double cpu_ms(void) {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return time.tv_sec * 1e3 + time.tv_nsec / 1e6;
}

__attribute__((noipa)) static void first_wait(void) {
    if (poll(0, 0, 700) < 0 && errno == EINTR) interrupted++;
}

__attribute__((noipa)) static void work(void) {
    while (cpu_ms() < 300) {}
}

__attribute__((noipa)) static void second_wait(void) {
    if (poll(0, 0, 300) < 0 && errno == EINTR) interrupted++;
}

int main(void) {
    first_wait();
    work();
    second_wait();
    printf("interrupted %d\n", interrupted);
    return 0;
}
