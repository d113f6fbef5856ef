// setuid COUNT HELPER: makes COUNT children like a shell's: each computes for about a millisecond and executes HELPER, which is a copy of
// this program with the right of another user. Prints how many were made, and how many did not get that right.
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile unsigned long sink;

int main(int count, char **arguments) {
    if (count < 3) return geteuid() == getuid();
    long children = atol(arguments[1]), lost = 0;
    for (long made = 0; made < children; made++) {
        pid_t child = fork();
        if (child == 0) {
            for (long i = 0; i < 400000; i++) sink += (unsigned long)i;
            execl(arguments[2], arguments[2], (char *)0);
            _exit(2);
        }
        int status = 0;
        if (child < 0 || waitpid(child, &status, 0) != child || WEXITSTATUS(status) == 2) return 3;
        lost += WEXITSTATUS(status) != 0;
    }
    printf("made %ld\nlost %ld\n", children, lost);
    return 0;
}
