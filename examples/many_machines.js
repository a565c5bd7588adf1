/*
 * A consumer of a queue that is spread over several keys of a cluster. Start it on any number of machines.
 *
 * On one connection per primary, it subscribes to `dehydrator.due`, and polls when there are jobs. Whatever happens to
 * the cluster (a primary dies, slots move, nodes join or leave), it repeats commands with the same token. A job begins only
 * when a replica has its lease, so that a failover does not deliver the job again within the lease.
 *
 *     node many_machines.js jobs 10.0.0.1:6379 10.0.0.2:6379
 *
 * Each node needs `notify-keyspace-events Ed`. The names of the keys are in `jobs:keys`: see many_keys.py.
 * docs/cluster.md explains the design.
 */

import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import calculateSlot from "cluster-key-slot";
import { Redis } from "ioredis";

const LEASE_MS = Number(process.env.LEASE_MS ?? 60_000); // for all jobs of a POLL together
const COUNT = Number(process.env.COUNT ?? 10);
const REPLICAS = 1; // replicas that must have a lease before its job begins; 0 also does jobs while there is none
const SWEEP_MS = Number(process.env.SWEEP_S ?? 60) * 1000; // the interval at which it polls without an event, as a safety net

const [queue, ...seeds] = process.argv.slice(2);
const DIRECTORY = `${queue}:keys`;
let slots = []; // the last known slots and their primaries
const keys = new Map();
let stopping = false;
let surveyNow = () => {};

function connect(node) {
  const [, host, port] = /^(.*):(\d+)$/.exec(node);
  // No automatic reconnection: events are lost while a connection is down, so we must notice that.
  const options = { retryStrategy: null, commandTimeout: 5000, connectTimeout: 5000 };
  const server = new Redis({ host, port: Number(port), ...options });
  server.on("error", () => {}); // the sender of a command gets the error
  return server;
}

function complain(who, error) {
  console.error(`${who}: ${error.message}`);
  surveyNow();
}

/** The work. It prints, for the tests, when it began and until when this consumer holds the lease. */
async function work(id, bytes, until) {
  const element = bytes.toString();
  console.log(`begin ${id} ${Date.now()} ${until}`);
  if (element.startsWith("long")) await sleep(300);
  if (element.startsWith("fail")) throw new RangeError(element);
}

/** Does the jobs of one key, over its own connection to the node that serves the key. */
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

  /** Sends commands in one pipeline, over one connection: WAIT covers the writes of its own connection. */
  async send(...commands) {
    const slot = calculateSlot(this.name);
    let asking = [];
    if (!this.node) this.go(slots.find(({ first, last }) => first <= slot && slot <= last)?.node ?? seeds[0]);
    for (let tries = 0; tries < 5; tries += 1) {
      const all = commands.flatMap((command) => [...asking, ["callBuffer", ...command]]);
      const replies = await this.server.pipeline(all).exec();
      const error = replies.find(([error]) => error)?.[0];
      if (!error) return replies.map(([, reply]) => reply).filter((_, at) => !asking.length || at % 2);
      // ASK: the slot is migrating, and each command needs ASKING.
      const [kind, , node] = error.message.split(" ");
      if (kind !== "MOVED" && kind !== "ASK") throw error;
      asking = kind === "ASK" ? [["call", "ASKING"]] : [];
      this.go(node);
    }
    throw new Error("sent from node to node");
  }

  /** Retries until there is a result: after broken connections, CLUSTERDOWN, READONLY, LOADING. */
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

  /** Sends a write. Returns the reply if enough replicas have the write, else undefined. */
  async confirmed(...command) {
    const [reply, replicas] = await this.send(command, ["WAIT", REPLICAS, 500]);
    return replicas >= REPLICAS ? reply : undefined;
  }

  /** Leases due jobs. If a reply is lost, the same token gets the same jobs again. */
  lease() {
    const token = randomUUID();
    return this.insist(async () => {
      const poll = ["DEHYDRATOR.POLL", this.name, "COUNT", COUNT, "LEASE", LEASE_MS, "TOKEN", token];
      const [jobs] = await this.send(poll);
      if (jobs.length === 0) return jobs;
      // RENEW is a write of this connection, even if an earlier, broken connection took the lease.
      const until = Date.now() + LEASE_MS;
      const renew = ["DEHYDRATOR.RENEW", this.name, LEASE_MS, ...jobs.flatMap(([id]) => [token, id])];
      const mine = await this.confirmed(...renew);
      const held = mine && jobs.filter((_, at) => mine[at]);
      return held && held.map(([id, element, deliveries]) => ({ id, element, deliveries, token, until }));
    });
  }

  async run() {
    while (!stopping) {
      // Poll until nothing is left, not once per event: while elements are due, there are no further events.
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
    if (Date.now() > until) return; // the jobs before it took too long, so another consumer may have it
    let command = ["DEHYDRATOR.SETTLE", this.name, token, id];
    try {
      if (stopping) command = ["DEHYDRATOR.RELEASE", this.name, 0, token, id]; // given back
      else await work(id, element, until);
    } catch {
      // Retried, later each time; after the last delivery, the server makes it a dead letter.
      command = ["DEHYDRATOR.RELEASE", this.name, 100 * 2 ** deliveries, token, id];
    }
    await this.insist(() => this.confirmed(...command), until);
  }
}

/** Receives the events of a primary, until the connection breaks or the node is no longer a primary. */
async function listen(node) {
  const events = connect(node);
  try {
    events.on("message", (_, key) => keys.get(key)?.due());
    await events.subscribe("__keyevent@0__:dehydrator.due");
    sweep(); // events are not stored: elements may have come due before the subscription
    while (!stopping && primaries().has(node)) {
      await sleep(1000, undefined, { ref: false });
      await events.ping(); // times out if the machine is gone but the connection was not closed
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

/** Reads the slots, and the names of the keys. */
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
    stopping = true; // jobs that have begun are finished
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
  // The event for a moved key may have come before; and waiting loops must stop.
  if (JSON.stringify(slots) !== before || stopping) sweep();
  await Promise.race([sleep(1000), new Promise((resolve) => (surveyNow = resolve))]);
  await sleep(200);
}
process.exit();
