// What users of other job systems ran into.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { before, type TestContext, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { type Job, type Queue, Retry, Worker, type WorkerOptions } from "dehydrator-queue";
import { internals } from "../src/queue.js";
import { Notes, partsOf, queueOf, running, withEach } from "./harness.js";
import { CuttingProxy } from "./proxy.js";
import { RealServer, until } from "./servers.js";

const DAY = 86_400_000;
const quick = process.env.DEHYDRATOR_QUICK !== undefined;

let server: RealServer;
before(async () => {
  server = await RealServer.start();
});

/** Returns how often a command was called. */
async function callsOf(server: RealServer, command: string): Promise<number> {
  const stats = await server.client.info("commandstats");
  return Number(new RegExp(`cmdstat_${command}:calls=(\\d+)`, "i").exec(stats)?.[1] ?? 0);
}

/** A worker whose one job runs until `end` is called. */
async function busy(t: TestContext, jobs: Queue, options: WorkerOptions = {}) {
  let end = () => {};
  const work = new Promise<void>((resolve) => {
    end = resolve;
  });
  // Before the worker is waited for.
  t.after(() => end());
  let hasBegun = false;
  const of = running(
    t,
    jobs,
    () => {
      hasBegun = true;
      return work;
    },
    options,
  );
  await jobs.put("x", { id: "a" });
  await until(() => hasBegun);
  return { ...of, end };
}

withEach("a slow line", (library) => {
  test("a reply that takes longer than the timeout, but comes, is waited for", { skip: quick }, async (t) => {
    const proxy = await CuttingProxy.start(server.port);
    t.after(() => proxy.close());
    const jobs = queueOf<string>(t, proxy.url, { library });
    await queueOf<string>(t, server.url, { name: jobs.name }).put("x".repeat(4_000_000));
    proxy.slow(400_000);
    const began = performance.now();
    const { notes } = running(t, jobs, ({ payload }) => assert.equal(payload.length, 4_000_000));
    await until(() => notes.heard.length > 0);
    assert.match(notes.heard.join(), /^succeeded [^,]*$/);
    assert.ok(performance.now() - began > 8000);
  });
});

test("many large payloads are several commands", async (t) => {
  const own = await RealServer.start();
  t.after(() => own.close());
  const jobs = queueOf<string>(t, own.url);
  const puts = await jobs.putMany(Array.from({ length: 10 }, (_, n) => ({ payload: "x".repeat(400_000), id: `${n}` })));
  assert.deepEqual(
    puts.map(({ id, outcome }) => `${id} ${outcome}`),
    Array.from({ length: 10 }, (_, n) => `${n} stored`),
  );
  assert.equal(await callsOf(own, "dehydrator.mpush"), 5);
});

test("a stop in thirty days interrupts nothing now, and a lease of eighty days is not renewed at once", async (t) => {
  const own = await RealServer.start();
  t.after(() => own.close());
  const { worker, ended, notes, end } = await busy(t, queueOf(t, own.url), { lease: 80 * DAY });
  worker.stop(30 * DAY);
  await sleep(300);
  assert.deepEqual([notes.heard, await callsOf(own, "dehydrator.renew")], [[], 0]);
  end();
  await ended;
  assert.deepEqual(notes.heard, ["succeeded a"]);
});

test("a back-off without a first delay is the usual one, and a delay that is no number fails the attempt", async (t) => {
  const jobs = queueOf(t, server.url);
  const worker = new Worker(jobs, () => {}, { backoff: { first: undefined } as never });
  assert.ok(worker);
  await jobs.put(1, { id: "a" });
  for (const delay of [Number.NaN, -1, 1e300]) assert.throws(() => new Retry(delay), RangeError);
  const { notes } = running(
    t,
    jobs,
    ({ attempt }) => {
      if (attempt === 1) throw new Retry(Number.NaN);
    },
    { backoff: { first: 1 } },
  );
  await until(() => notes.heard.length === 2);
  assert.match(notes.heard.join(), /^retried a RangeError: .* and not NaN,succeeded a$/);
});

test("a delay that the operator does not allow holds no job", async (t) => {
  const own = await RealServer.start();
  t.after(() => own.close());
  const jobs = queueOf(t, own.url);
  await own.client.config("SET", "dehydrator.max-ttl", "100000");
  await jobs.put(1, { id: "a" });
  const work = ({ attempt }: Job) => {
    if (attempt === 1) throw new Retry(200_000);
  };
  const { notes } = running(t, jobs, work, { backoff: { first: 10 } });
  await until(() => notes.heard.includes("succeeded a"));
});

test("a queue that is closed keeps its connection until its worker has ended", async (t) => {
  const jobs = queueOf(t, server.url);
  const other = queueOf(t, server.url, { name: jobs.name });
  const { worker, ended, notes, end } = await busy(t, jobs);
  jobs.close();
  await assert.rejects(jobs.put(1), /closed/);
  end();
  await until(() => notes.heard.length > 0);
  worker.stop();
  await ended;
  assert.deepEqual([notes.heard, await other.size()], [["succeeded a"], 0]);
  await assert.rejects(
    internals(jobs).keys.each((verbs) => verbs.size()),
    /closed/,
  );
  await assert.rejects(new Worker(jobs, () => {}).run(), /closed/);
});

test("a worker runs once at a time", async (t) => {
  const { worker, ended, end } = await busy(t, queueOf(t, server.url));
  await assert.rejects(worker.run(), /is running/);
  end();
  worker.stop();
  await ended;
  const again = worker.run({ signals: false });
  worker.stop();
  await again;
});

test("a queue of several keys is not taken for one key", async (t) => {
  const wide = queueOf<number>(t, server.url, { keys: 3 });
  const early = queueOf<number>(t, server.url, { name: wide.name });
  await wide.put(1);
  const one = queueOf<number>(t, server.url, { name: wide.name });
  for (const attempt of [
    () => one.put(1),
    () => one.putMany([{ payload: 1 }]),
    () => one.every("tick", 1, { interval: 9999 }),
    () => new Worker(one, () => {}, { hooks: new Notes() }).run({ signals: false }),
    () => early.put(1),
  ]) {
    await assert.rejects(attempt(), /has several keys: open the queue with `keys`/);
  }
  assert.equal(await server.client.exists(wide.name), 0);
  // What another program keeps there is no matter.
  const other = queueOf<number>(t, server.url);
  await server.client.lpush(`${other.name}:keys`, "x");
  assert.ok(await other.put(1));
  // Nor is what one may not read.
  await server.client.call("ACL", "SETUSER", "anna", "on", ">secret", "+@all", "-@read", "+dehydrator.push", "~*");
  const anna = queueOf<number>(t, server.url.replace("//", "//anna:secret@"));
  assert.ok(await anna.put(1));
});

test("a worker starts on a full server, and sets its policy when there is room", async (t) => {
  const own = await RealServer.start();
  t.after(() => own.close());
  const jobs = queueOf(t, own.url);
  await jobs.put(1, { id: "a" });
  await own.client.config("SET", "maxmemory", "1");
  const { notes } = running(t, jobs, () => {}, { lease: 300 });
  await until(() => notes.heard.includes("succeeded a"));
  assert.match(notes.heard[0]!, /^crashed QueueFullError: OOM/);
  await own.client.config("SET", "maxmemory", "0");
  await until(async () => ((await jobs.info()).policy as { deliveries: number }).deliveries === 5);
});

test("the second signal gives back what hangs, and the third ends the process", async (t) => {
  const own = await RealServer.start();
  t.after(() => own.close());
  const jobs = queueOf<string>(t, own.url);
  for (const signals of [2, 3]) {
    const lines = [
      'import { Queue, Worker } from "dehydrator-queue";',
      `const jobs = new Queue("${own.url}", "${jobs.name}");`,
      'const hang = () => { console.log("begun"); return new Promise(() => {}); };',
      "await new Worker(jobs, hang, { block: 100 }).run();",
      "jobs.close();",
    ];
    const words = ["--input-type=module", "--eval", lines.join("\n")];
    const child = spawn(process.execPath, words, { stdio: ["ignore", "pipe", "ignore"] });
    t.after(() => child.kill("SIGKILL"));
    await jobs.put("x", { id: `${signals}`, replace: true });
    await once(child.stdout, "data");
    const exit = once(child, "exit");
    // Then nothing can be given back, and the end of the process waits for that.
    if (signals === 3) await own.client.call("CLIENT", "PAUSE", 20_000, "ALL");
    for (let n = 0; n < signals; n += 1) {
      if (n > 0) await sleep(1000);
      child.kill("SIGINT");
      // Another one that a supervisor sends is the same.
      child.kill("SIGTERM");
    }
    const began = performance.now();
    const [code, signal] = await exit;
    assert.deepEqual([code, signal !== null], signals === 2 ? [0, false] : [null, true]);
    assert.ok(performance.now() - began < 4000);
    if (signals === 3) continue;
    const { leased, attempt } = (await jobs.look("2"))!;
    assert.deepEqual([leased, attempt], [false, 0]);
    await jobs.cancel("2");
  }
});

test("an element that nobody can decode hides no other", async (t) => {
  const jobs = queueOf<number>(t, server.url);
  await server.client.call("DEHYDRATOR.PUSH", jobs.name, 50_000, "{no", "bad");
  await jobs.put(17, { id: "good", delay: 60_000 });
  const seen: unknown[] = [];
  for await (const { id, payload, error, element } of jobs) seen.push([id, payload, error !== undefined, `${element}`]);
  assert.deepEqual(seen, [
    ["bad", undefined, true, "{no"],
    ["good", 17, false, "17"],
  ]);
  assert.ok((await jobs.look("bad"))?.error instanceof SyntaxError);
});

test("what is thrown may be anything", async (t) => {
  const jobs = queueOf<number>(t, server.url);
  const thrown = [null, undefined, { toString: () => assert.fail("of the error") }, "\ud800", "x".repeat(9000)];
  await jobs.putMany(thrown.map((_, n) => ({ payload: n, id: `${n}` })));
  running(
    t,
    jobs,
    ({ payload }) => {
      throw thrown[payload];
    },
    { attempts: 1, hooks: {}, logger: { debug() {}, info() {}, warn() {}, error() {} } },
  );
  await until(async () => (await jobs.size()) === 0);
  const reasons = (await jobs.deadLetters()).map(({ reason }) => reason);
  assert.deepEqual(reasons, ["null", "undefined", "what was thrown is no text: object", "\ufffd", "x".repeat(4096)]);
  const [part] = await partsOf(jobs);
  assert.equal(part?.verbs.key, jobs.name);
});
