/* Load over iSCSI from user space: one session, requests at random places, so many at a time.
 * usage: iscsi_load URL read|write BLOCK_BYTES DEPTH SECONDS
 * prints: requests, their mean and their 99th percentile in microseconds, as a JSON object
 * build: cc -O2 -o iscsi_load iscsi_load.c -liscsi */
#include <iscsi/iscsi.h>
#include <iscsi/scsi-lowlevel.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LATENCIES_MAX = 1 << 23, SLICE_BYTES = 4096 };

struct request {
    uint8_t *data;
    struct scsi_iovec place;
    double began;
};

static struct {
    struct iscsi_context *session;
    int lun, is_write, in_flight, has_failed;
    uint32_t bytes, block_bytes;
    uint64_t places;
    double end;
    float *latencies;
    size_t count;
} load;

static void fail(const char *what) {
    fprintf(stderr, "iscsi_load: %s: %s\n", what, load.session ? iscsi_get_error(load.session) : "");
    exit(1);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* Marsaglia, Xorshift RNGs, 2003. */
static uint64_t chance(void) {
    static uint64_t state = 0x9e3779b97f4a7c15;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static void fill(struct request *request) {
    for (uint32_t at = 0; at < load.bytes; at += sizeof(uint64_t)) {
        uint64_t word = chance();
        memcpy(request->data + at, &word, sizeof word);
    }
}

static void begin(struct request *request);

static void ended(struct iscsi_context *session, int status, void *command, void *argument) {
    (void)session;
    struct request *request = argument;
    double at = now();
    load.in_flight--;
    load.has_failed |= status != SCSI_STATUS_GOOD;
    if (load.count < LATENCIES_MAX) load.latencies[load.count++] = (float)((at - request->began) * 1e6);
    scsi_free_scsi_task(command);
    if (at < load.end && !load.has_failed) begin(request);
}

static void begin(struct request *request) {
    uint64_t lba = chance() % load.places * (load.bytes / load.block_bytes);
    struct scsi_task *task;
    request->began = now();
    if (load.is_write) {
        /* Other bytes in each slice: nothing that was there before. */
        for (uint32_t at = 0; at < load.bytes; at += SLICE_BYTES) {
            uint64_t word = chance();
            memcpy(request->data + at, &word, sizeof word);
        }
        task = iscsi_write16_task(load.session, load.lun, lba, request->data, load.bytes, (int)load.block_bytes, 0, 0,
                                  0, 0, 0, ended, request);
    } else {
        task = iscsi_read16_task(load.session, load.lun, lba, load.bytes, (int)load.block_bytes, 0, 0, 0, 0, 0, ended,
                                 request);
        if (task) scsi_task_set_iov_in(task, &request->place, 1);
    }
    if (!task) fail("request");
    load.in_flight++;
}

static int ascending(const void *left, const void *right) {
    float a = *(const float *)left, b = *(const float *)right;
    return (a > b) - (a < b);
}

static void connect_to(const char *address) {
    load.session = iscsi_create_context("iqn.2026-11.io.ashlar:load");
    struct iscsi_url *url = load.session ? iscsi_parse_full_url(load.session, address) : NULL;
    if (!url) fail(address);
    load.lun = url->lun;
    iscsi_set_targetname(load.session, url->target);
    iscsi_set_session_type(load.session, ISCSI_SESSION_NORMAL);
    iscsi_set_header_digest(load.session, ISCSI_HEADER_DIGEST_NONE);
    if (iscsi_full_connect_sync(load.session, url->portal, url->lun)) fail("login");
    struct scsi_task *task = iscsi_readcapacity16_sync(load.session, load.lun);
    struct scsi_readcapacity16 *capacity = task ? scsi_datain_unmarshall(task) : NULL;
    if (!capacity) fail("capacity");
    load.block_bytes = capacity->block_length;
    load.places = (capacity->returned_lba + 1) / (load.bytes / load.block_bytes);
    scsi_free_scsi_task(task);
}

int main(int count, char **arguments) {
    if (count != 6) {
        fprintf(stderr, "usage: iscsi_load URL read|write BLOCK_BYTES DEPTH SECONDS\n");
        return 2;
    }
    load.is_write = !strcmp(arguments[2], "write");
    load.bytes = (uint32_t)atoi(arguments[3]);
    int depth = atoi(arguments[4]);
    load.latencies = malloc(sizeof *load.latencies * LATENCIES_MAX);
    struct request *requests = calloc((size_t)depth, sizeof *requests);
    if (!load.latencies || !requests) fail("memory");
    connect_to(arguments[1]);
    load.end = now() + atof(arguments[5]);
    for (int index = 0; index < depth; index++) {
        requests[index].data = aligned_alloc(SLICE_BYTES, load.bytes);
        requests[index].place = (struct scsi_iovec){requests[index].data, load.bytes};
        fill(&requests[index]);
        begin(&requests[index]);
    }
    while (load.in_flight && !load.has_failed) {
        struct pollfd socket = {iscsi_get_fd(load.session), (short)iscsi_which_events(load.session), 0};
        if (poll(&socket, 1, 1000) < 0 || iscsi_service(load.session, socket.revents) < 0) fail("service");
    }
    if (load.has_failed || !load.count) fail("a request failed");
    double sum = 0;
    for (size_t index = 0; index < load.count; index++) sum += load.latencies[index];
    qsort(load.latencies, load.count, sizeof *load.latencies, ascending);
    printf("{\"requests\": %zu, \"mean_us\": %.1f, \"p99_us\": %.1f}\n", load.count, sum / (double)load.count,
           load.latencies[load.count * 99 / 100]);
    return 0;
}
