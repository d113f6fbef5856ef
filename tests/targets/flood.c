/* Writes a stream of so many bytes to its stdout as fast as it goes, then the time that took, in ns, into a file.
   usage: flood KIND BYTES FILE
   KIND: yes (lines of one letter), log (numbered lines of 100 bytes), color (likewise, with colours), screen (full screens) */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static char buffer[65536 + 4096];

static long long now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static int piece(const char *kind, char *at, unsigned long line) {
    static const char fill[] = "the quick brown fox jumps over the lazy dog and runs away through the wide and green fields";
    if (!strcmp(kind, "yes"))
        return sprintf(at, "y\n");
    if (!strcmp(kind, "color"))
        return sprintf(at, "\033[3%lum%08lu\033[0m \033[1m%.74s\033[m\n", 1 + line % 6, line, fill);
    if (!strcmp(kind, "screen"))
        return sprintf(at, "\033[%lu;1H%08lu %.80s", 1 + line % 20, line, fill);
    return sprintf(at, "%08lu %.90s\n", line, fill);
}

int main(int count, char **words) {
    if (count != 4)
        return 2;
    unsigned long long left = strtoull(words[2], NULL, 10);
    unsigned long line = 0;
    long long start = now_ns();
    while (left > 0) {
        size_t filled = 0, sent = 0;
        while (filled < 65536)
            filled += piece(words[1], buffer + filled, line++);
        if (filled > left)
            filled = left;
        while (sent < filled) {
            ssize_t written = write(1, buffer + sent, filled - sent);
            if (written < 0)
                return 1;
            sent += written;
        }
        left -= filled;
    }
    long long took = now_ns() - start;
    FILE *file = fopen(words[3], "w");
    if (!file || fprintf(file, "%lld\n", took) < 0 || fclose(file))
        return 1;
    return 0;
}
