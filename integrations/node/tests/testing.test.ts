import assert from "node:assert/strict";
import { test } from "node:test";
import { type Job, Queue, Reject, Worker } from "dehydrator-queue";
import { MemoryServer } from "dehydrator-queue/testing";
import { Notes } from "./harness.js";
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
    dead.map(({ id, attempts, reason }) => [id, attempts, reason]),
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
  assert.deepEqual(await jobs.putMany(["a", "b", "c"].map((id, n) => ({ payload: id, id, delay: n }))), [
    "a",
    "b",
    "c",
  ]);
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
  await memory.call("DEHYDRATOR.LIMIT", "jobs", "REMEMBER", 300_000);
  memory.advance(9);
  await memory.drain(workerOf(jobs, () => {}));
  assert.equal(await jobs.put("b", { id: "b" }), null);
  memory.advance(300_000);
  assert.equal(await jobs.put("b", { id: "b" }), "b");
  await assert.rejects(jobs.update("z", "z"), /^Error: NOSUCHID/);
  await assert.rejects(memory.call("DEHYDRATOR.HELP"), /server in memory/);
});

test("groups take turns", async () => {
  const { memory, jobs } = given();
  const done: string[] = [];
  await memory.call("DEHYDRATOR.LIMIT", "jobs", "GROUP", "bert", "SHARE", 2);
  const four = (name: string) => [0, 1, 2, 3].map((n) => ({ payload: `${name}${n}`, delay: 1 }));
  await jobs.putMany(four("a"), { group: "anna" });
  await jobs.putMany(four("b"), { group: "bert" });
  await jobs.put("-", { delay: 1 });
  memory.advance(1);
  await memory.drain(workerOf(jobs, (job) => done.push(job.payload)));
  assert.deepEqual(done, ["a0", "b0", "b1", "-", "a1", "b2", "b3", "a2", "a3"]);
});

test("groups have limits and pauses", async () => {
  const { memory, jobs } = given();
  const done: string[] = [];
  const worker = workerOf(jobs, (job) => done.push(job.payload));
  await memory.call("DEHYDRATOR.LIMIT", "jobs", "EACH", "LENGTH", 2, "HELD", 1);
  for (const group of ["anna", "bert"]) {
    await jobs.putMany(
      [0, 1, 2].map((n) => ({ payload: `${group}${n}`, id: `${group}${n}` })),
      { group },
    );
  }
  await jobs.pause(60_000, { group: "anna" });
  const take = ["DEHYDRATOR.POLL", "jobs", "COUNT", 9, "LEASE", 10_000, "TOKEN"];
  const [row, ...more] = (await memory.call(...take, "1")) as unknown[][];
  assert.deepEqual([String(row?.[0]), more], ["bert0", []]);
  assert.deepEqual(await memory.call(...take, "2"), []);
  memory.advance(10_000);
  await memory.drain(worker);
  assert.deepEqual(done, ["bert0", "bert1"]);
  // They are due.
  assert.equal(await jobs.postponeAll({ group: "anna" }, 0), 0);
  memory.advance(50_000);
  await memory.drain(worker);
  assert.deepEqual(done, ["bert0", "bert1", "anna0", "anna1"]);
  await jobs.put("later", { id: "later", delay: 5 });
  assert.deepEqual([await jobs.cancelAll({ group: "anna" }), await jobs.cancelAll({ prefix: "l" })], [0, 1]);
});

test("groups have rates", async () => {
  const { memory, jobs } = given();
  const done: string[] = [];
  const worker = workerOf(jobs, (job) => done.push(job.payload));
  const limit = ["DEHYDRATOR.LIMIT", "jobs"];
  await memory.call(...limit, "EACH", "RATE", 2, "PER", 1000);
  await memory.call(...limit, "GROUP", "bert", "HELD", 5, "RATE", 1, "PER", 500);
  for (const group of ["anna", "bert", ""]) {
    await jobs.putMany(
      [0, 1, 2].map((n) => ({ payload: `${group}${n}` })),
      { group },
    );
  }
  await memory.drain(worker);
  assert.deepEqual(done, ["anna0", "bert0", "0", "anna1", "1", "2"]);
  assert.equal(await memory.call("DEHYDRATOR.TTN", "jobs"), 500);
  memory.advance(500);
  await memory.drain(worker);
  assert.deepEqual(done.slice(6), ["bert1"]);
  // What was given out counts under a limit that has changed, and after the last element has gone.
  await memory.call(...limit, "EACH", "RATE", 3, "PER", 1000);
  await memory.drain(worker);
  await jobs.put("anna3", { group: "anna" });
  await memory.drain(worker);
  assert.deepEqual(done.slice(7), ["anna2"]);
  memory.advance(500);
  await memory.drain(worker);
  assert.deepEqual(done.slice(8), ["bert2", "anna3"]);
  const asked = async (...words: string[]) => String(await memory.call("DEHYDRATOR.INFO", "jobs", ...words));
  const own = "share,1,length-limit,0,held-limit,5,rate-limit,1,rate-per,500";
  assert.ok((await asked("GROUP", "bert")).endsWith(own));
  assert.match(await asked(), /each-length-limit,0,each-held-limit,0,each-rate-limit,3,each-rate-per,1000,/);
  assert.match(await asked("GROUP", "anna"), /held-limit,0,rate-limit,3,rate-per,1000$/);
  // Without a rate of its own it has that of each.
  await memory.call(...limit, "GROUP", "bert", "RATE", 0);
  assert.match(await asked("GROUP", "bert"), /rate-limit,3,rate-per,1000$/);
});

test("MPOLL with nothing due changes no turns", async () => {
  const { memory } = given();
  const take = ["DEHYDRATOR.POLL", "jobs", "COUNT", 2, "LEASE", 2, "TOKEN"];
  await memory.call("DEHYDRATOR.PUSH", "jobs", 0, "", "other 1");
  await memory.call("DEHYDRATOR.MPUSH", "jobs", 0, "", "anna 1", 0, "", "anna 2", "GROUP", "anna");
  await memory.call(...take, "1");
  await memory.call("DEHYDRATOR.LIMIT", "jobs", "EACH", "HELD", 1);
  assert.equal(await memory.call("DEHYDRATOR.MPOLL", 1, "jobs"), null);
  await memory.call("DEHYDRATOR.PUSH", "jobs", 0, "", "other 2");
  memory.advance(1000);
  const rows = (await memory.call(...take, "2")) as unknown[][];
  assert.deepEqual(
    rows.map(([id]) => String(id)),
    ["other 2", "anna 1"],
  );
});

test("schedules", async () => {
  const memory = new MemoryServer(new Date("2027-03-26T12:00:00Z"));
  const jobs = new Queue<string>(memory, "jobs");
  const done: string[] = [];
  const worker = workerOf(jobs, (job) => done.push(job.id));
  await jobs.every("report", "mail", { cron: "30 2 * * *", zone: "Europe/Berlin" });
  await jobs.every("hourly", "mail", { seconds: 3600, times: 3, missed: "all" });
  const id = (name: string, moment: string) => `${name}@${Date.parse(moment)}`;
  memory.advance(24 * 3_600_000);
  await memory.drain(worker);
  const hours = ["13", "14", "15"].map((hour) => id("hourly", `2027-03-26T${hour}:00Z`));
  assert.deepEqual(done, [...hours, id("report", "2027-03-27T01:30Z")]);
  // The clocks skip half past two.
  memory.advance(24 * 3_600_000);
  await memory.drain(worker);
  assert.deepEqual(done.slice(4), [id("report", "2027-03-28T01:00Z")]);
  const report = (await jobs.schedules.get("report"))!;
  assert.deepEqual([report.next, report.late], [new Date("2027-03-29T00:30Z"), 11 * 3_600_000]);
  assert.equal((await jobs.schedules.get("hourly"))?.ended, true);
  // Nobody looks at a time to come for longer than a month.
  await jobs.every("yearly", "mail", { cron: "0 0 1 1 *" });
  assert.equal(await memory.call("DEHYDRATOR.PTTL", jobs.schedules.key, "yearly"), 30 * 24 * 3_600_000);
  for (let month = 0; month < 10; month += 1) {
    memory.advance(30 * 24 * 3_600_000);
    await memory.drain(worker);
  }
  assert.equal(done.filter((one) => one === id("yearly", "2028-01-01T00:00Z")).length, 1);
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

test("a queue of several keys is drained", async () => {
  const memory = new MemoryServer();
  const [high, low] = ["high", "low"].map((name) => new Queue<number>(memory, name, { keys: 3 })) as [
    Queue<number>,
    Queue<number>,
  ];
  const done: string[] = [];
  for (const queue of [low, high]) {
    await queue.putMany(Array.from({ length: 20 }, (_, n) => ({ payload: n, id: `${queue.name}:${n}` })));
  }
  assert.equal((await high.setKeys(5)).length, 5);
  await high.put(20, { id: "later", delay: 60_000 });
  assert.equal(await high.put(20, { id: "high:7" }), null);
  assert.equal((await high.look("high:7"))?.payload, 7);
  const work = ({ id, payload }: Job<number>) => {
    done.push(id);
    if (payload === 7) throw new Reject("not this one");
  };
  const worker = new Worker([high, low], work, { hooks: new Notes() });
  await memory.drain(worker);
  assert.deepEqual([done.length, new Set(done).size], [40, 40]);
  assert.ok(done.slice(0, 20).every((id) => id.startsWith("high")));
  memory.advance(60_000);
  await memory.drain(worker);
  assert.deepEqual([done.slice(40), await high.size(), await low.size()], [["later"], 0, 0]);
  assert.deepEqual(
    (await high.deadLetters()).map(({ id, reason }) => [id, reason]),
    [["high:7", "not this one"]],
  );
  assert.equal(await high.revive(), 1);
  assert.equal(await high.forgetKeys(), 0);
});

test("a dead letter comes back into its group", async () => {
  const { memory, jobs } = given();
  const worker = workerOf(jobs, () => {
    throw new Reject("no");
  });
  await jobs.put("mail", { group: "anna" });
  await jobs.put("mail");
  await memory.drain(worker);
  assert.equal(await jobs.revive(), 2);
  const lengths = ["anna", ""].map(async (group) => (await jobs.info({ group })).length);
  assert.deepEqual(await Promise.all(lengths), [1, 1]);
});

test("a limit below what is held waits for as many leases as are too many", async () => {
  const { memory, jobs } = given();
  await jobs.putMany(["a", "b", "c", "d"].map((payload) => ({ payload })));
  for (const lease of [1000, 2000, 3000]) {
    await memory.call("DEHYDRATOR.POLL", "jobs", "COUNT", 1, "LEASE", lease, "TOKEN", lease);
  }
  await memory.call("DEHYDRATOR.LIMIT", "jobs", "HELD", 2);
  assert.equal(await memory.call("DEHYDRATOR.TTN", "jobs"), 2000);
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
  for (const name of [
    ...Object.keys(SHARES),
    "expired",
    "ERR",
    "EXISTS",
    "FULL",
    "NORULE",
    "NOSUCHID",
    "store 1",
    "store 0",
    "store -1",
  ]) {
    assert.ok(operations.counts.has(name), name);
  }
});
