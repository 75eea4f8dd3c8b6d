/* Writes down, in order and with their data, all operations that reach the files below one folder.

   Loaded with LD_PRELOAD. GRUS_TRUST_FOLDER names the folder (a real path, no links), GRUS_TRUST_JOURNAL the
   journal, which lies elsewhere. Every process and thread with these variables appends to the same journal; a
   lock is held from before an operation until it is written down, so the journal's order is what happened.
   fsync and fdatasync of what is watched are written down and not done: the disk is a model that is made from
   the journal (disk.py), and the real one need not be waited for. Memory maps are not seen: see there. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/falloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { COPIED = 1 << 20 }; /* bytes at a time */
enum { CREATE = 1, MKDIR, WRITE, SIZE, SYNC, RENAME, LINK, REMOVE, GROW };

struct entry { /* read by disk.py: keep both the same */
    uint32_t kind;
    uint32_t path_bytes;
    uint64_t inode;
    uint64_t offset;
    uint64_t data_bytes;
};

static char folder[PATH_MAX], journal[PATH_MAX];
static size_t folder_length;
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static int opened = -1; /* the journal, while its lock is held */

__attribute__((constructor)) static void begin(void) {
    const char *at = getenv("GRUS_TRUST_FOLDER"), *to = getenv("GRUS_TRUST_JOURNAL");
    if (at && to) {
        snprintf(folder, sizeof folder, "%s", at);
        snprintf(journal, sizeof journal, "%s", to);
        folder_length = strlen(folder);
    }
}

/* ------------------------------------------------------------------------------------- what is watched */

static int below(const char *path) {
    return folder_length && !strncmp(path, folder, folder_length) &&
           (path[folder_length] == '/' || path[folder_length] == 0);
}

static int watched_path(int at, const char *path, char *full) {
    int saved = errno, length = 0;
    full[0] = 0;
    if (!folder_length || !path) return 0;
    if (path[0] != '/') {
        if (at == AT_FDCWD) {
            if (!getcwd(full, PATH_MAX)) full[0] = 0;
        } else {
            char link[64];
            snprintf(link, sizeof link, "/proc/self/fd/%d", at);
            ssize_t n = readlink(link, full, PATH_MAX - 1);
            full[n > 0 ? n : 0] = 0;
        }
        length = (int)strlen(full);
        full[length++] = '/';
    }
    snprintf(full + length, PATH_MAX - length, "%s", path);
    errno = saved;
    return below(full);
}

static int watched(int fd, struct stat *status) {
    char link[64], path[PATH_MAX];
    int saved = errno, found = 0;
    if (!folder_length) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n > 0) {
        path[n] = 0;
        found = below(path) && !fstat(fd, status) && (S_ISREG(status->st_mode) || S_ISDIR(status->st_mode));
    }
    errno = saved;
    return found;
}

/* ---------------------------------------------------------------------------------------- the journal */

/* Opened each time: no descriptor of ours stays for a program to close, and closing lets go of the lock, which
   belongs to the process and so keeps forked ones apart. */
static void lock(void) {
    int saved = errno;
    struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    pthread_mutex_lock(&turn);
    opened = (int)syscall(SYS_openat, AT_FDCWD, journal, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (opened < 0 || fcntl(opened, F_SETLKW, &all)) abort();
    errno = saved;
}

static void unlock(void) {
    int saved = errno;
    close(opened);
    pthread_mutex_unlock(&turn);
    errno = saved;
}

static void put(const void *bytes, size_t length) {
    const char *at = bytes;
    while (length) {
        ssize_t n = syscall(SYS_write, opened, at, length);
        if (n < 0 && errno != EINTR) abort();
        if (n > 0) at += n, length -= (size_t)n;
    }
}

static void tell(int kind, uint64_t inode, const char *path, size_t path_bytes, uint64_t offset,
                 uint64_t data_bytes, const void *data) {
    int saved = errno;
    struct entry entry = {kind, (uint32_t)path_bytes, inode, offset, data_bytes};
    put(&entry, sizeof entry);
    put(path, path_bytes);
    if (data) put(data, data_bytes);
    errno = saved;
}

static void tell_path(int kind, uint64_t inode, const char *path) {
    tell(kind, inode, path, strlen(path), 0, 0, NULL);
}

/* ------------------------------------------------------------------------------------------- opening */

static int open_at(int at, const char *path, int flags, mode_t mode) {
    char full[PATH_MAX];
    struct stat before, after;
    if (!(flags & (O_CREAT | O_TRUNC)) || !watched_path(at, path, full))
        return (int)syscall(SYS_openat, at, path, flags, mode);
    lock();
    int saved = errno, existed = !stat(full, &before);
    errno = saved;
    int fd = (int)syscall(SYS_openat, at, path, flags, mode);
    if (fd >= 0 && !fstat(fd, &after) && S_ISREG(after.st_mode)) {
        if (!existed) tell_path(CREATE, after.st_ino, full);
        else if ((flags & O_TRUNC) && before.st_size) tell(SIZE, after.st_ino, "", 0, 0, 0, NULL);
    }
    unlock();
    return fd;
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

/* ------------------------------------------------------------------------------------------- writing */

static void tell_written(int fd, struct stat *status, off_t offset, const struct iovec *parts, ssize_t left) {
    if (fcntl(fd, F_GETFL) & O_APPEND) offset = status->st_size;
    for (; left > 0; parts++) {
        ssize_t n = (ssize_t)parts->iov_len < left ? (ssize_t)parts->iov_len : left;
        if (n) tell(WRITE, status->st_ino, "", 0, (uint64_t)offset, (uint64_t)n, parts->iov_base);
        offset += n, left -= n;
    }
}

static ssize_t write_parts(int fd, const struct iovec *parts, int count, off_t at) {
    struct stat status;
    int here = at < 0, seen = watched(fd, &status) && S_ISREG(status.st_mode);
    if (seen) {
        lock();
        fstat(fd, &status);
        if (here) at = lseek(fd, 0, SEEK_CUR);
    }
    ssize_t n = here ? syscall(SYS_writev, fd, parts, count)
                     : syscall(SYS_pwritev, fd, parts, count, (long)at, 0L);
    if (seen) {
        if (n > 0) tell_written(fd, &status, at, parts, n);
        unlock();
    }
    return n;
}

ssize_t write(int fd, const void *data, size_t length) {
    struct iovec one = {(void *)data, length};
    return write_parts(fd, &one, 1, -1);
}
ssize_t pwrite64(int fd, const void *data, size_t length, off_t at) {
    struct iovec one = {(void *)data, length};
    return write_parts(fd, &one, 1, at);
}
ssize_t pwrite(int fd, const void *data, size_t length, off_t at) { return pwrite64(fd, data, length, at); }
ssize_t writev(int fd, const struct iovec *parts, int count) { return write_parts(fd, parts, count, -1); }
ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at) { return write_parts(fd, parts, count, at); }
ssize_t pwritev64(int fd, const struct iovec *parts, int count, off_t at) { return write_parts(fd, parts, count, at); }

/* Python copies files with it. */
ssize_t sendfile64(int to, int from, off_t *at, size_t count) {
    struct stat status;
    if (!watched(to, &status) || !S_ISREG(status.st_mode)) return syscall(SYS_sendfile, to, from, at, count);
    lock();
    fstat(to, &status);
    off_t source = at ? *at : lseek(from, 0, SEEK_CUR), target = lseek(to, 0, SEEK_CUR);
    ssize_t n = syscall(SYS_sendfile, to, from, at, count < COPIED ? count : COPIED);
    if (n > 0) {
        struct iovec part = {malloc(COPIED), (size_t)n};
        if (pread(from, part.iov_base, (size_t)n, source) != n) abort();
        tell_written(to, &status, target, &part, n);
        free(part.iov_base);
    }
    unlock();
    return n;
}
ssize_t sendfile(int to, int from, off_t *at, size_t count) { return sendfile64(to, from, at, count); }

int ftruncate64(int fd, off_t size) {
    struct stat status;
    int seen = watched(fd, &status);
    if (seen) lock();
    int done = (int)syscall(SYS_ftruncate, fd, size);
    if (seen) {
        if (!done) tell(SIZE, status.st_ino, "", 0, (uint64_t)size, 0, NULL);
        unlock();
    }
    return done;
}
int ftruncate(int fd, off_t size) { return ftruncate64(fd, size); }

int fallocate64(int fd, int mode, off_t at, off_t length) {
    struct stat status;
    int seen = watched(fd, &status);
    if (seen) lock();
    int done = (int)syscall(SYS_fallocate, fd, mode, at, length);
    if (seen) {
        if (!done && !(mode & FALLOC_FL_KEEP_SIZE))
            tell(GROW, status.st_ino, "", 0, (uint64_t)(at + length), 0, NULL);
        unlock();
    }
    return done;
}
int fallocate(int fd, int mode, off_t at, off_t length) { return fallocate64(fd, mode, at, length); }
int posix_fallocate64(int fd, off_t at, off_t length) { return fallocate64(fd, 0, at, length) ? errno : 0; }
int posix_fallocate(int fd, off_t at, off_t length) { return posix_fallocate64(fd, at, length); }

static int synced(int fd, long number) {
    struct stat status;
    if (!watched(fd, &status)) return (int)syscall(number, fd);
    lock();
    tell(SYNC, status.st_ino, "", 0, 0, 0, NULL);
    unlock();
    return 0;
}
int fsync(int fd) { return synced(fd, SYS_fsync); }
int fdatasync(int fd) { return synced(fd, SYS_fdatasync); }

/* --------------------------------------------------------------------------------------------- names */

static int two_names(int kind, int from_at, const char *from, int to_at, const char *to, int flags) {
    char names[2 * PATH_MAX], target[PATH_MAX];
    struct stat status;
    int seen = watched_path(from_at, from, names) & watched_path(to_at, to, target), known = 0;
    if (seen) {
        int saved = errno;
        lock();
        known = !lstat(names, &status) && (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode));
        errno = saved;
    }
    int done = (int)(kind == RENAME ? syscall(SYS_renameat2, from_at, from, to_at, to, flags)
                                    : syscall(SYS_linkat, from_at, from, to_at, to, flags));
    if (seen) {
        if (!done && known) {
            size_t first = strlen(names) + 1;
            memcpy(names + first, target, strlen(target));
            tell(kind, status.st_ino, names, first + strlen(target), 0, 0, NULL);
        }
        unlock();
    }
    return done;
}
int rename(const char *from, const char *to) { return two_names(RENAME, AT_FDCWD, from, AT_FDCWD, to, 0); }
int renameat(int from_at, const char *from, int to_at, const char *to) {
    return two_names(RENAME, from_at, from, to_at, to, 0);
}
int renameat2(int from_at, const char *from, int to_at, const char *to, unsigned int flags) {
    return two_names(RENAME, from_at, from, to_at, to, (int)flags);
}
int link(const char *from, const char *to) { return two_names(LINK, AT_FDCWD, from, AT_FDCWD, to, 0); }
int linkat(int from_at, const char *from, int to_at, const char *to, int flags) {
    return two_names(LINK, from_at, from, to_at, to, flags);
}

static int remove_at(int at, const char *path, int flags) {
    char full[PATH_MAX];
    int seen = watched_path(at, path, full);
    if (seen) lock();
    int done = (int)syscall(SYS_unlinkat, at, path, flags);
    if (seen) {
        if (!done) tell_path(REMOVE, 0, full);
        unlock();
    }
    return done;
}
int unlink(const char *path) { return remove_at(AT_FDCWD, path, 0); }
int unlinkat(int at, const char *path, int flags) { return remove_at(at, path, flags); }
int rmdir(const char *path) { return remove_at(AT_FDCWD, path, AT_REMOVEDIR); }

int mkdirat(int at, const char *path, mode_t mode) {
    char full[PATH_MAX];
    struct stat status;
    int seen = watched_path(at, path, full);
    if (seen) lock();
    int done = (int)syscall(SYS_mkdirat, at, path, mode);
    if (seen) {
        if (!done && !stat(full, &status)) tell_path(MKDIR, status.st_ino, full);
        unlock();
    }
    return done;
}
int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }
