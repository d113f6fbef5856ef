// user_half MILLISECONDS: burns so much CPU time, about half of it in the kernel, and prints its user and system time, ns.
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static volatile double sink;
static char buffer[1 << 20];

static int64_t used_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

__attribute__((noipa)) static void compute(void) {
    double x = 1;
    for (int64_t end = used_ns() + 20000000; used_ns() < end;)
        for (int i = 0; i < 100000; i++) x = x * 1.0000001 + 0.5;
    sink = x;
}

__attribute__((noipa)) static void let_the_kernel_work(int zero) {
    for (int64_t end = used_ns() + 20000000; used_ns() < end;)
        if (read(zero, buffer, sizeof buffer) < 0) exit(1);
}

int main(int count, char **arguments) {
    if (count < 2) return 2;
    int zero = open("/dev/zero", O_RDONLY);
    for (int64_t end = atoll(arguments[1]) * 1000000; used_ns() < end;) {
        compute();
        let_the_kernel_work(zero);
    }
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("user %ld\n", usage.ru_utime.tv_sec * 1000000000L + usage.ru_utime.tv_usec * 1000L);
    printf("system %ld\n", usage.ru_stime.tv_sec * 1000000000L + usage.ru_stime.tv_usec * 1000L);
    return 0;
}
