import assert from "node:assert/strict";
import { test } from "node:test";
import { type Job, NotFoundError, Queue, QueueFullError, Reject, Worker } from "dehydrator-queue";
import { MemoryServer } from "dehydrator-queue/testing";
import { failing, Notes } from "./harness.js";
import { Operations, SHARES } from "./operations.js";
import { RealServer, until } from "./servers.js";

function given(): { memory: MemoryServer; jobs: Queue<string> } {
  const memory = new MemoryServer();
  return { memory, jobs: new Queue<string>(memory, "jobs") };
}

function workerOf<T>(queues: Queue<T> | Queue<T>[], work: (job: Job<T>) => unknown): Worker<T> {
  return new Worker(queues, work, { hooks: new Notes(), backoff: { first: 10_000, jitter: 0 }, attempts: 3 });
}

test("a job is done when its time has come", async () => {
  const { memory, jobs } = given();
  const done: string[] = [];
  const worker = workerOf(jobs, (job) => done.push(job.payload));
  await jobs.put("mail", { delay: 60_000 });
  memory.advance(59_999);
  await memory.drain(worker);
  assert.deepEqual(done, []);
  memory.advance(1);
  await memory.drain(worker);
  assert.deepEqual(done, ["mail"]);
  assert.equal(await jobs.size(), 0);
});

test("what fails is tried again, and ends as a dead letter", async () => {
  const { memory, jobs } = given();
  const tried: number[] = [];
  const worker = workerOf(jobs, (job) => {
    tried.push(job.attempt);
    throw job.attempt === 3 ? new Reject("no answer") : new Error("no answer yet");
  });
  await jobs.put("mail", { id: "mail:17" });
  await memory.drain(worker);
  assert.deepEqual((await jobs.look("mail:17"))?.due, new Date(memory.now.getTime() + 10_000));
  memory.advance(10_000);
  await memory.drain(worker);
  memory.advance(20_000);
  await memory.drain(worker);
  assert.deepEqual(tried, [1, 2, 3]);
  const dead = await jobs.deadLetters();
  assert.deepEqual(
    dead.map(({ id, attempt, reason }) => [id, attempt, reason]),
    [["mail:17", 3, "no answer"]],
  );
  assert.equal(await jobs.revive(), 1);
  await memory.drain(workerOf(jobs, (job) => tried.push(job.attempt)));
  assert.deepEqual(tried, [1, 2, 3, 1]);
});

test("a lease expires", async () => {
  const { memory, jobs } = given();
  await jobs.put("mail", { id: "mail:17" });
  const take = ["DEHYDRATOR.POLL", "jobs", "LEASE", 30_000, "TOKEN"];
  const row = [Buffer.from("mail:17"), Buffer.from('"mail"'), 1, Buffer.from("anna")];
  assert.deepEqual(await memory.call(...take, "anna"), [row]);
  memory.advance(29_999);
  assert.deepEqual(await memory.call(...take, "bert"), []);
  memory.advance(1);
  const done: number[] = [];
  await memory.drain(workerOf(jobs, (job) => done.push(job.attempt)));
  assert.deepEqual(done, [2]);
  assert.deepEqual(await memory.call("DEHYDRATOR.SETTLE", "jobs", "anna", "mail:17"), [0]);
});

test("a rejected element is not called expired", async () => {
  const { memory } = given();
  await memory.call("DEHYDRATOR.ONDUE", "jobs", "HOLD", "DELIVERIES", 9, "STREAM", "jobs:dead");
  await memory.call("DEHYDRATOR.PUSH", "jobs", 0, "mail", "mail:17", "WITHIN", 10);
  await memory.call("DEHYDRATOR.POLL", "jobs", "LEASE", 10, "TOKEN", "anna");
  // It is too late, and the pause keeps it there.
  await memory.call("DEHYDRATOR.PAUSE", "jobs");
  memory.advance(1000);
  assert.deepEqual(await memory.call("DEHYDRATOR.REJECT", "jobs", "anna", "mail:17"), [1]);
  const [[, fields]] = (await memory.call("XRANGE", "jobs:dead", "-", "+")) as [[unknown, unknown[]]];
  assert.ok(!fields.map(String).includes("reason"));
});

test("the names are those of the queue", async () => {
  const { memory, jobs } = given();
  const ids = ["a", "b", "c"];
  assert.deepEqual(
    await jobs.putMany(ids.map((id, n) => ({ payload: id, id, delay: n }))),
    ids.map((id) => ({ id, outcome: "stored" })),
  );
  assert.equal(await jobs.put("a", { id: "a" }), null);
  assert.equal(await jobs.put("a again", { id: "a", delay: 5, replace: true }), "a");
  assert.equal(await jobs.postpone("b", 9), true);
  await jobs.update("c", "c again");
  const all: string[] = [];
  for await (const waiting of jobs) all.push(waiting.payload);
  assert.deepEqual(all, ["c again", "a again", "b"]);
  assert.equal(await jobs.cancel("a", "z"), 1);
  await jobs.pause(60_000);
  assert.equal((await jobs.info()).paused, 1);
  assert.equal(await jobs.resume(), true);
  await jobs.check();
  await jobs.limit({ remember: 300_000 });
  memory.advance(9);
  await memory.drain(workerOf(jobs, () => {}));
  assert.equal(await jobs.put("b", { id: "b" }), null);
  memory.advance(300_000);
  assert.equal(await jobs.put("b", { id: "b" }), "b");
  await assert.rejects(jobs.update("z", "z"), NotFoundError);
  await assert.rejects(memory.call("DEHYDRATOR.HELP"), /server in memory/);
});

test("a queue has limits, of which the length is obeyed, and groups have pauses", async () => {
  const { memory, jobs } = given();
  const done: string[] = [];
  const worker = workerOf(jobs, (job) => done.push(job.payload));
  await jobs.limit({ length: 3, held: 2, rate: [10, 1000], eachHeld: 1 });
  await jobs.limit({ group: "anna", share: 4, rate: [1, 500] });
  const none = { remember: null, eachLength: null, eachRate: null };
  assert.deepEqual(await jobs.limits(), { length: 3, held: 2, rate: [10, 1000], eachHeld: 1, ...none });
  assert.deepEqual(await jobs.limits({ group: "anna" }), { length: null, held: 1, rate: [1, 500], share: 4 });
  for (const group of ["anna", "bert"]) await jobs.put(group, { id: group, group });
  const [stored, full] = await jobs.putMany([{ payload: "-" }, { payload: "full" }]);
  assert.deepEqual([stored?.outcome, full?.outcome], ["stored", "full"]);
  await assert.rejects(jobs.put("full"), QueueFullError);
  await jobs.pause(60_000, { group: "anna" });
  await memory.drain(worker);
  assert.deepEqual(done, ["bert", "-"]);
  // It is due.
  assert.equal(await jobs.postponeAll({ group: "anna" }, 0), 0);
  memory.advance(60_000);
  await memory.drain(worker);
  assert.deepEqual(done, ["bert", "-", "anna"]);
  await jobs.put("later", { id: "later", delay: 5, group: "bert" });
  assert.deepEqual([await jobs.cancelAll({ group: "anna" }), await jobs.cancelAll({ prefix: "l" })], [0, 1]);
});

test("schedules", async () => {
  const { memory, jobs } = given();
  const { schedules } = jobs;
  const [done, begin] = [[] as string[], Number(memory.now)];
  const worker = workerOf(jobs, (job) => done.push(job.id));
  assert.equal(await jobs.every("hourly", "mail", { interval: 3_600_000, times: 3 }), true);
  assert.equal(await jobs.every("hourly", "mail", { interval: 3_600_000, times: 3 }), false);
  memory.advance(3_600_000);
  await memory.drain(worker);
  memory.advance(24 * 3_600_000);
  await memory.drain(worker);
  const hours = [1, 2, 3].map((hour) => `hourly@${begin + hour * 3_600_000}`);
  assert.deepEqual(done, hours);
  const { next, stored } = (await schedules.get("hourly"))!;
  assert.deepEqual([next, stored], [null, 3]);
  await jobs.every("slow", "mail", { interval: 1000, overlap: "skip" });
  memory.advance(3000);
  const slow = (await schedules.get("slow"))!;
  assert.deepEqual([slow.stored, slow.misses], [1, 2]);
  assert.equal(await schedules.pause("slow"), true);
  memory.advance(3000);
  assert.equal(await jobs.size(), 1);
  assert.deepEqual([await schedules.resume("slow"), await schedules.resume("slow")], [true, false]);
  assert.equal(await schedules.remove("slow"), true);
  // The server knows the calendar: here a cron waits to be run.
  await jobs.every("report", "mail", { cron: "0 9 * * 1-5", zone: "Europe/Berlin" });
  memory.advance(7 * 24 * 3_600_000);
  assert.equal(await jobs.size(), 1);
  assert.match((await schedules.run("report"))!, /^report@/);
  assert.equal(await schedules.run("none"), null);
  assert.equal(await jobs.size(), 2);
  await assert.rejects(jobs.every("x", "mail", { cron: "9 o'clock" }), /neither a number/);
});

test("the replies about schedules are those of the server", async (t) => {
  const server = await RealServer.still(Operations.BEGIN);
  t.after(() => server.close());
  const memory = new MemoryServer(Operations.BEGIN);
  const read = async (of: (...words: (string | number)[]) => Promise<unknown>) => {
    const told: unknown[] = [];
    const own = ["DELIVERIES", 3, "WITHIN", 500, "GROUP", "anna"];
    const until = ["FROM", Operations.BEGIN + 9000, "UNTIL", Operations.BEGIN + 99_000, "TIMES", 7];
    for (const words of [
      ["EVERY", "k", 1000, "x", "tick"],
      ["EVERY", "k", 1000, "x", "tick"],
      ["EVERY", "k", 5000, "x", "all", ...own, ...until, "MISSED", "ALL", "OVERLAP", "SKIP"],
      ["SCHEDULES", "k"],
      ["SCHEDULES", "k", "all", "none"],
      ["SCHEDULES", "none"],
      ["PAUSE", "k", "SCHEDULE", "none"],
      ["PAUSE", "k", "SCHEDULE", "tick"],
      ["EVERY", "k", 1000, "y", "tick"],
      ["SCHEDULES", "k", "tick"],
      ["RESUME", "k", "SCHEDULE", "tick"],
      ["RESUME", "k", "SCHEDULE", "tick"],
      ["RESUME", "none", "SCHEDULE", "tick"],
      ["EVERY", "k", 0, "x", "none"],
      ["EVERY", "k", 1000, "x", "none", "UNTIL", 5],
      ["UNSCHEDULE", "k", "tick", "none", "all"],
    ]) {
      const [name, ...rest] = words as [string, ...(string | number)[]];
      told.push(await of(`DEHYDRATOR.${name}`, ...rest).catch((error) => /^\w+/.exec(error.message)?.[0]));
    }
    return told;
  };
  const real = await read((name, ...words) => server.client.callBuffer(String(name), ...(words as string[])));
  assert.deepEqual(await read((...words) => memory.call(...words)), real);
});

test("a worker that runs meanwhile is woken, and stops", async () => {
  const memory = new MemoryServer(new Date("2030-01-01T00:00:00Z"));
  const [high, low] = ["high", "low"].map((name) => new Queue<string>(memory, name));
  const done: string[] = [];
  const worker = new Worker([high!, low!], (job) => done.push(job.payload), { block: 60_000, hooks: new Notes() });
  const ended = worker.run({ signals: false });
  await low!.put("later", { at: new Date("2030-01-01T01:00:00Z") });
  await high!.put("now");
  await until(() => done.length === 1);
  memory.advance(3_600_000);
  await until(() => done.length === 2);
  assert.deepEqual(done, ["now", "later"]);
  worker.stop(0);
  await ended;
});

test("a queue of several keys is one here", async () => {
  const memory = new MemoryServer();
  const jobs = new Queue<number>(memory, "jobs", { keys: "auto" });
  const done: number[] = [];
  await jobs.put(1);
  await memory.drain(workerOf(jobs, ({ payload }) => done.push(payload)));
  assert.deepEqual(done, [1]);
});

test("a dead letter comes back into its group", async () => {
  const { memory, jobs } = given();
  const worker = workerOf(jobs, failing(new Reject("no")));
  await jobs.put("mail", { group: "anna" });
  await jobs.put("mail");
  await memory.drain(worker);
  assert.equal(await jobs.revive(), 2);
  const lengths = ["anna", ""].map(async (group) => (await jobs.info({ group })).length);
  assert.deepEqual(await Promise.all(lengths), [1, 1]);
});

test("the replies of random operations are those of the server", async () => {
  // A million were compared by hand: DEHYDRATOR_OPERATIONS=1000000.
  const count = Number(process.env.DEHYDRATOR_OPERATIONS ?? 10_000);
  const seed = Number(process.env.DEHYDRATOR_SEED ?? Math.floor(Math.random() * 2 ** 32));
  const operations = new Operations(await RealServer.still(Operations.BEGIN), seed);
  try {
    await operations.run(count);
  } catch (error) {
    throw new Error(`DEHYDRATOR_SEED=${seed}`, { cause: error });
  }
  console.log(`DEHYDRATOR_SEED=${seed}`, Object.fromEntries(operations.counts));
  if (count < 10_000) return;
  for (const name of [...Object.keys(SHARES), "expired", "EXISTS", "FULL", "NORULE", "NOSUCHID"]) {
    assert.ok(operations.counts.has(name), name);
  }
});
