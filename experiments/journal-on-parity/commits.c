/* Commits a second of a journal: each commit is one durable write to each of N files at once, and ends
 * when the last of them has.
 *
 * usage: commits DIRECTORY FILES BYTES_OF_EACH_WRITE SECONDS     prints commits a second, mean and p99 in µs
 * build: cc -O2 -o commits commits.c -luring */
#define _GNU_SOURCE
#include <fcntl.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { FILES_MAX = 48, COMMITS_MAX = 1 << 20 };
static const off_t FILE_BYTES = 256 << 20; /* written before, as segments of file drives are */

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static double now_us(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

static int open_written(const char *directory, int number) {
    char path[4096];
    snprintf(path, sizeof path, "%s/column-%d", directory, number);
    int file = open(path, O_RDWR | O_CREAT | O_DIRECT | O_CLOEXEC, 0600);
    if (file < 0) fail(path);
    struct stat state;
    if (fstat(file, &state)) fail(path);
    if (state.st_size == FILE_BYTES) return file;
    void *bytes = aligned_alloc(4096, 1 << 20);
    memset(bytes, 0x5a, 1 << 20);
    for (off_t at = 0; at < FILE_BYTES; at += 1 << 20)
        if (pwrite(file, bytes, 1 << 20, at) != 1 << 20) fail(path);
    if (fsync(file)) fail(path);
    free(bytes);
    return file;
}

static void commit(struct io_uring *ring, const int *files, int count, const void *bytes, unsigned length, off_t at) {
    for (int i = 0; i < count; i++) {
        struct io_uring_sqe *entry = io_uring_get_sqe(ring);
        io_uring_prep_write(entry, files[i], bytes, length, (__u64)at);
        entry->rw_flags = RWF_DSYNC;
    }
    io_uring_submit_and_wait(ring, (unsigned)count);
    struct io_uring_cqe *completion;
    for (int i = 0; i < count; i++) {
        if (io_uring_wait_cqe(ring, &completion)) fail("wait");
        if (completion->res != (int)length) fail("write");
        io_uring_cqe_seen(ring, completion);
    }
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int count, char **arguments) {
    int files[FILES_MAX], columns = count == 5 ? atoi(arguments[2]) : 0;
    unsigned length = count == 5 ? (unsigned)atoi(arguments[3]) : 0;
    if (columns < 1 || columns > FILES_MAX || length == 0 || length % 4096) {
        fprintf(stderr, "usage: %s DIRECTORY FILES BYTES SECONDS\n", arguments[0]);
        return 2;
    }
    for (int i = 0; i < columns; i++) files[i] = open_written(arguments[1], i);
    struct io_uring ring;
    if (io_uring_queue_init(FILES_MAX, &ring, 0)) fail("io_uring");
    void *bytes = aligned_alloc(4096, length);
    memset(bytes, 0xa5, length);
    double *took = malloc(COMMITS_MAX * sizeof *took), begin = now_us(), end = begin + atof(arguments[4]) * 1e6, sum = 0;
    int commits = 0;
    for (off_t at = 0; now_us() < end && commits < COMMITS_MAX; at = at + 2 * (off_t)length > FILE_BYTES ? 0 : at + length) {
        double start = now_us();
        commit(&ring, files, columns, bytes, length, at);
        took[commits] = now_us() - start;
        sum += took[commits++];
    }
    double seconds = (now_us() - begin) / 1e6;
    qsort(took, (size_t)commits, sizeof *took, by_value);
    printf("%.0f %.1f %.1f\n", commits / seconds, sum / commits, took[commits * 99 / 100]);
    return 0;
}
