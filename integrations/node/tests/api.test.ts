// What a queue and a worker offer beside jobs: limits, policies, time limits, errors, logs and dead letters.

import assert from "node:assert/strict";
import { once } from "node:events";
import { before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import {
  ConnectionError,
  DehydratorError,
  type Job,
  JobTimeoutError,
  type Logger,
  NotFoundError,
  QueueFullError,
  Reject,
  ReplyError,
  Retry,
  ScheduleError,
  TooLateError,
  Worker,
} from "dehydrator-queue";
import { buryAll, failing, LIBRARIES, queueOf, running, withEach } from "./harness.js";
import { RealServer, until } from "./servers.js";

let server: RealServer;
before(async () => {
  server = await RealServer.start();
});

/** A logger that keeps its lines. */
function loggerOf(): { logger: Logger; lines: string[] } {
  const lines: string[] = [];
  const say = (level: string) => (line: string) => lines.push(`${level} ${line}`);
  return { lines, logger: { debug: say("debug"), info: say("info"), warn: say("warn"), error: say("error") } };
}

withEach("an offer", (library) => {
  test("limits are set, read and removed, of a queue and of groups", async (t) => {
    const jobs = queueOf<number>(t, server.url, { library });
    const none = { length: null, held: null, rate: null };
    const noneOfAll = { ...none, remember: null, eachLength: null, eachHeld: null, eachRate: null };
    assert.deepEqual(await jobs.limits(), noneOfAll);
    await jobs.limit({ length: 100, held: 7, rate: [10, 1000], remember: 5000, eachHeld: 1, eachRate: [1, 500] });
    await jobs.limit({ group: "anna", share: 3, length: 50 });
    const all = {
      length: 100,
      held: 7,
      rate: [10, 1000],
      remember: 5000,
      eachLength: null,
      eachHeld: 1,
      eachRate: [1, 500],
    };
    assert.deepEqual(await jobs.limits(), all);
    assert.deepEqual(await jobs.limits({ group: "anna" }), { length: 50, held: 1, rate: [1, 500], share: 3 });
    await jobs.limit({ rate: null, held: null, remember: null });
    assert.deepEqual(await jobs.limits(), { ...all, rate: null, held: null, remember: null });
    assert.deepEqual([(await jobs.limits()).length, (await jobs.limits()).eachHeld], [100, 1]);
  });

  test("a time limit ends an attempt, whose place is free again", async (t) => {
    const jobs = queueOf<string>(t, server.url, { library });
    const reasons: unknown[] = [];
    const work = ({ id, attempt, signal }: Job<string>) => {
      if (id === "next" || attempt === 3) return undefined;
      signal.addEventListener("abort", () => reasons.push(signal.reason));
      return new Promise(() => {});
    };
    await jobs.put("x", { id: "own", timeout: 100, attempts: 5 });
    await jobs.put("x", { id: "usual" });
    await jobs.put("x", { id: "next" });
    const { notes } = running(t, jobs, work, { timeout: 200, attempts: 2, backoff: { first: 5 } });
    await until(async () => (await jobs.size()) === 0);
    const late = (ms: number) => `JobTimeoutError: the work took longer than ${ms} ms`;
    await until(() => notes.heard.length === 6);
    assert.deepEqual(notes.heard.sort(), [
      `buried usual: ${late(200)}`,
      ...Array(2).fill(`retried own ${late(100)}`),
      `retried usual ${late(200)}`,
      "succeeded next",
      "succeeded own",
    ]);
    assert.ok(reasons.length === 4 && reasons.every((reason) => reason instanceof JobTimeoutError));
    assert.match((await jobs.deadLetters())[0]!.reason, /^JobTimeoutError: /);
  });
});

test("a worker whose user may not subscribe does without", async (t) => {
  const jobs = queueOf<string>(t, server.url);
  // Redis 7.0 has no category for the commands of a module.
  const names = "every info look ondue poll push reject release renew settle".split(" ");
  const rights = ["-@all", ...names.map((name) => `+dehydrator.${name}`), "resetchannels", `~${jobs.name}*`];
  await server.client.call("ACL", "SETUSER", "worker", "on", ">secret", ...rights);
  const own = queueOf<string>(t, server.url.replace("//", "//worker:secret@"), { name: jobs.name });
  const work = ({ attempt, signal }: Job<string>) => {
    if (attempt === 1) throw new Error("no answer");
    return sleep(60_000, undefined, { signal });
  };
  const { notes } = running(t, own, work, { lease: 900, backoff: { first: 1 } });
  await jobs.put("x", { id: "a" });
  await until(async () => (await jobs.look("a"))?.attempt === 2);
  await jobs.cancel("a");
  await until(() => notes.heard.includes("lost a"));
  await jobs.put("x", { id: "b", attempts: 1 });
  await until(() => notes.heard.length === 3);
  assert.deepEqual(notes.heard, ["retried a Error: no answer", "lost a", "buried b: Error: no answer"]);
});

test("a worker changes no policy, and takes what it says", async (t) => {
  const jobs = queueOf<string>(t, server.url);
  const policyOf = async () => (await jobs.info()).policy as Record<string, unknown>;
  await jobs.setPolicy({ attempts: 2, keepDead: 7 });
  const fail = failing(new Error("no answer"));
  const backoff = { first: 1 };
  const first = running(t, jobs, fail, { backoff });
  await jobs.put("x", { id: "a" });
  await until(() => first.notes.heard.includes("buried a: Error: no answer"));
  assert.deepEqual(first.notes.heard.length, 2);
  // It takes what is raised meanwhile.
  await jobs.setPolicy({ attempts: 4 });
  await jobs.put("x", { id: "more" });
  await until(() => first.notes.heard.includes("buried more: Error: no answer"));
  assert.deepEqual(first.notes.heard.length, 2 + 4);
  await jobs.setPolicy({ attempts: 2, keepDead: 7 });
  first.worker.stop();
  await first.ended;
  const { notes } = running(t, jobs, fail, { attempts: 3, keepDead: 9, backoff });
  await until(() => notes.heard.length > 0);
  assert.deepEqual(notes.heard, [`overruled ${jobs.name} 2 3`]);
  const numbers = async () => [(await policyOf()).deliveries, (await policyOf()).maxlen];
  assert.deepEqual(await numbers(), [2, 7]);
  // The fewer hold, and a job of its last attempt waits for no other.
  await jobs.put("x", { id: "c" });
  await until(() => notes.heard.includes("buried c: Error: no answer"));
  assert.deepEqual(notes.heard.length, 3);
  const { logger, lines } = loggerOf();
  running(t, jobs, () => {}, { attempts: 1, logger, hooks: {} });
  const told = `dehydrator: queue ${jobs.name} has attempts=2 in the server; this worker asks for 1`;
  await until(() => lines.includes(`warn ${told}`));
  for (const [keepDead, kept] of [
    [undefined, 10_000],
    [null, 0],
    [7, 7],
  ]) {
    await jobs.setPolicy({ attempts: 4, keepDead });
    assert.deepEqual(await numbers(), [4, kept]);
  }
  // A stream of another name is listed and revived.
  await server.client.call("DEHYDRATOR.ONDUE", jobs.name, "HOLD", "DELIVERIES", 1, "STREAM", `${jobs.name}:others`);
  await jobs.put("x", { id: "b" });
  await until(async () => (await jobs.deadLetters()).length === 1);
  assert.equal((await jobs.deadLetters())[0]!.id, "b");
});

test("a queue without a policy gets that of its worker", async (t) => {
  for (const [options, ...told] of [
    [{}, 5, 10_000, 1],
    [{ keepDead: 500, attempts: 4 }, 4, 500, 1],
    [{ keepDead: null }, 5, 0, 0],
  ] as const) {
    const jobs = queueOf<string>(t, server.url);
    running(t, jobs, () => {}, options);
    await until(async () => ((await jobs.info()).policy as { deliveries: number }).deliveries > 0);
    const { deliveries, maxlen, approximate, dest } = (await jobs.info()).policy as Record<string, unknown>;
    assert.deepEqual([deliveries, maxlen, approximate, dest], [...told, `${jobs.name}:dead`]);
  }
});

test("each of many has its own options, which are read again", async (t) => {
  const jobs = queueOf<number>(t, server.url);
  await jobs.put(0, { id: "there", delay: 60_000 });
  const [at, soon] = [new Date("2090-01-01T00:00:00Z"), { delay: 60_000 }];
  const puts = await jobs.putMany(
    [
      { payload: 1, id: "anna", group: "anna", attempts: 7, timeout: 9, within: 500, at },
      { payload: 2, id: "bert", group: "bert", ...soon },
      { payload: 3, id: "carl", group: Buffer.from("bert"), ...soon },
      { payload: 4, id: "there", replace: false, ...soon },
      { payload: 5, id: "plain", ...soon },
      { payload: 6, id: "there", ...soon },
    ],
    { replace: true, timeout: 3 },
  );
  const outcomes = puts.map(({ id, outcome }) => [id, outcome]);
  const ids = ["anna", "bert", "carl", "there", "plain", "there"];
  assert.deepEqual(
    outcomes,
    ids.map((id, n) => [id, n === 3 ? "exists" : "stored"]),
  );
  const read = async (id: string) => {
    const { payload, group, attempts, timeout, expires } = (await jobs.look(id))!;
    return { payload, group, attempts, timeout, expires: expires && Number(expires) - Number(at) };
  };
  const none = { group: undefined, attempts: undefined, expires: undefined, timeout: 3 };
  assert.deepEqual(await Promise.all(["anna", "bert", "carl", "there", "plain"].map(read)), [
    { payload: 1, group: "anna", attempts: 7, timeout: 9, expires: 500 },
    { ...none, payload: 2, group: "bert" },
    { ...none, payload: 3, group: "bert" },
    { ...none, payload: 6 },
    { ...none, payload: 5 },
  ]);
  // An update changes the payload alone.
  await jobs.update("anna", 17);
  assert.deepEqual((await read("anna")).timeout, 9);
});

test("a job that is too late may keep its place until its work has ended", async (t) => {
  const jobs = queueOf<string>(t, server.url);
  await jobs.limit({ eachHeld: 1 });
  const [running_, most] = [new Set<string>(), [] as number[]];
  const work = async ({ payload, attempt, signal }: Job<string>) => {
    running_.add(payload);
    most.push(running_.size);
    await sleep(payload === "next" ? 0 : 400);
    running_.delete(payload);
    if (payload === "fails" && attempt === 1) throw signal.reason instanceof JobTimeoutError ? new Error("of late") : 0;
  };
  for (const id of ["fails", "ends", "next"]) await jobs.put(id, { id, group: "anna" });
  const options = { concurrency: 3, timeout: 100, keepPlace: true, backoff: { first: 1 } };
  const { notes } = running(t, jobs, work, options);
  await until(() => notes.heard.length === 4);
  const late = "retried fails JobTimeoutError: the work took longer than 100 ms";
  assert.deepEqual([...notes.heard].sort(), [late, "succeeded ends", "succeeded fails", "succeeded next"]);
  assert.equal(Math.max(...most), 1);
});

test("work that a stop interrupts has no attempt less, whoever ends first", async (t) => {
  const jobs = queueOf<string>(t, server.url);
  const { logger, lines } = loggerOf();
  const work = ({ signal }: Job<string>) =>
    new Promise((_, reject) => signal.addEventListener("abort", () => reject(new Error("interrupted"))));
  const { worker, ended } = running(t, jobs, work, { attempts: 1, logger, hooks: {} });
  await jobs.put("x", { id: "a" });
  await until(async () => (await jobs.look("a"))?.leased);
  worker.stop(10);
  await ended;
  assert.deepEqual([(await jobs.look("a"))?.attempt, lines.length], [0, 4]);
  assert.ok(lines.every((line) => !line.includes("\n")) && lines[2]!.includes("a was given back"), `${lines}`);
});

test("errors of the server have types", async (t) => {
  const own = await RealServer.start();
  t.after(() => own.close());
  const jobs = queueOf<number>(t, own.url);
  await own.client.set("text", "text");
  await jobs.limit({ length: 1 });
  await jobs.put(1, { delay: 60_000 });
  await own.client.config("SET", "dehydrator.max-ttl", "100000");
  for (const [asked, kind, code] of [
    [() => jobs.put(1), QueueFullError, "FULL"],
    [() => jobs.put(1, { delay: 200_000 }), TooLateError, "LIMIT"],
    [() => jobs.update("none", 1), NotFoundError, "NOSUCHID"],
    [() => queueOf(t, own.url, { name: "text" }).put(1), ReplyError, "WRONGTYPE"],
    [() => jobs.every("tick", 1, { cron: "61 * * * *" }), ScheduleError, "ERR"],
    [() => jobs.every("tick", 1, { cron: "0 0 31 2 *" }), ScheduleError, "ERR"],
    [() => jobs.every("tick", 1, { cron: "* * * * *", zone: "Europe/Berlino" }), ScheduleError, "ERR"],
    [() => jobs.every("tick", 1, { interval: 5, until: 5 }), ScheduleError, "ERR"],
  ] as const) {
    const error: ReplyError = await (asked as () => Promise<unknown>)().then(String, (error) => error);
    assert.ok(error instanceof kind && error instanceof DehydratorError, `${error}`);
    assert.deepEqual([error.name, error.code], [kind.name, code]);
  }
  await own.kill();
  for (const library of LIBRARIES) {
    const away = queueOf<number>(t, own.url, { library, patience: 0 });
    const error = await away.put(1).catch((error) => error);
    assert.ok(error instanceof ConnectionError && error instanceof DehydratorError, `${error}`);
    assert.match(error.message, /^the server does not answer: .*(ECONNREFUSED|closed)/);
    assert.ok(error.cause instanceof Error);
  }
});

test("dead letters are read, edited, revived and dropped one by one", async (t) => {
  const jobs = queueOf<{ mail: string }>(t, server.url);
  const names = ["anna", "bert", "carl", "dora"];
  await jobs.putMany(
    names.map((mail) => ({ payload: { mail }, id: mail })),
    { group: "mails" },
  );
  await buryAll(t, jobs, 4, "no such address");
  const letters = await jobs.deadLetters();
  assert.deepEqual(
    letters.map(({ id, payload, attempt, reason, group, key }) => [id, payload, attempt, reason, group, key]),
    names.map((mail) => [mail, { mail }, 1, "no such address", "mails", jobs.name]),
  );
  const [anna, bert, carl] = letters as [(typeof letters)[0], (typeof letters)[0], (typeof letters)[0]];
  assert.equal(await jobs.revive([anna], { payload: { mail: "anna@example.org" } }), 1);
  assert.deepEqual((await jobs.look("anna"))?.payload, { mail: "anna@example.org" });
  assert.equal(await jobs.revive([anna, bert]), 1);
  assert.equal((await jobs.info({ group: "mails" })).length, 2);
  assert.deepEqual([await jobs.dropDeadLetters([carl]), await jobs.dropDeadLetters([carl])], [1, 0]);
  assert.deepEqual(
    (await jobs.deadLetters()).map(({ id }) => id),
    ["dora"],
  );
  // One in the way stands before no others.
  await jobs.put({ mail: "dora" }, { id: "dora", delay: 60_000 });
  assert.equal(await jobs.revive(), 0);
});

test("a logger gets the lines, and failures with their stacks", async (t) => {
  const jobs = queueOf<string>(t, server.url);
  const { logger, lines } = loggerOf();
  const fail = ({ id, attempt }: Job<string>) => {
    if (id === "b") throw new Retry(60_000, "later");
    if (attempt === 1) throw new RangeError("no answer");
    if (attempt === 2) throw new Reject("no such address");
  };
  const worker = new Worker(jobs, fail, { block: 100, logger, backoff: { first: 1, jitter: 0 }, concurrency: 3 });
  const ended = worker.run({ signals: false });
  await jobs.put("x", { id: "a" });
  await until(async () => (await jobs.deadLetters()).length === 1);
  await jobs.put("x", { id: "b" });
  await until(async () => (await jobs.look("b"))?.reason === "Retry: later");
  worker.stop();
  await ended;
  const own = (line: string) => line.replaceAll(jobs.name, "jobs");
  assert.equal(own(lines[0]!), "info dehydrator: a worker of jobs has started, for 3 jobs at a time");
  assert.equal(own(lines.at(-1)!), "info dehydrator: the worker of jobs has stopped");
  assert.equal(own(lines[1]!), "debug dehydrator: jobs: a begins, attempt 1");
  // The next attempt may begin before the line of the one that failed.
  for (const one of [
    /^warn dehydrator: jobs: a failed, attempt 1, again in 1 ms: RangeError: no answer\n {4}at /,
    /b failed, attempt 1, again in 60000 ms: Retry: later$/,
    /^error dehydrator: jobs: a is a dead letter: no such address$/,
  ]) {
    assert.ok(
      lines.some((line) => one.test(own(line))),
      lines.join("\n"),
    );
  }
  await jobs.cancel("b");
});

test("a job that is lost tells the one cause", async (t) => {
  const { logger, lines } = loggerOf();
  const jobs = queueOf<string>(t, server.url);
  const whys: unknown[] = [];
  const other = server.client.duplicate();
  t.after(() => other.disconnect());
  const work = async ({ id, signal }: Job<string>) => {
    if (id === "lease") {
      // Another one waits for the job, which this one cannot renew.
      void other.call("DEHYDRATOR.POLL", jobs.name, "LEASE", "60000", "BLOCK", "60000");
      await sleep(100);
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 3000);
    }
    if (!signal.aborted) await once(signal, "abort");
    whys.push(signal.reason.why);
  };
  const { worker, ended } = running(t, jobs, work, { lease: 1500, logger, hooks: {} });
  for (const id of ["cancelled", "replaced", "lease", "stopped"]) {
    await jobs.put("x", { id });
    await until(async () => (await jobs.look(id))?.leased || (id === "lease" && whys.length === 3));
    if (id === "cancelled") await jobs.cancel(id);
    if (id === "replaced") await jobs.put("x", { id, replace: true, delay: 60_000 });
    if (id === "stopped") worker.stop(1);
    else await until(() => lines.some((line) => line.includes(`${id} was lost`)));
    if (id === "lease") await jobs.cancel(id);
  }
  await ended;
  assert.deepEqual(whys, ["cancelled", "cancelled", "lease", "stopped"]);
  const start = `warn dehydrator: ${jobs.name}:`;
  assert.deepEqual(
    lines.filter((line) => line.startsWith("warn")),
    [
      `${start} cancelled was lost: it was cancelled, or replaced`,
      `${start} replaced was lost: it was cancelled, or replaced`,
      `${start} lease was lost: its lease ran out`,
      `${start} stopped was given back, uncounted: the worker stopped before the work ended`,
    ],
  );
});
