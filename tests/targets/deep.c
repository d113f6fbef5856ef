// deep DEPTH SECONDS: recurses so deep and burns so much CPU time there.
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

static int64_t end_ns;
static volatile double sink;

static int64_t used_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

__attribute__((noipa)) static int recurse(int depth) {
    if (depth) return recurse(depth - 1) + 1;
    double x = 1;
    while (used_ns() < end_ns)
        for (int i = 0; i < 10000; i++) x = x * 1.0000001 + 0.5;
    sink = x;
    return 0;
}

int main(int count, char **arguments) {
    if (count < 3) return 2;
    end_ns = (int64_t)(atof(arguments[2]) * 1e9);
    return recurse(atoi(arguments[1])) == 0;
}
