import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Queue } from "dehydrator-queue";
import { queueOf, running, withEach } from "./harness.js";
import { CuttingProxy } from "./proxy.js";
import { RealServer, until } from "./servers.js";

const PROGRAM = new URL("./worker_program.js", import.meta.url).pathname;

/** For how many seconds jobs come due in a campaign. */
const SECONDS = Number(process.env.DEHYDRATOR_CAMPAIGN_SECONDS ?? 10);

interface Note {
  what: string;
  id: string;
  attempt: number;
  at: number;
  pid: number;
}

/** Workers as programs, and what they have noted. */
class Programs {
  readonly #folder = mkdtempSync(join(tmpdir(), "dehydrator-notes-"));
  readonly #file = join(this.#folder, "notes");
  readonly #all: ChildProcess[] = [];
  /** When programs were killed. */
  readonly killed = new Map<number, number>();

  constructor(
    t: TestContext,
    private readonly words: readonly string[],
  ) {
    t.after(async () => {
      for (const one of this.#all) await this.end(one, "SIGKILL");
      rmSync(this.#folder, { recursive: true });
    });
  }

  start(): ChildProcess {
    const program = spawn(process.execPath, [PROGRAM, ...this.words, this.#file], { stdio: "ignore" });
    this.#all.push(program);
    return program;
  }

  async end(program: ChildProcess, signal: NodeJS.Signals): Promise<number | NodeJS.Signals> {
    if (program.exitCode === null && program.signalCode === null) {
      const ended = once(program, "exit");
      program.kill(signal);
      await ended;
      if (signal === "SIGKILL") this.killed.set(program.pid!, Date.now());
    }
    return program.exitCode ?? program.signalCode!;
  }

  notes(): Note[] {
    const lines = readFileSync(this.#file, "utf8").trim().split("\n");
    return lines.map((line) => {
      const [what = "", id = "", ...numbers] = line.split(" ");
      const [attempt = 0, at = 0, pid = 0] = numbers.map(Number);
      return { what, id, attempt, at, pid };
    });
  }

  done(): Note[] {
    return this.notes().filter(({ what }) => what === "done");
  }
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
    const programs = new Programs(t, [server.url, jobs.name, library]);
    const first = programs.start();
    await until(async () => (await jobs.info()).leased === 4);
    assert.equal(await programs.end(first, "SIGKILL"), "SIGKILL");
    const second = programs.start();
    await until(async () => (await jobs.size()) === 0);
    const done = programs.done();
    assert.deepEqual(done.map(({ id }) => id).sort(), [..."0123456789"]);
    for (const { id, attempt } of done) assert.equal(attempt, Number(id) < 4 ? 2 : 1, `job ${id}`);
    assert.equal(await programs.end(second, "SIGTERM"), 0);
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

  for (const { what, every, long, kill, reset } of [
    { what: "with short jobs", every: 20, long: 20, kill: 1000, reset: 0 },
    { what: "with jobs of ten seconds, and resets", every: 100, long: 10_000, kill: 8000, reset: 2000 },
  ]) {
    test(`workers at random, and the server, ${what}`, {
      skip: process.env.DEHYDRATOR_QUICK !== undefined,
    }, async (t) => {
      const server = await RealServer.start();
      const proxy = await CuttingProxy.start(server.port);
      t.after(() => server.close());
      t.after(() => proxy.close());
      const jobs = queueOf<{ ms: number; fail: number }>(t, server.url, { library, patience: 30_000 });
      const programs = new Programs(t, [proxy.url, jobs.name, library]);
      const began = Date.now();
      const count = Math.ceil((SECONDS * 1000) / every);
      const payloadOf = (n: number) => ({ ms: n % 10 === 1 ? long : 20, fail: n % 10 === 0 ? 1 : 0 });
      const items = Array.from({ length: count }, (_, n) => ({ payload: payloadOf(n), id: `${n}`, delay: n * every }));
      await jobs.putMany(items);
      const workers = Array.from({ length: 4 }, () => programs.start());
      let [resets, restarts] = [0, 0];
      const resetting = setInterval(() => {
        resets += reset === 0 ? 0 : proxy.reset();
      }, reset || 1000);
      try {
        while ((await jobs.size()) > 0) {
          await sleep(kill * (0.4 + Math.random() * 1.2));
          if (Math.random() < 0.1) {
            await server.restart();
            restarts += 1;
            continue;
          }
          const at = Math.floor(Math.random() * workers.length);
          await programs.end(workers[at]!, "SIGKILL");
          workers[at] = programs.start();
        }
      } finally {
        clearInterval(resetting);
        const codes = await Promise.all(workers.map((worker) => programs.end(worker, "SIGTERM")));
        // One that is asked before it has begun to listen ends by the signal.
        for (const code of codes) assert.ok(code === 0 || code === "SIGTERM", `a worker ended with ${code}`);
      }
      const notes = programs.notes();
      assert.equal(new Set(programs.done().map(({ id }) => id)).size, count);
      for (const { id, at } of notes) assert.ok(at >= began + Number(id) * every, `${id} was early`);
      // Only a job that has failed, or whose worker was killed in the meantime, begins again. What is done is settled within
      // the three seconds that a server needs to come back.
      const before = new Map<string, Note>();
      const again = notes.flatMap((one) => {
        const last = before.get(one.id);
        before.set(one.id, one);
        if (last === undefined || one.what !== "begun" || last.what === "failed") return [];
        const killed = programs.killed.get(last.pid) ?? Number.POSITIVE_INFINITY;
        return killed < one.at && (last.what !== "done" || killed < last.at + 3000) ? [] : [{ last, one, killed }];
      });
      const twice = programs.done().length - count;
      const told = `${count} jobs, ${programs.killed.size} kills, ${restarts} restarts, ${resets} resets, ${twice} twice`;
      t.diagnostic(told);
      assert.deepEqual(again, [], told);
      assert.deepEqual(await jobs.deadLetters(), []);
    });
  }

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
  const programs = new Programs(t, [server.url, "jobs", "ioredis"]);
  const program = programs.start();
  const jobs = new Queue(server.url, "jobs");
  await jobs.put({ ms: 0, fail: 0 });
  await until(async () => (await jobs.size()) === 0);
  jobs.close();
  await server.kill();
  assert.equal(await programs.end(program, "SIGTERM"), 0);
});
