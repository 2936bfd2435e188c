/* The ceiling of local attach: one file, held in memory or on a drive, served to the kernel through
 * FUSE over io_uring, mounted over an ordinary file so that a loop device can be set upon it. It does
 * the least a correct server can do (one copy or one direct read per request), so whatever a real
 * server loses against it is the server's own.
 *
 * usage: fuse_ceiling FILE MIB            in memory; stays in the foreground until FILE is unmounted
 *        fuse_ceiling FILE MIB DRIVE      reads come from the file DRIVE, past the page cache; no writes
 * build: cc -O2 -o fuse_ceiling fuse_ceiling.c -luring -lpthread
 *
 * The protocol is the kernel's include/uapi/linux/fuse.h and Documentation/filesystems/fuse/. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <linux/falloc.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/uio.h>
#include <unistd.h>

/* Later than Debian 12's headers: FUSE 7.42 and after. */
#define WANT_OVER_URING (1ull << 41)
#define WANT_INIT_EXT (1ull << 30)
#define OPEN_PARALLEL_DIRECT_WRITES (1u << 6)
#define COMMAND_REGISTER 1
#define COMMAND_COMMIT_AND_FETCH 2

struct uring_entry_info {
    uint64_t flags, commit_id;
    uint32_t payload_bytes, padding;
    uint64_t reserved;
};

/* What the kernel fills in for each request, and where the answer's header goes. */
struct uring_header {
    char header[128];
    char operation[128];
    struct uring_entry_info entry;
};

struct uring_command {
    uint64_t flags, commit_id;
    uint16_t queue;
    uint8_t padding[6];
};

enum { REQUEST_BYTES = 1 << 20, ENTRIES = 32, CLASSIC_BYTES = REQUEST_BYTES + 8192 };

struct slot {
    struct uring_header *header;
    unsigned char *payload;
    struct iovec vectors[2];
};

struct queue {
    int device;
    uint16_t number;
};

static unsigned char *memory;
static uint64_t memory_bytes;
static int drive = -1; /* where reads come from, if not from memory */

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void describe(struct fuse_attr *attributes) {
    memset(attributes, 0, sizeof *attributes);
    attributes->ino = 1;
    attributes->size = memory_bytes;
    attributes->blocks = memory_bytes / 512;
    attributes->mode = S_IFREG | 0600;
    attributes->nlink = 1;
    attributes->blksize = 4096;
}

/* Answers one request. `input` is its fixed part; `payload` holds the data of a write and takes the
 * answer. Returns the answer's length or a negative error number. */
static int64_t answer(uint32_t opcode, const void *input, unsigned char *payload) {
    switch (opcode) {
    case FUSE_READ: {
        const struct fuse_read_in *in = input;
        if (in->offset >= memory_bytes) return 0;
        uint64_t bytes = in->size < memory_bytes - in->offset ? in->size : memory_bytes - in->offset;
        memcpy(payload, memory + in->offset, bytes);
        return (int64_t)bytes;
    }
    case FUSE_WRITE: {
        if (drive >= 0) return -EROFS;
        const struct fuse_write_in *in = input;
        struct fuse_write_out *out = (void *)payload;
        if (in->offset > memory_bytes || in->size > memory_bytes - in->offset) return -ENOSPC;
        memcpy(memory + in->offset, payload, in->size);
        memset(out, 0, sizeof *out);
        out->size = ((const struct fuse_write_in *)input)->size;
        return sizeof *out;
    }
    case FUSE_GETATTR:
    case FUSE_SETATTR: {
        struct fuse_attr_out *out = (void *)payload;
        memset(out, 0, sizeof *out);
        out->attr_valid = 3600;
        describe(&out->attr);
        return sizeof *out;
    }
    case FUSE_OPEN: {
        struct fuse_open_out *out = (void *)payload;
        memset(out, 0, sizeof *out);
        out->open_flags = FOPEN_DIRECT_IO | OPEN_PARALLEL_DIRECT_WRITES;
        return sizeof *out;
    }
    case FUSE_FALLOCATE: {
        const struct fuse_fallocate_in *in = input;
        if (in->offset > memory_bytes || in->length > memory_bytes - in->offset) return -ENOSPC;
        if (in->mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE)) memset(memory + in->offset, 0, in->length);
        return 0;
    }
    case FUSE_STATFS: {
        struct fuse_statfs_out *out = (void *)payload;
        memset(out, 0, sizeof *out);
        out->st.bsize = 4096;
        out->st.namelen = 255;
        return sizeof *out;
    }
    case FUSE_FLUSH:
    case FUSE_FSYNC:
    case FUSE_RELEASE:
    case FUSE_ACCESS:
    case FUSE_DESTROY:
        return 0;
    default:
        return -ENOSYS;
    }
}

static void submit(struct io_uring *ring, const struct queue *queue, struct slot *slot, uint32_t operation,
                   uint64_t commit_id) {
    struct io_uring_sqe *entry = io_uring_get_sqe(ring);
    if (!entry) abort(); /* the ring has twice as many entries as slots */
    memset(entry, 0, 128);
    entry->opcode = IORING_OP_URING_CMD;
    entry->fd = queue->device;
    entry->cmd_op = operation;
    entry->user_data = (uintptr_t)slot;
    if (operation == COMMAND_REGISTER) {
        entry->addr = (uintptr_t)slot->vectors;
        entry->len = 2;
    }
    struct uring_command *command = (void *)entry->cmd;
    command->queue = queue->number;
    command->commit_id = commit_id;
}

/* Marks the completion of a drive's read; slots are aligned, so the bit is free. */
enum { FROM_DRIVE = 1 };

static void read_drive(struct io_uring *ring, struct slot *slot) {
    struct io_uring_sqe *entry = io_uring_get_sqe(ring);
    const struct fuse_read_in *in = (const void *)slot->header->operation;
    if (!entry) abort();
    memset(entry, 0, 128);
    io_uring_prep_read(entry, drive, slot->payload, in->size, in->offset);
    entry->user_data = (uintptr_t)slot | FROM_DRIVE;
}

static void reply(struct io_uring *ring, const struct queue *queue, struct slot *slot, int64_t result) {
    const struct fuse_in_header *request = (const void *)slot->header->header;
    uint64_t unique = request->unique, commit_id = slot->header->entry.commit_id;
    uint32_t bytes = result > 0 ? (uint32_t)result : 0;
    struct fuse_out_header *header = (void *)slot->header->header;
    *header = (struct fuse_out_header){
        .len = sizeof *header + bytes, .error = result < 0 ? (int32_t)result : 0, .unique = unique};
    slot->header->entry.payload_bytes = bytes;
    submit(ring, queue, slot, COMMAND_COMMIT_AND_FETCH, commit_id);
}

/* One ring and one pinned thread for each processor, as the kernel hands requests out. */
static void *serve_queue(void *argument) {
    const struct queue *queue = argument;
    struct io_uring ring;
    struct io_uring_params parameters = {.flags = IORING_SETUP_SQE128 | IORING_SETUP_SINGLE_ISSUER |
                                                  IORING_SETUP_DEFER_TASKRUN};
    cpu_set_t processors;
    CPU_ZERO(&processors);
    CPU_SET(queue->number, &processors);
    pthread_setaffinity_np(pthread_self(), sizeof processors, &processors);
    int status = io_uring_queue_init_params(2 * ENTRIES, &ring, &parameters);
    if (status < 0) {
        errno = -status;
        fail("io_uring");
    }
    struct slot *slots = calloc(ENTRIES, sizeof *slots);
    for (int i = 0; i < ENTRIES; i++) {
        slots[i].header = aligned_alloc(4096, 4096);
        slots[i].payload = aligned_alloc(4096, REQUEST_BYTES);
        slots[i].vectors[0] = (struct iovec){slots[i].header, sizeof *slots[i].header};
        slots[i].vectors[1] = (struct iovec){slots[i].payload, REQUEST_BYTES};
        submit(&ring, queue, &slots[i], COMMAND_REGISTER, 0);
    }
    for (;;) {
        status = io_uring_submit_and_wait(&ring, 1);
        if (status < 0 && status != -EINTR) return NULL;
        struct io_uring_cqe *completion;
        unsigned head, count = 0;
        io_uring_for_each_cqe(&ring, head, completion) {
            count++;
            struct slot *slot = (void *)(uintptr_t)(completion->user_data & ~(uint64_t)FROM_DRIVE);
            if (completion->user_data & FROM_DRIVE) {
                reply(&ring, queue, slot, completion->res);
                continue;
            }
            if (completion->res != 0) return NULL; /* unmounted */
            uint32_t opcode = ((const struct fuse_in_header *)slot->header->header)->opcode;
            if (opcode == FUSE_READ && drive >= 0)
                read_drive(&ring, slot);
            else
                reply(&ring, queue, slot, answer(opcode, slot->header->operation, slot->payload));
        }
        io_uring_cq_advance(&ring, count);
    }
}

/* The first request is always read the classic way; in it both sides agree on the rings. */
static void agree(int device) {
    unsigned char *buffer = aligned_alloc(4096, CLASSIC_BYTES);
    if (read(device, buffer, CLASSIC_BYTES) < 0) fail("read the first request");
    const struct fuse_in_header *request = (void *)buffer;
    const struct fuse_init_in *in = (const void *)(request + 1);
    uint64_t offered = in->flags | (uint64_t)in->flags2 << 32;
    if (!(offered & WANT_OVER_URING)) {
        fprintf(stderr, "the kernel offers no FUSE over io_uring: set /sys/module/fuse/parameters/enable_uring\n");
        exit(3);
    }
    uint64_t wanted = FUSE_ASYNC_READ | FUSE_BIG_WRITES | FUSE_ASYNC_DIO | FUSE_MAX_PAGES | WANT_INIT_EXT | WANT_OVER_URING;
    struct {
        struct fuse_out_header header;
        struct fuse_init_out out;
    } reply;
    memset(&reply, 0, sizeof reply);
    reply.header.len = sizeof reply;
    reply.header.unique = request->unique;
    reply.out.major = 7;
    reply.out.minor = in->minor < 42 ? in->minor : 42;
    reply.out.max_readahead = in->max_readahead;
    reply.out.max_write = REQUEST_BYTES;
    reply.out.max_pages = REQUEST_BYTES / 4096;
    reply.out.max_background = 128;
    reply.out.congestion_threshold = 96;
    reply.out.flags = (uint32_t)wanted;
    reply.out.flags2 = (uint32_t)(wanted >> 32);
    if (write(device, &reply, sizeof reply) < 0) fail("answer the first request");
    free(buffer);
}

/* Requests that come before the rings are ready, and those that need no answer. */
static void serve_classic(int device) {
    unsigned char *buffer = aligned_alloc(4096, CLASSIC_BYTES), *payload = aligned_alloc(4096, REQUEST_BYTES);
    for (;;) {
        ssize_t bytes = read(device, buffer, CLASSIC_BYTES);
        if (bytes < 0) {
            if (errno == EINTR || errno == EAGAIN || errno == ENOENT) continue;
            return; /* unmounted */
        }
        const struct fuse_in_header *request = (void *)buffer;
        if (request->opcode == FUSE_FORGET || request->opcode == FUSE_BATCH_FORGET || request->opcode == FUSE_INTERRUPT)
            continue;
        if (request->opcode == FUSE_WRITE) {
            const struct fuse_write_in *in = (const void *)(request + 1);
            memcpy(payload, in + 1, in->size);
        }
        int64_t result = answer(request->opcode, request + 1, payload);
        uint32_t length = result > 0 ? (uint32_t)result : 0;
        struct fuse_out_header header = {
            .len = sizeof header + length, .error = result < 0 ? (int32_t)result : 0, .unique = request->unique};
        struct iovec vectors[2] = {{&header, sizeof header}, {payload, length}};
        if (writev(device, vectors, length ? 2 : 1) < 0 && errno != ENOENT) perror("reply");
    }
}

int main(int count, char **arguments) {
    if (count != 3 && count != 4) {
        fprintf(stderr, "usage: %s FILE MIB [DRIVE]\n", arguments[0]);
        return 2;
    }
    if (count == 4 && (drive = open(arguments[3], O_RDONLY | O_DIRECT | O_CLOEXEC)) < 0) fail(arguments[3]);
    memory_bytes = strtoull(arguments[2], NULL, 10) << 20;
    memory = mmap(NULL, memory_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) fail("mmap");
    int device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    if (device < 0) fail("/dev/fuse");
    char options[128];
    snprintf(options, sizeof options, "fd=%d,rootmode=100600,user_id=0,group_id=0,allow_other", device);
    if (mount("fuse_ceiling", arguments[1], "fuse", MS_NOSUID | MS_NODEV, options)) fail("mount");
    agree(device);
    long processors = sysconf(_SC_NPROCESSORS_CONF);
    struct queue *queues = calloc((size_t)processors, sizeof *queues);
    for (long i = 0; i < processors; i++) {
        pthread_t thread;
        queues[i] = (struct queue){device, (uint16_t)i};
        if (pthread_create(&thread, NULL, serve_queue, &queues[i])) fail("thread");
    }
    serve_classic(device);
    return 0;
}
