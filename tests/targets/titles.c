// A server that writes over its arguments what it does, as postgres and nginx do: it selects for a
// second and waits for a second, in turns.
#include <stdio.h>
#include <string.h>
#include <time.h>

int main(int argc, char **argv) {
    static const char *const titles[] = {"titles: SELECT", "titles: UPDATE waiting"};
    // The program's arguments, and the environment behind them.
    extern char **environ;
    char *end = argv[argc - 1] + strlen(argv[argc - 1]) + 1;
    for (char **variable = environ; *variable != NULL && *variable == end; variable++)
        end += strlen(*variable) + 1;
    for (unsigned turn = 0;; turn++) {
        memset(argv[0], 0, (size_t)(end - argv[0]));
        snprintf(argv[0], (size_t)(end - argv[0]), "%s", titles[turn % 2]);
        for (time_t second = time(NULL); time(NULL) == second;) {
        }
    }
}
