// Real servers with the module, and the real program.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { Redis } from "ioredis";
import { until } from "./until.js";

const { DEHYDRATOR_SERVER = "redis-server", DEHYDRATOR_MODULE, DEHYDRATOR_TOP } = process.env;

/** The slots of a cluster. */
const SLOTS = 16_384;

const running = new Set();

async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  return port;
}

/** A server on a port of its own, whose data is gone at the end. */
export class Server {
  static async start(...options) {
    const server = new Server();
    server.port = await freePort();
    server.name = `127.0.0.1:${server.port}`;
    server.folder = mkdtempSync(join(tmpdir(), "dehydrator-top-"));
    server.options = options;
    await server.restart();
    server.redis = new Redis({
      port: server.port,
      host: "127.0.0.1",
      retryStrategy: () => 100,
      maxRetriesPerRequest: null,
    });
    server.redis.on("error", () => {});
    return server;
  }

  async restart() {
    const words = ["--port", String(this.port), "--dir", this.folder, "--save", "", "--bind", "127.0.0.1"];
    this.process = spawn(DEHYDRATOR_SERVER, [...words, "--loadmodule", DEHYDRATOR_MODULE, ...this.options], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    running.add(this.process);
    const lines = createInterface({ input: this.process.stdout });
    for await (const line of lines) if (line.includes("Ready to accept")) break;
    this.process.stdout.resume();
  }

  async kill() {
    const ended = once(this.process, "exit");
    this.process.kill("SIGKILL");
    await ended;
    running.delete(this.process);
  }

  async stop() {
    this.redis.disconnect();
    await this.kill();
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** Sends a command. Replies are text. */
  call(...words) {
    return this.redis.call(...words.map((word) => (Buffer.isBuffer(word) ? word : String(word))));
  }

  /** Sends a command. Replies are bytes. */
  callBuffer(...words) {
    return this.redis.callBuffer(...words.map((word) => (Buffer.isBuffer(word) ? word : String(word))));
  }

  push(key, ttl, element, id, ...options) {
    return this.call("DEHYDRATOR.PUSH", key, ttl, element, id, ...options);
  }

  /** Stores many elements, with ids `<prefix><n>`; `ttl(n)` and `element(n)` say what. */
  async fill(key, number, { prefix = "job:", ttl = () => 3_600_000, element = (n) => `work ${n}` } = {}) {
    for (let first = 0; first < number; first += 1000) {
      const words = [];
      for (let n = first; n < Math.min(number, first + 1000); n += 1) words.push(ttl(n), element(n), `${prefix}${n}`);
      await this.call("DEHYDRATOR.MPUSH", key, ...words);
    }
  }

  /** Leases due elements. */
  poll(key, count, token, lease = 600_000) {
    return this.call("DEHYDRATOR.POLL", key, "COUNT", count, "LEASE", lease, "TOKEN", token);
  }

  len(key) {
    return this.call("DEHYDRATOR.LEN", key);
  }

  pttl(key, id) {
    return this.call("DEHYDRATOR.PTTL", key, id);
  }

  /** Returns INFO of a queue as an object. */
  async info(key) {
    const facts = pairs(await this.call("DEHYDRATOR.INFO", key));
    return { ...facts, policy: pairs(facts.policy) };
  }

  /** Returns all rows of RANGE, in order. */
  async range(key, ...options) {
    const rows = [];
    let start = "-";
    while (start !== null) {
      const [next, some] = await this.call("DEHYDRATOR.RANGE", key, start, "+", "COUNT", 1000, ...options);
      rows.push(...some);
      start = next;
    }
    return rows;
  }
}

function pairs(reply) {
  const found = {};
  for (let i = 0; i < reply.length; i += 2) found[reply[i]] = reply[i + 1];
  return found;
}

/** Starts a cluster of primaries, which share the slots evenly. */
export async function startCluster(size) {
  const busPorts = [];
  for (let n = 0; n < size; n += 1) busPorts.push(await freePort());
  const start = (port) => Server.start("--cluster-enabled", "yes", "--cluster-port", String(port));
  const nodes = await Promise.all(busPorts.map(start));
  for (const [n, node] of nodes.entries()) {
    const [first, end] = [n, n + 1].map((share) => Math.floor((SLOTS * share) / size));
    await node.call("CLUSTER", "ADDSLOTSRANGE", first, end - 1);
    if (n > 0) await nodes[0].call("CLUSTER", "MEET", "127.0.0.1", node.port, busPorts[n]);
  }
  for (const node of nodes)
    await until(async () => (await node.call("CLUSTER", "INFO")).includes("cluster_state:ok"), "the cluster is one");
  return nodes;
}

/** The program that serves the page. */
export class Top {
  static async start(...words) {
    const top = new Top();
    const child = spawn(DEHYDRATOR_TOP, ["--web", "127.0.0.1:0", ...words], { stdio: ["ignore", "pipe", "inherit"] });
    top.process = child;
    running.add(child);
    for await (const line of createInterface({ input: child.stdout })) {
      const found = /http:\/\/\S+/.exec(line);
      if (!found) continue;
      top.url = found[0];
      break;
    }
    if (!top.url) throw new Error("dehydrator-top did not start");
    child.stdout.resume();
    return top;
  }

  async stop() {
    const ended = once(this.process, "exit");
    this.process.kill("SIGTERM");
    await ended;
    running.delete(this.process);
  }

  /** Waits until the program knows the server. */
  async ready(cookie) {
    await until(async () => {
      const reply = await fetch(`${this.url}api/overview`, { headers: cookie ? { cookie } : {} });
      const { nodes } = await reply.json();
      return nodes?.length > 0 && nodes.every((node) => node.server && !node.walking);
    }, "dehydrator-top knows its servers");
  }
}

// A test that fails leaves nothing behind.
process.on("exit", () => {
  for (const child of running) child.kill("SIGKILL");
});
