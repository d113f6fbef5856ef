// longsleep SECONDS [CPU MILLISECONDS]: uses so much CPU time, none by default, says that it is asleep and sleeps in nanosleep, going back to it
// for the rest when interrupted, as sleep(1) does; then prints how often it was.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int main(int count, char **arguments) {
    if (count < 2) return 2;
    double seconds = atof(arguments[1]);
    struct timespec pause = {(time_t)seconds, (long)((seconds - (time_t)seconds) * 1e9)};
    int interrupted = 0;
    clock_t cpu = count > 2 ? atoi(arguments[2]) * (CLOCKS_PER_SEC / 1000) : 0;
    while (clock() < cpu) {}
    puts("asleep");
    fflush(stdout);
    while (nanosleep(&pause, &pause) && errno == EINTR) interrupted++;
    printf("interrupted %d\n", interrupted);
    return 0;
}
