// daemon: leaves a child behind that computes for four seconds, as a daemon does. Prints its pid.
#include <stdio.h>
#include <time.h>
#include <unistd.h>

int main(void) {
    pid_t child = fork();
    if (child > 0) {
        usleep(300000);
        printf("daemon %d\n", child);
        return 0;
    }
    setsid();
    for (int fd = 0; fd < 3; fd++) close(fd);
    for (time_t end = time(0) + 4; time(0) < end;) for (volatile int i = 0; i < 100000; i++) {}
    return 0;
}
