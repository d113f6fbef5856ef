// Allocates at three sites, by each function of the allocator, on two threads: `allocates MEGABYTES A B C` allocates A, B and C parts
// of the bytes at the three, keeps every 16th allocation of the third, maps memory, and prints what it has counted itself.
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { BURST = 16 << 20 };

static uint64_t wanted, parts[3];
static uint64_t bytes[3], objects[3], leaked, leaked_objects, mapped, unmapped, grown, ungrown;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((noinline)) static void *use(void *memory) {
    if (!memory) abort();
    *(volatile char *)memory = 1;
    return memory;
}

// The operators of C++, of an allocator that defines them.
__attribute__((weak)) void *_Znwm(size_t size);
__attribute__((weak)) void _ZdlPv(void *memory);
__attribute__((weak)) void _ZdlPvm(void *memory, size_t size);

static void put(void *memory, unsigned way, size_t size) {
    if (way % 8 != 7 || !_Znwm) free(memory);
    else if (way % 16 == 7 || !_ZdlPvm) _ZdlPv(memory);
    else _ZdlPvm(memory, size);
}

__attribute__((noinline)) static void *get(unsigned way, size_t size) {
    void *memory = NULL;
    switch (way % 8) {
    case 7:
        if (_Znwm) return _Znwm(size);
        // Fall through.
    case 0: return malloc(size);
    case 1: return calloc(size / 8, 8);
    case 2: return realloc(NULL, size);
    case 3: return posix_memalign(&memory, 64, size) ? NULL : memory;
    case 4: return aligned_alloc(64, size);
    case 5: return memalign(64, size);
    default: return reallocarray(NULL, size / 8, 8);
    }
}

__attribute__((noinline)) void *site_a(unsigned way, size_t size) { void *memory = get(way, size); return use(memory); }
__attribute__((noinline)) void *site_b(unsigned way, size_t size) { void *memory = get(way, size); return use(memory); }
__attribute__((noinline)) void *site_c(unsigned way, size_t size) { void *memory = get(way, size); return use(memory); }

static void *work(void *seed) {
    uint64_t random = (uintptr_t)seed * 0x9e3779b97f4a7c15u, own[3] = {0}, count[3] = {0}, lost = 0, lost_objects = 0, all = 0;
    uint64_t rest_at = BURST;
    for (unsigned way = 0; all < wanted; way++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        size_t size = 64 + (random >> 20) % 4096 / 64 * 64;
        if (random >> 58 == 0) size *= 128;
        // The sites take turns by what they have had.
        int site = own[0] * parts[1] <= own[1] * parts[0] && own[0] * parts[2] <= own[2] * parts[0] ? 0
                 : own[1] * parts[2] <= own[2] * parts[1] ? 1 : 2;
        void *memory = (site == 0 ? site_a : site == 1 ? site_b : site_c)(way, size);
        if (all >= rest_at) {
            // A program that does nothing else could allocate faster than samples are taken away.
            nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
            rest_at = all + BURST;
        }
        own[site] += size, count[site]++, all += size;
        if (site == 2 && count[2] % 16 == 0) lost += size, lost_objects++;
        else put(memory, way, size);
    }
    pthread_mutex_lock(&lock);
    for (int i = 0; i < 3; i++) bytes[i] += own[i], objects[i] += count[i];
    leaked += lost, leaked_objects += lost_objects;
    pthread_mutex_unlock(&lock);
    return NULL;
}

// What libc's allocator itself counts: its chunks and the memory that it has mapped for large ones.
#ifdef __GLIBC__
#define HAS_MALLINFO2 __GLIBC_PREREQ(2, 33)
#else
#define HAS_MALLINFO2 0
#endif
static uint64_t in_use(void) {
#if HAS_MALLINFO2
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
#else
    return 0;
#endif
}

static void unmap(void *memory, size_t size) {
    if (munmap(memory, size)) abort();
    unmapped += size;
}

static char *map(size_t size, int protection, int flags, int file) {
    char *memory = mmap(NULL, size, protection, flags, file, 0);
    if (memory == MAP_FAILED) abort();
    return memory;
}

static char *remap(char *memory, size_t size, size_t next, int flags, void *place) {
    memory = mremap(memory, size, next, flags, place);
    if (memory == MAP_FAILED) abort();
    return memory;
}

// Mappings that grow, shrink and move. 1 MiB is `M`.
static void move_mappings(void) {
    const size_t M = 1 << 20;
    const int both = PROT_READ | PROT_WRITE, private = MAP_PRIVATE | MAP_ANONYMOUS;
    char *first = map(4 * M, both, private, -1), *second = map(4 * M, both, private, -1);
    mapped += 8 * M;
    // It grows where it is or elsewhere, and then at a given place.
    first = remap(first, 4 * M, 12 * M, MREMAP_MAYMOVE, NULL), grown += 8 * M;
    first = remap(first, 12 * M, 16 * M, MREMAP_MAYMOVE | MREMAP_FIXED, map(16 * M, PROT_NONE, private, -1)), grown += 4 * M;
    // What is shorter than a page stays.
    first = remap(first, 16 * M, 2 * M + 1, 0, NULL), ungrown += 12 * M, unmapped += 2 * M - 4096;
    second = remap(second, 4 * M, 12 * M, MREMAP_MAYMOVE, NULL), grown += 8 * M;
    // One in the place of the other, of which nothing remains.
    second = remap(second, 12 * M, 12 * M, MREMAP_MAYMOVE | MREMAP_FIXED, map(12 * M, PROT_NONE, private, -1));
    first = remap(first, 2 * M + 1, 1 * M, MREMAP_MAYMOVE | MREMAP_FIXED, second), unmapped += M + 4096;
    unmapped += M;
    // A part of the old pages and of the new ones.
    unmap(second + 2 * M, 2 * M);
    if (munmap(second + 4 * M, 3 * M)) abort();
    ungrown += 3 * M;
    // One that fails changes nothing.
    if (mremap(second, M, 1ul << 46, 0) != MAP_FAILED) abort();
    // Memory that was only reserved, and a file's, which is none.
    char *third = map(M, PROT_NONE, private, -1);
    if (mprotect(third, M, both)) abort();
    remap(third, M, 5 * M, MREMAP_MAYMOVE, NULL), grown += 4 * M;
    FILE *file = tmpfile();
    if (!file || ftruncate(fileno(file), 16 * M)) abort();
    remap(map(M, both, MAP_SHARED, fileno(file)), M, 16 * M, MREMAP_MAYMOVE, NULL);
    remap(map(M, both, MAP_PRIVATE, fileno(file)), M, 16 * M, MREMAP_MAYMOVE, NULL);
}

int main(int argc, char **argv) {
    if (argc < 5) return 2;
    uint64_t before = in_use();
    wanted = strtoull(argv[1], NULL, 10) << 19;
    for (int i = 0; i < 3; i++) parts[i] = strtoull(argv[2 + i], NULL, 10);
    pthread_t threads[2];
    for (uintptr_t i = 0; i < 2; i++) pthread_create(&threads[i], NULL, work, (void *)(i + 1));
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    uint64_t after = in_use();
    // Address space that is only reserved is no memory.
    if (mmap(NULL, 1ull << 32, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) == MAP_FAILED) return 3;
    for (int i = 0; i < 16; i++) {
        char *memory = mmap(NULL, 4 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) return 3;
        mapped += 4 << 20;
        // All of it, nothing, or a part: at its start and end as for an aligned block, in its
        // middle, or by another mapping.
        switch (i % 4) {
        case 0: unmap(memory, 4 << 20); break;
        case 1: unmap(memory, 1 << 20), unmap(memory + (3 << 20), 1 << 20); break;
        case 2: unmap(memory + (1 << 20), 1 << 20); break;
        default:
            if (i < 8) break;
            if (mmap(memory, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != memory) return 3;
            unmapped += 1 << 20;
        }
    }
    move_mappings();
    printf("a %llu\nb %llu\nc %llu\n", (unsigned long long)bytes[0], (unsigned long long)bytes[1], (unsigned long long)bytes[2]);
    printf("objects %llu\n", (unsigned long long)(objects[0] + objects[1] + objects[2]));
    printf("in_use %lld\n", (long long)(after - before));
    printf("leaked %llu\nleaked_objects %llu\n", (unsigned long long)leaked, (unsigned long long)leaked_objects);
    printf("mapped %llu\nunmapped %llu\n", (unsigned long long)mapped, (unsigned long long)unmapped);
    printf("grown %llu\nungrown %llu\n", (unsigned long long)grown, (unsigned long long)ungrown);
    return 0;
}
