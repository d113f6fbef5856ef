// aliased MILLISECONDS: gives sigaction(2) and sigaltstack(2) one object for the new and the old state, prints what they return, and
// computes in the handler for MILLISECONDS of CPU time.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double wanted_ms;

static double used_ms(void) {
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return used.tv_sec * 1e3 + used.tv_nsec / 1e6;
}

__attribute__((noipa)) static void handle(int signal) {
    for (double end = used_ms() + wanted_ms; used_ms() < end;) asm volatile("" : : "r"(signal));
}

int main(int count, char **arguments) {
    static char stack[64 << 10];
    if (count < 2) return 2;
    wanted_ms = atof(arguments[1]);
    stack_t place = {.ss_sp = stack, .ss_size = sizeof stack};
    int is_set = sigaltstack(&place, &place) == 0;
    printf("stack %d %d\n", is_set, place.ss_flags == SS_DISABLE);
    for (int signal = SIGUSR1; signal <= SIGUSR2; signal += SIGUSR2 - SIGUSR1) {
        struct sigaction action = {.sa_handler = handle, .sa_flags = SA_ONSTACK};
        is_set = sigaction(signal, &action, &action) == 0;
        printf("action %d %d\n", is_set, action.sa_handler == SIG_DFL);
        raise(signal);
    }
    return 0;
}
