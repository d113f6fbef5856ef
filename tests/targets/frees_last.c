// frees_last exit|kill: allocates 64 MiB in small blocks and keeps as much for good, maps 32 MiB, waits until that is known, frees the
// first and all but 9 MiB of the second, and ends at once: by _exit(2) or by a signal, so that nothing runs at its end.
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { BLOCKS = 65536, SIZE = 1024 };
static void *volatile blocks[BLOCKS], *volatile kept;

__attribute__((noinline)) static void take(void) { for (int i = 0; i < BLOCKS; i++) blocks[i] = malloc(SIZE); }
__attribute__((noinline)) static void keep(void) { for (int i = 0; i < BLOCKS; i++) kept = malloc(SIZE); }

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    take(), keep();
    const size_t M = 1 << 20;
    char *maps[2];
    for (int i = 0; i < 2; i++) {
        maps[i] = mmap(NULL, 16 * M, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (maps[i] == MAP_FAILED) return 3;
    }
    nanosleep(&(struct timespec){.tv_nsec = 500000000}, NULL);
    for (int i = 0; i < BLOCKS; i++) free(blocks[i]);
    if (munmap(maps[0], 16 * M) || munmap(maps[1] + 2 * M, 3 * M) || munmap(maps[1] + 12 * M, 4 * M)) return 3;
    if (!strcmp(argv[1], "kill")) kill(getpid(), SIGKILL);
    _exit(0);
}
