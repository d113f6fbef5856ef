// single: burns 300 ms of CPU time and prints whether libc still believes that there is but one thread (`single 1`): with 0 its
// locks and reference counts become atomic, and the program slower.
#include <stdio.h>
#include <sys/single_threaded.h>
#include <time.h>

int main(void) {
    struct timespec now;
    volatile double x = 1;
    do {
        for (int i = 0; i < 10000; i++) x = x * 1.0000001 + 0.5;
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    } while (now.tv_sec == 0 && now.tv_nsec < 300000000);
    printf("single %d\n", (int)__libc_single_threaded);
    return 0;
}
