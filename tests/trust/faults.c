/* Faults of disk and clock for a program that is loaded with this library (LD_PRELOAD): a full disk, a slow
   one, a clock that has jumped. GRUS_TRUST_FOLDER names the folder whose disk it is (a real path, no links),
   GRUS_TRUST_FAULTS a file of the size of `struct faults`, which says at any moment which faults there are. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

struct faults { /* written by chaos_faults.py: keep both the same */
    int64_t shift;    /* seconds that the clock of the wall is ahead */
    int64_t full;     /* whether the disk is full */
    int64_t slow;     /* milliseconds that each sync takes longer */
};

static const volatile struct faults none, *faults = &none;
static char folder[PATH_MAX];
static size_t folder_length;

__attribute__((constructor)) static void begin(void) {
    const char *at = getenv("GRUS_TRUST_FOLDER"), *from = getenv("GRUS_TRUST_FAULTS");
    if (!at || !from) return;
    int file = (int)syscall(SYS_openat, AT_FDCWD, from, O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    void *mapped = mmap(NULL, sizeof *faults, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (mapped == MAP_FAILED) return;
    faults = mapped;
    snprintf(folder, sizeof folder, "%s", at);
    folder_length = strlen(folder);
}

/* ------------------------------------------------------------------------------------- whose disk it is */

static int below(const char *path) {
    return folder_length && !strncmp(path, folder, folder_length) && path[folder_length] == '/';
}

static int file_below(int fd) {
    char link[64], path[PATH_MAX];
    struct stat status;
    int saved = errno, found = 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n > 0) {
        path[n] = 0;
        found = below(path) && !fstat(fd, &status) && (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode));
    }
    errno = saved;
    return found;
}

static int name_below(int at, const char *path) {
    char full[PATH_MAX], link[64];
    if (path[0] == '/') return below(path);
    int saved = errno;
    snprintf(link, sizeof link, at == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", at);
    ssize_t n = readlink(link, full, sizeof full - 2);
    errno = saved;
    if (n < 0) return 0;
    full[n] = '/', full[n + 1] = 0;
    return below(full);
}

static int no_room(int is_below) {
    if (is_below) errno = ENOSPC;
    return is_below;
}

/* --------------------------------------------------------------------------------------- the full disk */

static int open_at(int at, const char *path, int flags, mode_t mode) {
    struct stat status;
    if (faults->full && (flags & O_CREAT) && name_below(at, path)) {
        int saved = errno, missing = fstatat(at, path, &status, 0) != 0;
        errno = saved;
        if (no_room(missing)) return -1;
    }
    return (int)syscall(SYS_openat, at, path, flags, mode);
}

#define MODE(last) \
    mode_t mode = 0; \
    if (flags & (O_CREAT | O_TMPFILE)) { \
        va_list more; \
        va_start(more, last); \
        mode = va_arg(more, mode_t); \
        va_end(more); \
    }

int open(const char *path, int flags, ...) { MODE(flags) return open_at(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(flags) return open_at(AT_FDCWD, path, flags, mode); }
int openat(int at, const char *path, int flags, ...) { MODE(flags) return open_at(at, path, flags, mode); }
int openat64(int at, const char *path, int flags, ...) { MODE(flags) return open_at(at, path, flags, mode); }

ssize_t write(int fd, const void *data, size_t length) {
    if (faults->full && no_room(file_below(fd))) return -1;
    return syscall(SYS_write, fd, data, length);
}
ssize_t pwrite64(int fd, const void *data, size_t length, off_t at) {
    if (faults->full && no_room(file_below(fd))) return -1;
    return syscall(SYS_pwrite64, fd, data, length, at);
}
ssize_t pwrite(int fd, const void *data, size_t length, off_t at) { return pwrite64(fd, data, length, at); }
ssize_t writev(int fd, const struct iovec *parts, int count) {
    if (faults->full && no_room(file_below(fd))) return -1;
    return syscall(SYS_writev, fd, parts, count);
}
int fallocate64(int fd, int mode, off_t at, off_t length) {
    if (faults->full && no_room(file_below(fd))) return -1;
    return (int)syscall(SYS_fallocate, fd, mode, at, length);
}
int fallocate(int fd, int mode, off_t at, off_t length) { return fallocate64(fd, mode, at, length); }
int posix_fallocate64(int fd, off_t at, off_t length) { return fallocate64(fd, 0, at, length) ? errno : 0; }
int posix_fallocate(int fd, off_t at, off_t length) { return posix_fallocate64(fd, at, length); }

int mkdirat(int at, const char *path, mode_t mode) {
    if (faults->full && no_room(name_below(at, path))) return -1;
    return (int)syscall(SYS_mkdirat, at, path, mode);
}
int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }
int linkat(int from_at, const char *from, int to_at, const char *to, int flags) {
    if (faults->full && no_room(name_below(to_at, to))) return -1;
    return (int)syscall(SYS_linkat, from_at, from, to_at, to, flags);
}
int link(const char *from, const char *to) { return linkat(AT_FDCWD, from, AT_FDCWD, to, 0); }
int mkfifo(const char *path, mode_t mode) {
    if (faults->full && no_room(name_below(AT_FDCWD, path))) return -1;
    return (int)syscall(SYS_mknodat, AT_FDCWD, path, mode | S_IFIFO, 0);
}

/* --------------------------------------------------------------------------------------- the slow disk */

static int synced(int fd, long number) {
    if (faults->slow && file_below(fd)) {
        struct timespec pause = {faults->slow / 1000, faults->slow % 1000 * 1000000};
        nanosleep(&pause, NULL);
    }
    if (faults->full && no_room(file_below(fd))) return -1;
    return (int)syscall(number, fd);
}
int fsync(int fd) { return synced(fd, SYS_fsync); }
int fdatasync(int fd) { return synced(fd, SYS_fdatasync); }

/* ------------------------------------------------------------------------------------------- the clock */

int clock_gettime(clockid_t clock, struct timespec *now) {
    int done = (int)syscall(SYS_clock_gettime, clock, now);
    if (!done && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += faults->shift;
    return done;
}
int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec exact;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec, now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}
time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}
