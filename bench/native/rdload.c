/* librdkafka at full speed: produce, consume, or measure end-to-end latency, and print one line of JSON.
 *
 *   rdload produce HOST:PORT TOPIC COUNT SIZE LINGER_MS [PARTITIONS]
 *   rdload consume HOST:PORT TOPIC COUNT
 *   rdload latency HOST:PORT TOPIC COUNT SIZE RATE
 *   rdload transact HOST:PORT TOPIC COUNT SIZE LINGER_MS INTERVAL_MS
 *
 * `transact` commits every INTERVAL_MS, or after every record if that is 0; with -1 the same producer is only
 * idempotent, which is what its throughput is compared with.
 *
 * Python's wrapper costs about a microsecond a record, which at 300,000 records a second would measure the wrapper.
 * The few declarations stand here, so that the library which the confluent-kafka wheel brings can be linked without
 * its headers.
 */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

typedef struct rd_kafka_s rd_kafka_t;
typedef struct rd_kafka_topic_s rd_kafka_topic_t;
typedef struct rd_kafka_conf_s rd_kafka_conf_t;
typedef struct rd_kafka_topic_conf_s rd_kafka_topic_conf_t;
typedef struct {
    int err;
    rd_kafka_topic_t *topic;
    int32_t partition;
    void *payload;
    size_t len;
    void *key;
    size_t key_len;
    int64_t offset;
    void *_private;
} rd_kafka_message_t;

enum { PRODUCER = 0, CONSUMER = 1, FLAG_COPY = 2, QUEUE_FULL = -184, OFFSET_BEGINNING = -2, OFFSET_END = -1 };

extern rd_kafka_conf_t *rd_kafka_conf_new(void);
extern int rd_kafka_conf_set(rd_kafka_conf_t *, const char *, const char *, char *, size_t);
extern void rd_kafka_conf_set_dr_msg_cb(rd_kafka_conf_t *,
                                        void (*)(rd_kafka_t *, const rd_kafka_message_t *, void *));
extern rd_kafka_t *rd_kafka_new(int, rd_kafka_conf_t *, char *, size_t);
extern rd_kafka_topic_t *rd_kafka_topic_new(rd_kafka_t *, const char *, rd_kafka_topic_conf_t *);
extern int rd_kafka_produce(rd_kafka_topic_t *, int32_t, int, void *, size_t, const void *, size_t, void *);
extern int rd_kafka_last_error(void);
extern const char *rd_kafka_err2str(int);
extern const char *rd_kafka_version_str(void);
extern int rd_kafka_poll(rd_kafka_t *, int);
extern int rd_kafka_flush(rd_kafka_t *, int);
extern void *rd_kafka_init_transactions(rd_kafka_t *, int);
extern void *rd_kafka_begin_transaction(rd_kafka_t *);
extern void *rd_kafka_commit_transaction(rd_kafka_t *, int);
extern const char *rd_kafka_error_string(const void *);
extern int rd_kafka_consume_start(rd_kafka_topic_t *, int32_t, int64_t);
extern ssize_t rd_kafka_consume_batch(rd_kafka_topic_t *, int32_t, int, rd_kafka_message_t **, size_t);
extern void rd_kafka_message_destroy(rd_kafka_message_t *);

static volatile long acknowledged, failed;

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static double cpu_s(void) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return u.ru_utime.tv_sec + u.ru_stime.tv_sec + (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static void delivered(rd_kafka_t *rk, const rd_kafka_message_t *message, void *opaque) {
    (void)rk, (void)opaque;
    if (message->err) failed++;
    acknowledged++;
}

static void set(rd_kafka_conf_t *conf, const char *name, const char *value) {
    char error[256];
    if (rd_kafka_conf_set(conf, name, value, error, sizeof error)) {
        fprintf(stderr, "%s=%s: %s\n", name, value, error);
        exit(2);
    }
}

static rd_kafka_t *make(int kind, rd_kafka_conf_t *conf) {
    char error[256];
    rd_kafka_t *rk = rd_kafka_new(kind, conf, error, sizeof error);
    if (!rk) {
        fprintf(stderr, "%s\n", error);
        exit(2);
    }
    return rk;
}

static rd_kafka_t *make_producer(const char *address, const char *linger_ms) {
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "bootstrap.servers", address);
    set(conf, "linger.ms", linger_ms);
    set(conf, "batch.num.messages", "100000");
    set(conf, "queue.buffering.max.messages", "200000");
    set(conf, "socket.nagle.disable", "true");
    set(conf, "log_level", "3");
    rd_kafka_conf_set_dr_msg_cb(conf, delivered);
    return make(PRODUCER, conf);
}

static rd_kafka_t *make_consumer(const char *address) {
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "bootstrap.servers", address);
    set(conf, "queued.max.messages.kbytes", "65536");
    set(conf, "socket.nagle.disable", "true");
    set(conf, "log_level", "3");
    return make(CONSUMER, conf);
}

static void send_to(rd_kafka_t *rk, rd_kafka_topic_t *topic, int partition, void *payload, size_t size) {
    while (rd_kafka_produce(topic, partition, FLAG_COPY, payload, size, NULL, 0, NULL) != 0) {
        if (rd_kafka_last_error() != QUEUE_FULL) {
            fprintf(stderr, "produce: %s\n", rd_kafka_err2str(rd_kafka_last_error()));
            exit(2);
        }
        rd_kafka_poll(rk, 10);
    }
}

static void send_one(rd_kafka_t *rk, rd_kafka_topic_t *topic, void *payload, size_t size) {
    send_to(rk, topic, 0, payload, size);
}

static int produce(const char *address, const char *name, long count, size_t size, const char *linger_ms,
                   int partitions) {
    rd_kafka_t *rk = make_producer(address, linger_ms);
    rd_kafka_topic_t *topic = rd_kafka_topic_new(rk, name, NULL);
    char *payload = malloc(size);
    for (size_t i = 0; i < size; i++) payload[i] = (char)(i * 131 + i / 7);
    /* The first record fetches the metadata; it is not timed. */
    send_one(rk, topic, payload, size);
    rd_kafka_flush(rk, 30000);
    double began = now_s(), cpu = cpu_s();
    for (long i = 0; i < count; i++) {
        send_to(rk, topic, (int)(i % partitions), payload, size);
        if (i % 1000 == 0) rd_kafka_poll(rk, 0);
    }
    rd_kafka_flush(rk, 120000);
    double took = now_s() - began;
    printf("{\"records\": %ld, \"bytes\": %ld, \"seconds\": %.6f, \"client_cpu_s\": %.3f, \"failed\": %ld, "
           "\"librdkafka\": \"%s\"}\n",
           count, count * (long)size, took, cpu_s() - cpu, failed + (count + 1 - acknowledged),
           rd_kafka_version_str());
    return 0;
}

static int consume(const char *address, const char *name, long count) {
    rd_kafka_t *rk = make_consumer(address);
    rd_kafka_topic_t *topic = rd_kafka_topic_new(rk, name, NULL);
    static rd_kafka_message_t *messages[10000];
    rd_kafka_consume_start(topic, 0, OFFSET_BEGINNING);
    double began = 0, cpu = 0, last = now_s();
    long records = 0, bytes = 0, errors = 0;
    while (records < count && now_s() - last < 20) {
        ssize_t got = rd_kafka_consume_batch(topic, 0, 1000, messages, 10000);
        for (ssize_t i = 0; i < got; i++) {
            if (messages[i]->err) {
                errors += messages[i]->err != -191; /* the end of the partition is none */
            } else {
                if (!began) began = now_s(), cpu = cpu_s();
                records++;
                bytes += (long)messages[i]->len;
                last = now_s();
            }
            rd_kafka_message_destroy(messages[i]);
        }
    }
    printf("{\"records\": %ld, \"bytes\": %ld, \"seconds\": %.6f, \"client_cpu_s\": %.3f, \"failed\": %ld}\n",
           records, bytes, last - began, cpu_s() - cpu, errors);
    _exit((fflush(stdout), 0));
}

struct reader {
    const char *address, *topic;
    long count;
    double *latencies;
    volatile int ready;
};

static void *read_back(void *argument) {
    struct reader *self = argument;
    rd_kafka_t *rk = make_consumer(self->address);
    rd_kafka_topic_t *topic = rd_kafka_topic_new(rk, self->topic, NULL);
    rd_kafka_message_t *messages[100];
    rd_kafka_consume_start(topic, 0, OFFSET_BEGINNING);
    for (long seen = 0; seen < self->count;) {
        ssize_t got = rd_kafka_consume_batch(topic, 0, 1000, messages, 1);
        for (ssize_t i = 0; i < got; i++) {
            double sent;
            if (!messages[i]->err && messages[i]->len >= sizeof sent) {
                memcpy(&sent, messages[i]->payload, sizeof sent);
                if (sent < 0)
                    self->ready = 1;
                else
                    self->latencies[seen++] = now_s() - sent;
            }
            rd_kafka_message_destroy(messages[i]);
        }
    }
    return NULL;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int latency(const char *address, const char *name, long count, size_t size, double rate) {
    rd_kafka_t *rk = make_producer(address, "0");
    rd_kafka_topic_t *topic = rd_kafka_topic_new(rk, name, NULL);
    struct reader reader = {address, name, count, calloc((size_t)count, sizeof(double)), 0};
    char *payload = calloc(1, size);
    double mark = -1;
    pthread_t thread;
    memcpy(payload, &mark, sizeof mark);
    send_one(rk, topic, payload, size);
    rd_kafka_flush(rk, 30000);
    pthread_create(&thread, NULL, read_back, &reader);
    while (!reader.ready) usleep(1000);
    double next = now_s();
    for (long i = 0; i < count; i++) {
        next += 1 / rate;
        double wait = next - now_s();
        if (wait > 0) {
            struct timespec t = {(time_t)wait, (long)((wait - (time_t)wait) * 1e9)};
            nanosleep(&t, NULL);
        }
        double sent = now_s();
        memcpy(payload, &sent, sizeof sent);
        send_one(rk, topic, payload, size);
        rd_kafka_poll(rk, 0);
    }
    rd_kafka_flush(rk, 30000);
    pthread_join(thread, NULL);
    qsort(reader.latencies, (size_t)count, sizeof(double), ascending);
    printf("{\"records\": %ld, \"p50_ms\": %.4f, \"p99_ms\": %.4f, \"p999_ms\": %.4f, \"max_ms\": %.4f}\n", count,
           reader.latencies[count / 2] * 1e3, reader.latencies[count * 99 / 100] * 1e3,
           reader.latencies[count * 999 / 1000] * 1e3, reader.latencies[count - 1] * 1e3);
    _exit((fflush(stdout), 0));
}

static void must(const char *what, void *error) {
    if (error) {
        fprintf(stderr, "%s: %s\n", what, rd_kafka_error_string(error));
        exit(2);
    }
}

static int transact(const char *address, const char *name, long count, size_t size, const char *linger_ms,
                    long interval_ms) {
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    char id[128];
    snprintf(id, sizeof id, "rdload-%s-%d", name, (int)getpid());
    set(conf, "bootstrap.servers", address);
    set(conf, "linger.ms", linger_ms);
    set(conf, "batch.num.messages", "100000");
    set(conf, "queue.buffering.max.messages", "200000");
    set(conf, "socket.nagle.disable", "true");
    set(conf, "log_level", "3");
    set(conf, "enable.idempotence", "true");
    if (interval_ms >= 0) set(conf, "transactional.id", id);
    rd_kafka_conf_set_dr_msg_cb(conf, delivered);
    rd_kafka_t *rk = make(PRODUCER, conf);
    rd_kafka_topic_t *topic = rd_kafka_topic_new(rk, name, NULL);
    char *payload = malloc(size);
    for (size_t i = 0; i < size; i++) payload[i] = (char)(i * 131 + i / 7);
    /* The first transaction fetches the metadata and finds the coordinator; it is not timed. */
    if (interval_ms >= 0) {
        must("init_transactions", rd_kafka_init_transactions(rk, 60000));
        must("begin_transaction", rd_kafka_begin_transaction(rk));
    }
    send_one(rk, topic, payload, size);
    if (interval_ms >= 0)
        must("commit_transaction", rd_kafka_commit_transaction(rk, 60000));
    else
        rd_kafka_flush(rk, 30000);
    double *latencies = calloc((size_t)count + 1, sizeof(double)), began = now_s(), cpu = cpu_s(), due = 0;
    long commits = 0;
    for (long i = 0; i < count; i++) {
        if (interval_ms >= 0 && !due) {
            must("begin_transaction", rd_kafka_begin_transaction(rk));
            due = now_s() + interval_ms / 1e3;
        }
        send_one(rk, topic, payload, size);
        if (i % 1000 == 0) rd_kafka_poll(rk, 0);
        if (interval_ms >= 0 && (!interval_ms || i % 100 == 0 || i + 1 == count) &&
            (i + 1 == count || now_s() >= due)) {
            double asked = now_s();
            must("commit_transaction", rd_kafka_commit_transaction(rk, 60000));
            latencies[commits++] = now_s() - asked;
            due = 0;
        }
    }
    rd_kafka_flush(rk, 120000);
    double took = now_s() - began;
    qsort(latencies, (size_t)commits, sizeof(double), ascending);
    printf("{\"records\": %ld, \"bytes\": %ld, \"seconds\": %.6f, \"client_cpu_s\": %.3f, \"failed\": %ld, "
           "\"commits\": %ld, \"commit_p50_ms\": %.4f, \"commit_p99_ms\": %.4f}\n",
           count, count * (long)size, took, cpu_s() - cpu, failed + (count + 1 - acknowledged), commits,
           latencies[commits / 2] * 1e3, latencies[commits * 99 / 100] * 1e3);
    return 0;
}

int main(int argc, char **argv) {
    if ((argc == 7 || argc == 8) && !strcmp(argv[1], "produce"))
        return produce(argv[2], argv[3], atol(argv[4]), (size_t)atol(argv[5]), argv[6],
                       argc == 8 ? atoi(argv[7]) : 1);
    if (argc == 5 && !strcmp(argv[1], "consume")) return consume(argv[2], argv[3], atol(argv[4]));
    if (argc == 7 && !strcmp(argv[1], "latency"))
        return latency(argv[2], argv[3], atol(argv[4]), (size_t)atol(argv[5]), atof(argv[6]));
    if (argc == 8 && !strcmp(argv[1], "transact"))
        return transact(argv[2], argv[3], atol(argv[4]), (size_t)atol(argv[5]), argv[6], atol(argv[7]));
    fprintf(stderr, "usage: see the head of rdload.c\n");
    return 2;
}
