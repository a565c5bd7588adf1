/*
 * A consumer of a queue that is spread over keys of a cluster: start it on as many machines as you like.
 *
 * On one connection to each primary it hears `dehydrator.due`, and asks for jobs when there are some. Whatever happens
 * to the cluster (a primary dies, slots move, nodes come and go), it asks again under the same token. A job begins when
 * a replica knows of its lease, so that a failover does not give it out again within the lease.
 *
 *     node many_machines.js jobs 10.0.0.1:6379 10.0.0.2:6379
 *
 * Each node needs `notify-keyspace-events Ed`. The names of the keys are in `jobs:keys`: see many_keys.py.
 * docs/cluster.md says why it is made so.
 */

import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import calculateSlot from "cluster-key-slot";
import { Redis } from "ioredis";

const LEASE_MS = Number(process.env.LEASE_MS ?? 60_000); // for all jobs of a POLL together
const COUNT = Number(process.env.COUNT ?? 10);
const REPLICAS = 1; // so many know of a lease before its job begins; with 0 jobs are done while there is none, too
const SWEEP_MS = Number(process.env.SWEEP_S ?? 60) * 1000; // a safety net: so often it asks without having heard

const [queue, ...seeds] = process.argv.slice(2);
const DIRECTORY = `${queue}:keys`;
let slots = []; // who serves what, as the cluster said last
const keys = new Map();
let stopping = false;
let surveyNow = () => {};

function connect(node) {
  const [, host, port] = /^(.*):(\d+)$/.exec(node);
  // It is not to connect again by itself: what was said while the connection was down is missed, so we must know.
  const options = { retryStrategy: null, commandTimeout: 5000, connectTimeout: 5000 };
  const server = new Redis({ host, port: Number(port), ...options });
  server.on("error", () => {}); // whoever sent a command is told
  return server;
}

function complain(who, error) {
  console.error(`${who}: ${error.message}`);
  surveyNow();
}

/** The work. What it prints is for the tests: when it began, and until when the job is this consumer's. */
async function work(id, bytes, until) {
  const element = bytes.toString();
  console.log(`begin ${id} ${Date.now()} ${until}`);
  if (element.startsWith("long")) await sleep(300);
  if (element.startsWith("fail")) throw new RangeError(element);
}

/** Does the jobs of one key, over a connection of its own to whoever serves it. */
class Key {
  constructor(name) {
    this.name = name;
    this.isDue = true;
    this.wake = () => {};
  }

  due() {
    this.isDue = true;
    this.wake();
  }

  go(node) {
    if (node === this.node) return;
    this.server?.disconnect();
    this.node = node;
    this.server = node && connect(node);
  }

  /** Sends commands in one go, over one connection: WAIT is about the writes of its own connection. */
  async send(...commands) {
    const slot = calculateSlot(this.name);
    let asking = [];
    if (!this.node) this.go(slots.find(({ first, last }) => first <= slot && slot <= last)?.node ?? seeds[0]);
    for (let tries = 0; tries < 5; tries += 1) {
      const all = commands.flatMap((command) => [...asking, ["callBuffer", ...command]]);
      const replies = await this.server.pipeline(all).exec();
      const error = replies.find(([error]) => error)?.[0];
      if (!error) return replies.map(([, reply]) => reply).filter((_, at) => !asking.length || at % 2);
      // ASK: the slot is on its way, and each command is to say so.
      const [kind, , node] = error.message.split(" ");
      if (kind !== "MOVED" && kind !== "ASK") throw error;
      asking = kind === "ASK" ? [["call", "ASKING"]] : [];
      this.go(node);
    }
    throw new Error("sent from node to node");
  }

  /** Tries until something comes of it: a connection breaks, there is CLUSTERDOWN, READONLY, LOADING. */
  async insist(attempt, until = Infinity) {
    while (Date.now() < until && !(stopping && until === Infinity)) {
      try {
        const result = await attempt();
        if (result) return result;
      } catch (error) {
        this.go(undefined);
        complain(this.name, error);
      }
      await sleep(50 + Math.random() * 150);
    }
    return [];
  }

  /** The reply to a write, if replicas have it. */
  async confirmed(...command) {
    const [reply, replicas] = await this.send(command, ["WAIT", REPLICAS, 500]);
    return replicas >= REPLICAS ? reply : undefined;
  }

  /** Jobs that are due. If a reply is lost, the same jobs come again under the same token. */
  lease() {
    const token = randomUUID();
    return this.insist(async () => {
      const poll = ["DEHYDRATOR.POLL", this.name, "COUNT", COUNT, "LEASE", LEASE_MS, "TOKEN", token];
      const [jobs] = await this.send(poll);
      if (jobs.length === 0) return jobs;
      // RENEW is a write of this connection, also if the lease was one of a connection that broke.
      const until = Date.now() + LEASE_MS;
      const renew = ["DEHYDRATOR.RENEW", this.name, LEASE_MS, ...jobs.flatMap(([id]) => [token, id])];
      const mine = await this.confirmed(...renew);
      const held = mine && jobs.filter((_, at) => mine[at]);
      return held && held.map(([id, element, deliveries]) => ({ id, element, deliveries, token, until }));
    });
  }

  async run() {
    while (!stopping) {
      // Until nothing is left, and not one POLL for each event: while something is due there is no other event.
      for (let jobs = await this.lease(); jobs.length > 0; jobs = stopping ? [] : await this.lease()) {
        for (const job of jobs) await this.do(job);
      }
      if (!this.isDue && !stopping) {
        const timer = setTimeout(() => this.wake(), SWEEP_MS);
        await new Promise((resolve) => (this.wake = resolve));
        clearTimeout(timer);
      }
      this.isDue = false;
    }
    this.go(undefined);
  }

  async do({ id, element, deliveries, token, until }) {
    if (Date.now() > until) return; // the jobs before it took too long, and others may have it
    let command = ["DEHYDRATOR.SETTLE", this.name, token, id];
    try {
      if (stopping) command = ["DEHYDRATOR.RELEASE", this.name, 0, token, id]; // given back
      else await work(id, element, until);
    } catch {
      // Tried again, later each time; after the last time the server makes it a dead letter.
      command = ["DEHYDRATOR.RELEASE", this.name, 100 * 2 ** deliveries, token, id];
    }
    await this.insist(() => this.confirmed(...command), until);
  }
}

/** Hears what is due on a primary, until the connection breaks, or it is a primary no more. */
async function listen(node) {
  const events = connect(node);
  try {
    events.on("message", (_, key) => keys.get(key)?.due());
    await events.subscribe("__keyevent@0__:dehydrator.due");
    sweep(); // nobody keeps events: what came due before has not been heard of
    while (!stopping && primaries().has(node)) {
      await sleep(1000, undefined, { ref: false });
      await events.ping(); // a machine that has gone without a word does not answer in time
    }
  } finally {
    events.disconnect();
  }
}

function sweep() {
  for (const key of keys.values()) key.due();
}

function primaries() {
  return new Set(slots.map(({ node }) => node));
}

/** Asks who serves what, and which keys there are. */
async function survey(directory) {
  for (const node of [...primaries(), ...seeds]) {
    const server = connect(node);
    try {
      const rows = await server.call("CLUSTER", "SLOTS");
      slots = rows.map(([first, last, [host, port]]) => ({ first, last, node: `${host}:${port}` }));
      slots.sort((one, other) => one.first - other.first);
      const [text] = await directory.send(["GET", DIRECTORY]);
      return JSON.parse(text ?? '{"lists": []}').lists.flat();
    } catch (error) {
      directory.go(undefined);
      console.error(`${node}: ${error.message}`);
    } finally {
      server.disconnect();
    }
  }
  return [];
}

for (const signal of ["SIGTERM", "SIGINT"]) {
  process.on(signal, () => {
    stopping = true; // what has begun is ended
    surveyNow();
  });
}
const [ears, directory] = [new Set(), new Key(DIRECTORY)];
let running = 0;
while (!stopping || running > 0) {
  const before = JSON.stringify(slots);
  for (const name of await survey(directory)) {
    if (!keys.has(name)) {
      keys.set(name, new Key(name));
      running += 1;
      keys.get(name).run().finally(() => (running -= 1));
    }
  }
  for (const node of primaries()) {
    if (!ears.has(node)) {
      ears.add(node);
      listen(node).catch((error) => complain(node, error)).finally(() => ears.delete(node));
    }
  }
  // A key that came with its slot was perhaps announced before; and who sleeps is to stop.
  if (JSON.stringify(slots) !== before || stopping) sweep();
  await Promise.race([sleep(1000), new Promise((resolve) => (surveyNow = resolve))]);
  await sleep(200);
}
process.exit();
