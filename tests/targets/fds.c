// fds DIRECTORY SECONDS: closes every descriptor from 3 on, opens eight files there and fills them with known bytes while it burns
// CPU time. Prints the numbers that the files got.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int main(int count, char **arguments) {
    if (count < 3) return 2;
    struct timespec now;
    int files[8];
    // A while of ordinary life first: a profiler is up when its descriptors go.
    double x = 1;
    do {
        for (int i = 0; i < 10000; i++) x = x * 1.0000001 + 0.5;
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    } while (now.tv_sec == 0 && now.tv_nsec < 200000000);
    syscall(SYS_close_range, 3, ~0U, 0);
    for (int i = 0; i < 8; i++) {
        char path[4200];
        snprintf(path, sizeof path, "%s/file%d", arguments[1], i);
        files[i] = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
        printf("%d\n", files[i]);
    }
    double seconds = atof(arguments[2]);
    for (int line = 0;; line++) {
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
        int late = now.tv_sec + now.tv_nsec / 1e9 > 0.2 + seconds;
        // Always the same bytes, however fast the machine is: what is late is written without burning.
        if (line == 2000) break;
        for (int i = 0; !late && i < 400000 * seconds; i++) x = x * 1.0000001 + 0.5;
        char text[64];
        int length = snprintf(text, sizeof text, "line %d of file %d\n", line, line % 8);
        if (write(files[line % 8], text, length) != length) return 4;
    }
    return x == 0;
}
