// Burns CPU time in two threads. The names of the process and of the threads control a terminal and
// reverse the direction of text.
#include <pthread.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

__attribute__((noinline)) void burn(double seconds) {
    struct timespec now;
    do {
        for (volatile int i = 0; i < 100000; i++) {}
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    } while (now.tv_sec + now.tv_nsec / 1e9 < seconds);
}

static void *thread(void *seconds) {
    prctl(PR_SET_NAME, "\xe2\x80\xae\x1b]52;c;QQ\x07\r\n");
    burn(*(double *)seconds);
    return 0;
}

int main(int argc, char **argv) {
    double seconds = argc > 1 ? atof(argv[1]) : 0.3;
    prctl(PR_SET_NAME, "\x1b[31mZ\xc2\x9b" "2J");
    pthread_t other;
    pthread_create(&other, 0, thread, &seconds);
    burn(seconds);
    pthread_join(other, 0);
    return 0;
}
