import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Queue } from "dehydrator-queue";
import { queueOf, running, withEach } from "./harness.js";
import { RealServer, until } from "./servers.js";

const PROGRAM = new URL("./worker_program.js", import.meta.url).pathname;

class Program {
  readonly process: ChildProcess;

  constructor(...words: string[]) {
    this.process = spawn(process.execPath, [PROGRAM, ...words], { stdio: ["ignore", "ignore", "ignore"] });
  }

  async end(signal: NodeJS.Signals): Promise<number | NodeJS.Signals> {
    const { process } = this;
    if (process.exitCode === null && process.signalCode === null) {
      const ended = once(process, "exit");
      process.kill(signal);
      await ended;
    }
    return process.exitCode ?? process.signalCode!;
  }
}

async function doneOf(server: RealServer): Promise<{ id: string; attempt: number; at: number }[]> {
  const lines = await server.client.lrange("done", 0, -1);
  return lines.map((line) => {
    const [id = "", attempt, at] = line.split(" ");
    return { id, attempt: Number(attempt), at: Number(at) };
  });
}

withEach("when something is killed", (library) => {
  test("a worker: its jobs come again, once, and what it had not taken is another's", async (t) => {
    const server = await RealServer.start();
    t.after(() => server.close());
    const jobs = queueOf<{ ms: number; fail: number }>(t, server.url, { library });
    // Four jobs that the first worker has when it is killed, and six that wait.
    await jobs.putMany(
      Array.from({ length: 10 }, (_, n) => ({ payload: { ms: n < 4 ? 5000 : 0, fail: 0 }, id: `${n}` })),
    );
    const first = new Program(server.url, jobs.name, library);
    t.after(() => first.end("SIGKILL"));
    await until(async () => (await jobs.info()).leased === 4);
    assert.equal(await first.end("SIGKILL"), "SIGKILL");
    const second = new Program(server.url, jobs.name, library);
    t.after(() => second.end("SIGKILL"));
    await until(async () => (await jobs.size()) === 0);
    const done = await doneOf(server);
    assert.deepEqual(done.map(({ id }) => id).sort(), [..."0123456789"]);
    for (const { id, attempt } of done) assert.equal(attempt, Number(id) < 4 ? 2 : 1, `job ${id}`);
    assert.equal(await second.end("SIGTERM"), 0);
  });

  test("the server: what was put away and acknowledged is done, each once", async (t) => {
    const server = await RealServer.start();
    t.after(() => server.close());
    const jobs = queueOf<number>(t, server.url, { library });
    await jobs.putMany(Array.from({ length: 200 }, (_, n) => ({ payload: n, delay: n * 5 })));
    const done: number[] = [];
    const { notes } = running(t, jobs, ({ payload }) => done.push(payload), { concurrency: 10, lease: 30_000 });
    await until(() => done.length >= 20);
    await server.kill();
    await until(() => notes.heard.includes("interrupted"));
    await server.up();
    await until(async () => (await jobs.size()) === 0);
    assert.deepEqual(
      done.sort((a, b) => a - b),
      Array.from({ length: 200 }, (_, n) => n),
    );
  });

  test("workers at random, and the server", { skip: process.env.DEHYDRATOR_QUICK !== undefined }, async (t) => {
    const server = await RealServer.start();
    t.after(() => server.close());
    const jobs = queueOf<{ ms: number; fail: number }>(t, server.url, { library, patience: 30_000 });
    const began = Date.now();
    await jobs.putMany(
      Array.from({ length: 400 }, (_, n) => ({
        payload: { ms: 20, fail: n % 10 === 0 ? 1 : 0 },
        id: `${n}`,
        delay: n * 20,
      })),
    );
    const start = () => new Program(server.url, jobs.name, library);
    const workers = [start(), start(), start(), start()];
    let killed = 0;
    try {
      while ((await jobs.size()) > 0) {
        await sleep(200 + Math.random() * 600);
        if (Math.random() < 0.1) {
          await server.restart();
          continue;
        }
        const at = Math.floor(Math.random() * workers.length);
        await workers[at]!.end("SIGKILL");
        workers[at] = start();
        killed += 1;
      }
    } finally {
      const codes = await Promise.all(workers.map((worker) => worker.end("SIGTERM")));
      // One that is asked before it has begun to listen ends by the signal.
      for (const code of codes) assert.ok(code === 0 || code === "SIGTERM", `a worker ended with ${code}`);
    }
    const done = await doneOf(server);
    const ids = new Set(done.map(({ id }) => id));
    assert.equal(ids.size, 400);
    // Only jobs of a killed worker may be done twice: at most four per kill. The same for each restart.
    t.diagnostic(`${done.length - 400} twice, ${killed} killed`);
    assert.ok(done.length - 400 <= 4 * killed + 16, `${done.length - 400} twice, ${killed} killed`);
    for (const { id, at } of done) assert.ok(at >= began + Number(id) * 20, `${id} was early`);
    assert.deepEqual(await jobs.deadLetters(), []);
  });

  test("nothing, but the connections of everybody", async (t) => {
    const server = await RealServer.start();
    t.after(() => server.close());
    const jobs = queueOf<number>(t, server.url, { library });
    await jobs.putMany(Array.from({ length: 300 }, (_, n) => ({ payload: n, delay: n * 3 })));
    const done: number[] = [];
    running(t, jobs, ({ payload }) => done.push(payload), { concurrency: 10, lease: 30_000 });
    for (let cut = 0; cut < 5; cut += 1) {
      await until(() => done.length > cut * 50);
      await server.client.call("CLIENT", "KILL", "TYPE", "NORMAL", "SKIPME", "YES");
    }
    await until(async () => (await jobs.size()) === 0);
    assert.deepEqual([done.length, new Set(done).size], [300, 300]);
  });
});

test("a worker as a program ends while the server is away", async (t) => {
  const server = await RealServer.start();
  t.after(() => server.close());
  const program = new Program(server.url, "jobs", "ioredis");
  t.after(() => program.end("SIGKILL"));
  const jobs = new Queue(server.url, "jobs");
  await jobs.put({ ms: 0, fail: 0 });
  await until(async () => (await jobs.size()) === 0);
  jobs.close();
  await server.kill();
  assert.equal(await program.end("SIGTERM"), 0);
});
