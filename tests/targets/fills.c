// fills MEGABYTES: uses so much memory, and then 300 ms of CPU time on it.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int main(int count, char **words) {
    size_t size = (count > 1 ? atol(words[1]) : 1) << 20;
    unsigned char *memory = malloc(size);
    if (!memory) return 2;
    memset(memory, 1, size);
    uint64_t sum = 0;
    for (struct timespec used = {0}; used.tv_sec == 0 && used.tv_nsec < 300000000; clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used))
        for (size_t at = 0; at < size; at += 4096) sum += memory[at] > 0;
    printf("filled %zu\n", size >> 20);
    return sum == 0;
}
