// KafkaJS, driven line by line: a JSON request a line on standard input, a JSON answer a line on standard output.
//
//   {"id": 1, "op": "produce", ...}  ->  {"id": 1, "ok": ...}  or  {"id": 1, "error": "text"}
//
// KafkaJS brings gzip only; snappy, lz4 and zstd are plugged in as its documentation describes.
// Bytes travel as base64, null as null.

const readline = require("node:readline");
const { Kafka, logLevel, CompressionTypes, CompressionCodecs, ConfigResourceTypes } = require("kafkajs");
const snappy = require("snappyjs");
const lz4 = require("lz4-napi");
const { ZstdCodec } = require("zstd-codec");

const kafka = new Kafka({
  clientId: "kafkajs-agent",
  brokers: process.argv[2].split(","),
  logLevel: logLevel.NOTHING,
  retry: { initialRetryTime: 100, retries: 8 },
});
const members = new Map();
const admin = kafka.admin();
let connected = null;

const XERIAL = Buffer.from([130, 83, 78, 65, 80, 80, 89, 0]);

function unsnappy(buffer) {
  if (!buffer.subarray(0, 8).equals(XERIAL)) return Buffer.from(snappy.uncompress(buffer));
  const parts = [];
  for (let at = 16; at < buffer.length; ) {
    const size = buffer.readInt32BE(at);
    parts.push(Buffer.from(snappy.uncompress(buffer.subarray(at + 4, at + 4 + size))));
    at += 4 + size;
  }
  return Buffer.concat(parts);
}

function plugCodecs(zstd) {
  CompressionCodecs[CompressionTypes.Snappy] = () => ({
    compress: async (encoder) => Buffer.from(snappy.compress(encoder.buffer)),
    decompress: async (buffer) => unsnappy(buffer),
  });
  CompressionCodecs[CompressionTypes.LZ4] = () => ({
    compress: async (encoder) => lz4.compressFrame(encoder.buffer),
    decompress: async (buffer) => lz4.decompressFrame(buffer),
  });
  CompressionCodecs[CompressionTypes.ZSTD] = () => ({
    compress: async (encoder) => Buffer.from(new zstd.Simple().compress(encoder.buffer)),
    decompress: async (buffer) => Buffer.from(new zstd.Streaming().decompress(buffer)),
  });
}

const CODECS = { none: 0, gzip: 1, snappy: 2, lz4: 3, zstd: 4 };
const bytes = (text) => (text === null || text === undefined ? null : Buffer.from(text, "base64"));
const text = (buffer) => (buffer === null || buffer === undefined ? null : Buffer.from(buffer).toString("base64"));
const sleep = (delay_ms) => new Promise((resolve) => setTimeout(resolve, delay_ms));

function describe(topic, partition, message) {
  const headers = [];
  for (const [name, values] of Object.entries(message.headers || {})) {
    for (const value of Array.isArray(values) ? values : [values]) headers.push([name, text(value)]);
  }
  return {
    topic,
    partition,
    offset: Number(message.offset),
    timestamp_ms: Number(message.timestamp),
    key: text(message.key),
    value: text(message.value),
    headers,
  };
}

function message(record) {
  const headers = {};
  for (const [name, value] of record.headers || []) headers[name] = bytes(value);
  const answer = { key: bytes(record.key), value: bytes(record.value), headers };
  if (record.partition !== null && record.partition !== undefined) answer.partition = record.partition;
  if (record.timestamp_ms) answer.timestamp = String(record.timestamp_ms);
  return answer;
}

async function openMember(request, onMessage) {
  const consumer = kafka.consumer({
    groupId: request.group,
    heartbeatInterval: 300,
    sessionTimeout: 6000,
    rebalanceTimeout: 10000,
    metadataMaxAge: 1000,
    maxWaitTimeInMs: 100,
  });
  const member = { consumer, taken: [], assigned: [] };
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    member.assigned = Object.entries(payload.memberAssignment).flatMap(([t, ps]) => ps.map((p) => [t, p]));
  });
  await consumer.connect();
  await consumer.subscribe({ topics: request.topics, fromBeginning: true });
  await consumer.run({
    autoCommitThreshold: 1,
    eachMessage: async ({ topic, partition, message: one }) => member.taken.push(describe(topic, partition, one)),
  });
  return member;
}

const operations = {
  exchange,

  async produce(request) {
    const producer = kafka.producer({ idempotent: Boolean(request.idempotent), allowAutoTopicCreation: false });
    await producer.connect();
    const sent = await producer.send({
      topic: request.topic,
      acks: -1,
      compression: CODECS[request.codec || "none"],
      messages: request.records.map(message),
    });
    await producer.disconnect();
    return sent.map((one) => [one.partition, Number(one.baseOffset)]);
  },

  async read(request) {
    const answer = Object.fromEntries(Object.keys(request.counts).map((topic) => [topic, []]));
    const wanted = Object.values(request.counts).reduce((sum, count) => sum + count, 0);
    const group = `kafkajs-read-${process.pid}-${Math.random()}`;
    const member = await openMember({ group, topics: Object.keys(request.counts) });
    for (const deadline = Date.now() + 20000; member.taken.length < wanted && Date.now() < deadline; ) await sleep(20);
    await member.consumer.disconnect();
    for (const one of member.taken) answer[one.topic].push(one);
    return answer;
  },

  async open(request) {
    members.set(request.member, await openMember(request));
    return true;
  },
  async assignment(request) {
    return members.get(request.member).assigned;
  },
  async take(request) {
    return members.get(request.member).taken.splice(0);
  },
  async close(request) {
    await members.get(request.member).consumer.disconnect();
    members.delete(request.member);
    return true;
  },

  async create_topic(request) {
    const configEntries = Object.entries(request.configs || {}).map(([name, value]) => ({ name, value }));
    const topics = [{ topic: request.topic, numPartitions: request.partitions || 1, configEntries }];
    return admin.createTopics({ topics, waitForLeaders: true });
  },
  async delete_topic(request) {
    return admin.deleteTopics({ topics: [request.topic] });
  },
  async list_topics() {
    return admin.listTopics();
  },
  async describe_topic(request) {
    return (await admin.fetchTopicMetadata({ topics: [request.topic] })).topics[0];
  },
  async create_partitions(request) {
    return admin.createPartitions({ topicPartitions: [{ topic: request.topic, count: request.count }] });
  },
  async topic_offsets(request) {
    return admin.fetchTopicOffsets(request.topic);
  },
  async offsets_for_times(request) {
    const answer = [];
    for (const time of request.times) {
      answer.push(Number((await admin.fetchTopicOffsetsByTimestamp(request.topic, time))[0].offset));
    }
    return answer;
  },
  async describe_configs(request) {
    const resources = [{ type: ConfigResourceTypes.TOPIC, name: request.topic }];
    const answer = await admin.describeConfigs({ resources, includeSynonyms: true });
    return Object.fromEntries(answer.resources[0].configEntries.map((one) => [one.configName, one.configValue]));
  },
  async alter_config(request) {
    const configEntries = [{ name: request.name, value: request.value }];
    return admin.alterConfigs({ resources: [{ type: ConfigResourceTypes.TOPIC, name: request.topic, configEntries }] });
  },
  async list_groups() {
    return (await admin.listGroups()).groups;
  },
  async describe_group(request) {
    const group = (await admin.describeGroups([request.group])).groups[0];
    return { state: group.state, protocol: group.protocol, members: group.members.length };
  },
  async group_offsets(request) {
    return admin.fetchOffsets({ groupId: request.group, topics: [request.topic] });
  },
  async set_offsets(request) {
    const partitions = [{ partition: 0, offset: String(request.offset) }];
    return admin.setOffsets({ groupId: request.group, topic: request.topic, partitions });
  },
  async delete_group(request) {
    return admin.deleteGroups([request.group]);
  },
  async delete_records(request) {
    await admin.fetchTopicOffsets(request.topic); // KafkaJS looks for the leader only in what it has seen already
    return admin.deleteTopicRecords({
      topic: request.topic,
      partitions: [{ partition: 0, offset: String(request.offset) }],
    });
  },
  async describe_cluster() {
    return admin.describeCluster();
  },
};

// Producers that write numbered records until they are stopped, and are never made anew.
const steady = new Map();

Object.assign(operations, {
  async steady_start(request) {
    const producer = kafka.producer({
      idempotent: true,
      maxInFlightRequests: 1,
      allowAutoTopicCreation: false,
      retry: { initialRetryTime: 50, maxRetryTime: 500, retries: 1000 },
    });
    await producer.connect();
    const one = { producer, acknowledged: [], stopping: false };
    one.done = (async () => {
      for (let number = 0; !one.stopping; number++) {
        const value = `${request.prefix}${number}`;
        const messages = [{ value, partition: number % request.partitions }];
        await producer.send({ topic: request.topic, acks: -1, messages });
        one.acknowledged.push(value);
        await sleep(request.pause_ms);
      }
    })();
    one.done.catch(() => {}); // steady_stop tells it
    steady.set(request.name, one);
    return true;
  },
  async steady_acknowledged(request) {
    return steady.get(request.name).acknowledged;
  },
  async steady_stop(request) {
    const one = steady.get(request.name);
    one.stopping = true;
    await one.done;
    await one.producer.disconnect();
    return one.acknowledged;
  },
});

// Transactional producers that the test drives call by call.
const producers = new Map();

Object.assign(operations, {
  async txn_open(request) {
    const producer = kafka.producer({
      transactionalId: request.transactional_id,
      transactionTimeout: request.timeout_ms,
      maxInFlightRequests: 1,
      idempotent: true,
    });
    await producer.connect();
    producers.set(request.producer, { producer, transaction: null, codec: CODECS[request.codec || "none"] });
    return true;
  },
  async txn_init() {
    return true; // KafkaJS asks for its producer id when the first transaction begins
  },
  async txn_begin(request) {
    const one = producers.get(request.producer);
    one.transaction = await one.producer.transaction();
    return true;
  },
  async txn_send(request) {
    const { transaction, codec } = producers.get(request.producer);
    const messages = request.values.map((value) => ({ value: bytes(value), partition: request.partition }));
    await transaction.send({ topic: request.topic, acks: -1, compression: codec, messages });
    return true;
  },
  async txn_flush() {
    return true; // a send has waited already
  },
  async txn_offsets(request) {
    const topics = request.offsets.map(([topic, partition, offset]) => ({
      topic,
      partitions: [{ partition, offset: String(offset) }],
    }));
    await producers.get(request.producer).transaction.sendOffsets({ consumerGroupId: request.group, topics });
    return true;
  },
  async txn_commit(request) {
    await producers.get(request.producer).transaction.commit();
    return true;
  },
  async txn_abort(request) {
    await producers.get(request.producer).transaction.abort();
    return true;
  },
  async txn_close(request) {
    await producers.get(request.producer).producer.disconnect();
    producers.delete(request.producer);
    return true;
  },

  // Reads until each partition has given its last record, which the test names: KafkaJS tells no position.
  async txn_read(request) {
    const waiting = new Set(request.places.map(([topic, partition]) => `${topic} ${partition}`));
    const taken = [];
    const consumer = kafka.consumer({
      groupId: `kafkajs-read-${process.pid}-${Math.random()}`,
      readUncommitted: !request.committed,
      maxWaitTimeInMs: 100,
    });
    await consumer.connect();
    await consumer.subscribe({ topics: [...new Set(request.places.map(([topic]) => topic))], fromBeginning: true });
    await consumer.run({
      autoCommit: false,
      eachMessage: async ({ topic, partition, message: one }) => {
        taken.push([topic, partition, text(one.value)]);
        if (text(one.value) === request.last) waiting.delete(`${topic} ${partition}`);
      },
    });
    for (const deadline = Date.now() + 20000; waiting.size && Date.now() < deadline; ) await sleep(20);
    await consumer.disconnect();
    return taken;
  },

  // Consume, transform, produce: every batch is a transaction; the second one fails, and is done again.
  async txn_transform(request) {
    const { producer } = producers.get(request.producer);
    const consumer = kafka.consumer({ groupId: request.group, heartbeatInterval: 300, maxWaitTimeInMs: 100 });
    let wanted = request.count;
    let transactions = 0;
    await consumer.connect();
    await consumer.subscribe({ topics: [request.source], fromBeginning: true });
    await consumer.run({
      autoCommit: false,
      eachBatch: async ({ batch }) => {
        const messages = batch.messages.map((one) => ({ value: `${one.value}'`, partition: batch.partition }));
        const offset = String(Number(batch.lastOffset()) + 1);
        const topics = [{ topic: batch.topic, partitions: [{ partition: batch.partition, offset }] }];
        for (let settled = false; !settled; ) {
          const transaction = await producer.transaction();
          await transaction.send({ topic: request.sink, acks: -1, messages });
          await transaction.sendOffsets({ consumerGroupId: request.group, topics });
          settled = ++transactions % 3 !== 2;
          await (settled ? transaction.commit() : transaction.abort());
        }
        wanted -= messages.length;
      },
    });
    for (const deadline = Date.now() + 20000; wanted > 0 && Date.now() < deadline; ) await sleep(20);
    await consumer.disconnect();
    return transactions;
  },
});

// One record into partition 0 and read back from there, by a client whose address and login come with the request.
async function exchange(request) {
  const { sasl } = request.options;
  if (sasl && sasl.token) sasl.oauthBearerProvider = async () => ({ value: sasl.token });
  const client = new Kafka({
    clientId: "kafkajs-secured",
    brokers: [request.address],
    logLevel: logLevel.NOTHING,
    retry: { initialRetryTime: 100, retries: 8 },
    ...request.options,
  });
  const producer = client.producer({ allowAutoTopicCreation: false });
  const consumer = client.consumer({ groupId: `kafkajs-${process.pid}-${Math.random()}`, maxWaitTimeInMs: 100 });
  try {
    await producer.connect();
    const messages = [{ value: request.value, partition: 0 }];
    const [{ baseOffset }] = await producer.send({ topic: request.topic, acks: -1, messages });
    await consumer.connect();
    await consumer.subscribe({ topics: [request.topic], fromBeginning: true });
    return await new Promise((resolve, reject) => {
      consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error));
      const eachMessage = async ({ message: one }) => one.offset === baseOffset && resolve(one.value.toString());
      consumer.run({ autoCommit: false, eachMessage }).catch(reject);
      setTimeout(() => reject(new Error("nothing read")), 60000).unref();
    });
  } finally {
    await consumer.disconnect();
    await producer.disconnect();
  }
}

async function answer(request) {
  const reply = { id: request.id };
  try {
    if (request.op !== "exchange") await (connected ??= admin.connect());
    reply.ok = (await operations[request.op](request)) ?? null;
  } catch (error) {
    reply.error = `${error.name}: ${error.message}`;
  }
  process.stdout.write(JSON.stringify(reply) + "\n");
}

ZstdCodec.run((zstd) => {
  plugCodecs(zstd);
  const lines = readline.createInterface({ input: process.stdin });
  lines.on("line", (line) => answer(JSON.parse(line)));
  lines.on("close", () => process.exit(0));
});
