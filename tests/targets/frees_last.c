// frees_last exit|kill: allocates 64 MiB in small blocks and keeps as much for good, waits until that is known, frees the first, and
// ends at once: by _exit(2) or by a signal, so that nothing runs at its end.
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BLOCKS = 65536, SIZE = 1024 };
static void *volatile blocks[BLOCKS], *volatile kept;

__attribute__((noinline)) static void take(void) { for (int i = 0; i < BLOCKS; i++) blocks[i] = malloc(SIZE); }
__attribute__((noinline)) static void keep(void) { for (int i = 0; i < BLOCKS; i++) kept = malloc(SIZE); }

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    take(), keep();
    nanosleep(&(struct timespec){.tv_nsec = 500000000}, NULL);
    for (int i = 0; i < BLOCKS; i++) free(blocks[i]);
    if (!strcmp(argv[1], "kill")) kill(getpid(), SIGKILL);
    _exit(0);
}
