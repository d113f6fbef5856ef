// fuse_calls COUNT: calls openat, getdents64 and read on a file system in user space whose daemon answers after half a millisecond, or
// with EINTR as soon as the kernel says that a signal has come. Computes before each call, checks its result, and prints a line for each:
// how often it was made, how often it did less than it should, how often it reported EINTR, and how often its result was wrong. Ends with
// status 77 where such a file system may not be mounted.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIZE = 5, NOT_ALLOWED = 77 };
static const char TEXT[SIZE + 1] = "bytes";
static volatile unsigned long sink;

static void answer(int device, unsigned long unique, int error, const void *data, size_t length) {
    char bytes[8192];
    struct fuse_out_header header = {sizeof header + (error ? 0 : length), -error, unique};
    memcpy(bytes, &header, sizeof header);
    if (!error) memcpy(bytes + sizeof header, data, length);
    if (write(device, bytes, header.len) < 0 && errno != ENOENT) exit(5);
}

static struct fuse_attr attributes(unsigned long node) {
    struct fuse_attr attributes = {.ino = node, .mode = node == 1 ? S_IFDIR | 0755 : S_IFREG | 0644, .nlink = 1, .size = SIZE, .blksize = 4096};
    return attributes;
}

// The directory: two entries, as the kernel wants them.
static size_t list(char *bytes, unsigned long offset) {
    static const char *const NAMES[] = {"a", "b"};
    size_t length = 0;
    for (unsigned long i = offset; i < 2; i++) {
        struct fuse_dirent entry = {.ino = 2, .off = i + 1, .namelen = 1, .type = DT_REG};
        memcpy(bytes + length, &entry, sizeof entry);
        bytes[length + FUSE_NAME_OFFSET] = NAMES[i][0];
        length += FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET + 1);
    }
    return length;
}

static void serve(int device) {
    static char request[1 << 17], late[4096];
    unsigned long waiting = 0;
    size_t late_length = 0;
    for (;;) {
        struct pollfd polled = {device, POLLIN, 0};
        struct timespec pause = {0, 500000};
        if (ppoll(&polled, 1, waiting ? &pause : 0, 0) == 0) {
            answer(device, waiting, 0, late, late_length);
            waiting = 0;
            continue;
        }
        ssize_t length = read(device, request, sizeof request);
        if (length < 0 && (errno == EINTR || errno == EAGAIN || errno == ENOENT)) continue;
        if (length < (ssize_t)sizeof(struct fuse_in_header)) exit(0);
        const struct fuse_in_header *in = (const void *)request;
        const void *argument = request + sizeof *in;
        struct fuse_entry_out entry = {.nodeid = 2, .attr_valid = 3600, .entry_valid = 3600, .attr = attributes(2)};
        struct fuse_attr_out attr = {.attr_valid = 3600, .attr = attributes(in->nodeid)};
        struct fuse_open_out open = {.open_flags = FOPEN_DIRECT_IO};
        const struct fuse_read_in *from = argument;
        const struct fuse_interrupt_in *interrupt = argument;
        const struct fuse_init_in *init = argument;
        struct fuse_init_out greeting = {.major = FUSE_KERNEL_VERSION, .max_write = 4096};
        switch (in->opcode) {
        case FUSE_INIT:
            greeting.minor = init->minor < FUSE_KERNEL_MINOR_VERSION ? init->minor : FUSE_KERNEL_MINOR_VERSION;
            answer(device, in->unique, 0, &greeting, sizeof greeting);
            break;
        case FUSE_LOOKUP: answer(device, in->unique, 0, &entry, sizeof entry); break;
        case FUSE_GETATTR: answer(device, in->unique, 0, &attr, sizeof attr); break;
        case FUSE_OPEN:
        case FUSE_OPENDIR: memcpy(late, &open, late_length = sizeof open), waiting = in->unique; break;
        case FUSE_READDIR: late_length = list(late, from->offset), waiting = in->unique; break;
        case FUSE_READ: memcpy(late, TEXT, late_length = from->offset ? 0 : SIZE), waiting = in->unique; break;
        case FUSE_INTERRUPT:
            if (interrupt->unique == waiting) answer(device, waiting, EINTR, 0, 0), waiting = 0;
            break;
        case FUSE_FORGET:
        case FUSE_BATCH_FORGET: break;
        case FUSE_RELEASE:
        case FUSE_RELEASEDIR:
        case FUSE_FLUSH:
        case FUSE_ACCESS: answer(device, in->unique, 0, 0, 0); break;
        default: answer(device, in->unique, ENOSYS, 0, 0);
        }
    }
}

static int writes(const char *path, const char *text) {
    int file = open(path, O_WRONLY), is_written = write(file, text, strlen(text)) == (ssize_t)strlen(text);
    close(file);
    return is_written;
}

static void count(long results[4], long result, long wanted) {
    results[result == wanted ? 0 : result >= 0 ? 1 : errno == EINTR ? 2 : 3]++;
}

int main(int argument_count, char **arguments) {
    if (argument_count < 2) return 2;
    char map[64], options[64], bytes[4096], directory[] = "/tmp/fuse_calls-XXXXXX";
    snprintf(map, sizeof map, "0 %d 1", getuid());
    int device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    if (device < 0 || (getuid() ? unshare(CLONE_NEWUSER | CLONE_NEWNS) || !writes("/proc/self/uid_map", map) : unshare(CLONE_NEWNS)))
        return NOT_ALLOWED;
    if (!mkdtemp(directory) || mount("none", "/", 0, MS_REC | MS_PRIVATE, 0)) return NOT_ALLOWED;
    snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0", device);
    if (mount("test", directory, "fuse", 0, options)) return rmdir(directory), NOT_ALLOWED;
    pid_t daemon = fork();
    if (!daemon) serve(device);
    close(device);
    long results[3][4] = {{0}}, made = atol(arguments[1]);
    int root;
    while ((root = open(directory, O_RDONLY | O_DIRECTORY)) < 0 && errno == EINTR) count(results[0], -1, 0);
    for (long i = 0; i < made; i++) {
        for (int k = 0; k < 200000 + (i * 3701) % 300000; k++) sink += k;
        int file = openat(root, "a", O_RDONLY);
        count(results[0], file < 0 ? -1 : 0, 0);
        if (file < 0) continue;
        count(results[2], read(file, bytes, sizeof bytes), SIZE);
        close(file);
        lseek(root, 0, SEEK_SET);
        count(results[1], syscall(SYS_getdents64, root, bytes, sizeof bytes), 48);
    }
    static const char *const NAMES[] = {"openat", "getdents64", "read"};
    for (int i = 0; i < 3; i++) {
        long all = results[i][0] + results[i][1] + results[i][2] + results[i][3];
        printf("%s made %ld short %ld eintr %ld wrong %ld\n", NAMES[i], all, results[i][1], results[i][2], results[i][3]);
    }
    kill(daemon, SIGKILL), waitpid(daemon, 0, 0);
    umount2(directory, MNT_DETACH), rmdir(directory);
    return 0;
}
