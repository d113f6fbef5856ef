// A bad preload: it uses 12 MB of the target's memory.
#include <stdlib.h>
#include <string.h>

__attribute__((constructor)) static void start(void) {
    static void *volatile kept;
    kept = malloc(12 << 20);
    if (kept) memset((void *)kept, 1, 12 << 20);
}
