// variable_frame: burns 50 ms of CPU time, then sleeps for half a second each in a function whose frame has a fixed size, and in two whose
// frames have not: these are found through a base register, rbp. The last one is called through a pointer.
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

static void sleep_for_half_a_second(void) { nanosleep(&(struct timespec){0, 500000000}, NULL); }

__attribute__((noipa)) static void fixed_frame(void) {
    volatile char room[64];
    room[0] = 1;
    sleep_for_half_a_second();
    room[1] = room[0];
}

__attribute__((noipa)) static void variable_frame(size_t size) {
    volatile char room[size];
    room[0] = 1;
    sleep_for_half_a_second();
    room[1] = room[0];
}

__attribute__((noipa)) static void pointed_frame(size_t size) {
    volatile char room[size];
    room[0] = 1;
    sleep_for_half_a_second();
    room[1] = room[0];
}

static void (*volatile pointer)(size_t) = pointed_frame;

static int64_t used_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

int main(int count, char **arguments) {
    while (used_ns() < 50000000)
        ;
    fixed_frame();
    variable_frame(count + 63);
    pointer(count + 63);
    (void)arguments;
    return 0;
}
