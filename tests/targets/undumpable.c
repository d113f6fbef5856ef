// undumpable MILLISECONDS: burns so much CPU time, and does not let itself be traced meanwhile.
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

int main(int count, char **arguments) {
    if (count < 2 || prctl(PR_SET_DUMPABLE, 0)) return 2;
    while (clock() < atol(arguments[1]) * (CLOCKS_PER_SEC / 1000)) {}
    return 0;
}
