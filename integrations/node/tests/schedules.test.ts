import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { before, type TestContext, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import type { Queue, ScheduleOptions } from "dehydrator-queue";
import { LOOK, STORE } from "../src/schedule.js";
import { poll, type Word } from "../src/verbs.js";
import { type Notes, queueOf, running, withEach } from "./harness.js";
import { CuttingProxy } from "./proxy.js";
import { RealServer, until } from "./servers.js";

const SECOND = 1000;
const HOUR = 3600 * SECOND;
/** The second part of an element. */
const HOURLY = '{"ms":3600000}';

let server: RealServer;
before(async () => {
  server = await RealServer.start();
});

function call(name: string, ...words: Word[]): Promise<unknown> {
  return server.client.callBuffer(`DEHYDRATOR.${name}`, ...(words as Buffer[]));
}

async function now(): Promise<number> {
  const [seconds, microseconds] = await server.client.time();
  return Number(seconds) * 1000 + Math.floor(Number(microseconds) / 1000);
}

/** Stores the element of a schedule as another program would. */
async function forge(jobs: Queue, state: { next?: number }, plan: string, name = "report"): Promise<void> {
  const element = `${JSON.stringify(state)}\n${plan}\n"payload"`;
  await call("PUSH", jobs.schedules.key, 0, element, name, "REPLACE", "AT", state.next ?? 0);
}

async function elementOf(jobs: Queue, name = "report"): Promise<string[]> {
  return String(await call("LOOK", jobs.schedules.key, name)).split("\n");
}

async function idsOf(jobs: Queue): Promise<string[]> {
  const ids: string[] = [];
  for await (const job of jobs) ids.push(job.id);
  return ids;
}

/** A queue whose jobs stay, and a worker that serves its schedules. */
async function served(t: TestContext, jobs: Queue): Promise<Notes> {
  await jobs.pause();
  return running(t, jobs, () => {}).notes;
}

withEach("schedules", (library) => {
  test("each occurrence is a job, by whichever worker, at its moment", async (t) => {
    const jobs = queueOf<string>(t, server.url, { library });
    const made = await jobs.every("tick", "tock", { seconds: 0.05, times: 20, missed: "all" });
    const done: { id: string; payload: string; attempt: number; late: number }[] = [];
    for (let n = 0; n < 5; n += 1) {
      running(t, jobs, ({ id, payload, attempt }) =>
        done.push({ id, payload, attempt, late: Date.now() - Number(id.split("@")[1]) }),
      );
    }
    await until(async () => (await jobs.schedules.get("tick"))?.ended && (await jobs.size()) === 0);
    const first = Number(made.next);
    const grid = Array.from({ length: 20 }, (_, n) => `tick@${first + n * 50}`);
    assert.deepEqual(done.map(({ id }) => id).sort(), grid);
    for (const { payload, attempt, late } of done) assert.deepEqual([payload, attempt, late >= 0], ["tock", 1, true]);
    const ended = (await jobs.schedules.get("tick"))!;
    assert.deepEqual([ended.count, ended.misses, Number(ended.last)], [20, 0, first + 950]);
  });

  test("they are listed, read, paused, run and removed", async (t) => {
    const jobs = queueOf<{ mail: string }>(t, server.url, { library });
    const options: ScheduleOptions = {
      cron: "0  9 * * 1-5",
      zone: "Europe/Berlin",
      attempts: 3,
      within: 500,
      group: "ä",
    };
    await jobs.every("report", { mail: "anna" }, options);
    await jobs.every("hourly", { mail: "bert" }, { seconds: 3600 });
    const read = (await jobs.schedules.get("report"))!;
    assert.deepEqual([read.name, read.payload, read.cron], ["report", { mail: "anna" }, "0 9 * * 1-5"]);
    assert.deepEqual([read.zone, read.attempts, read.within, read.group], ["Europe/Berlin", 3, 500, "ä"]);
    const upcoming = await read.upcoming(5);
    assert.deepEqual(upcoming[0], read.next);
    for (const one of upcoming) {
      assert.match(
        one.toLocaleDateString("en", { timeZone: "Europe/Berlin", weekday: "short" }),
        /^(Mon|Tue|Wed|Thu|Fri)/,
      );
      assert.equal(one.toLocaleTimeString("en", { timeZone: "Europe/Berlin", hour12: false }), "09:00:00");
    }
    const names: string[] = [];
    for await (const schedule of jobs.schedules) names.push(schedule.name);
    assert.deepEqual(names, ["hourly", "report"]);
    assert.equal(await jobs.schedules.size(), 2);

    const id = await jobs.schedules.run("report");
    const told = (await server.client.call("DEHYDRATOR.LOOK", jobs.name, id!, "FULL")) as unknown[];
    const job = Object.fromEntries(told.flatMap((word, n) => (n % 2 === 0 ? [[word, told[n + 1]]] : [])));
    const moment = Number(id!.split("@")[1]);
    const own = [job.element, job["deliveries-limit"], job.until, job.group];
    assert.deepEqual(own, ['{"mail":"anna"}', 3, moment + 500, "ä"]);
    assert.deepEqual(await jobs.schedules.get("report").then((schedule) => schedule?.next), read.next);

    const { schedules } = jobs;
    assert.deepEqual([await schedules.pause("hourly"), await schedules.pause("none")], [true, false]);
    assert.equal((await schedules.get("hourly"))?.paused, true);
    assert.deepEqual([await schedules.resume("hourly"), await schedules.resume("none")], [true, false]);
    assert.equal((await schedules.get("hourly"))?.paused, false);
    assert.deepEqual([await schedules.remove("hourly"), await schedules.remove("hourly")], [true, false]);
    assert.deepEqual([await schedules.get("hourly"), await schedules.run("hourly")], [null, null]);
  });

  test("connections that break cost no occurrence, and double none", async (t) => {
    const jobs = queueOf<number>(t, server.url, { library });
    const made = await jobs.every("tick", 1, { seconds: 0.02, times: 60, missed: "all" });
    const done: string[] = [];
    const { notes } = running(t, jobs, ({ id }) => done.push(id), { concurrency: 5, lease: 30_000 });
    for (let n = 0; n < 5; n += 1) {
      await until(() => done.length >= n * 10);
      await server.client.call("CLIENT", "KILL", "TYPE", "NORMAL", "SKIPME", "YES");
    }
    await until(async () => (await jobs.schedules.get("tick"))?.ended && (await jobs.size()) === 0);
    const grid = Array.from({ length: 60 }, (_, n) => `tick@${Number(made.next) + n * 20}`);
    assert.deepEqual(done.sort(), grid.sort());
    assert.ok(notes.heard.includes("interrupted"));
  });

  for (const command of ["EVAL", "DEHYDRATOR.LOOK"]) {
    test(`a reply to ${command} that is lost changes nothing`, async (t) => {
      const proxy = await CuttingProxy.start(server.port);
      t.after(() => proxy.close());
      const jobs = queueOf<number>(t, proxy.url, { library });
      // In the bytes of a command, the script follows EVAL: that of STORE is the one that writes.
      proxy.cutReplyTo(command === "EVAL" ? "local name, token" : command);
      const made = await jobs.every("tick", 1, { seconds: 60 });
      await jobs.schedules.get("tick");
      assert.equal(proxy.cuts, 1);
      assert.deepEqual((await jobs.schedules.get("tick"))?.next, made.next);
      proxy.cutReplyTo("local name, token");
      await jobs.schedules.pause("tick");
      assert.equal((await jobs.schedules.get("tick"))?.paused, true);
    });
  }
});

test("the element is that of Python, byte by byte", async (t) => {
  const jobs = queueOf(t, server.url);
  const group = Buffer.from('"\\ä\u0001\u007f\xff', "latin1");
  const starting = new Date("2099-01-01T00:00:00Z");
  const every = (options: ScheduleOptions) => jobs.every("report", "pay\nload", options);
  const begin = 4_070_908_800_000;
  await every({ seconds: 1.5, starting, until: begin + 9000, times: 7, missed: "all", attempts: 2, within: 3, group });
  const element = (await call("LOOK", jobs.schedules.key, "report")) as Buffer;
  const plan = `{"attempts":2,"group":"\\"\\\\\xe4\\u0001\x7f\xff","missed":"all","ms":1500,"start":${begin},"times":7,"until":${begin + 9000},"within":3}`;
  assert.equal(element.toString("latin1"), `{"next":${begin}}\n${plan}\n"pay\\nload"`);
  await every({ cron: " 0 9  1 JAN * ", zone: "Europe/Berlin", starting });
  assert.deepEqual(await elementOf(jobs), [
    `{"next":${begin + 8 * HOUR}}`,
    `{"cron":"0 9 1 JAN *","start":${begin},"zone":"Europe/Berlin"}`,
    '"pay\\nload"',
  ]);
  await every({ seconds: 3600, starting, missed: "one" });
  assert.equal((await elementOf(jobs))[1], `{"ms":3600000,"start":${begin}}`);
  const python = new URL("../../../python/src/dehydrator_queue/schedule.py", import.meta.url);
  const source = readFileSync(python, "utf8");
  assert.ok(source.includes(`"""${STORE}"""`) && source.includes(`"${LOOK}"`));
});

test("a deployment says it again, and changes what is different", async (t) => {
  const jobs = queueOf<string>(t, server.url);
  const { schedules } = jobs;
  const made = await jobs.every("report", "payload", { seconds: 0.2, times: 99 });
  await served(t, jobs);
  await until(async () => ((await schedules.get("report"))?.count ?? 0) >= 2);
  await schedules.pause("report");
  const [state, plan] = await elementOf(jobs);
  const told = JSON.parse(state!);

  await jobs.every("report", "payload", { seconds: 0.2, times: 99 });
  assert.equal((await elementOf(jobs))[1], plan);
  const same = (await schedules.get("report"))!;
  assert.deepEqual([same.paused, same.count >= told.count, Number(same.last) >= told.last], [true, true, true]);

  // What its jobs are like.
  await jobs.every("report", "another", { seconds: 0.2, times: 50, attempts: 3 });
  const changed = (await schedules.get("report"))!;
  assert.deepEqual([changed.payload, changed.times, changed.attempts, changed.paused], ["another", 50, 3, true]);
  assert.equal(changed.count, same.count);
  assert.equal((Number(changed.next) - Number(made.next)) % 200, 0);

  // When it occurs.
  const moved = await jobs.every("report", "another", { seconds: 3600 });
  assert.deepEqual([moved.paused, moved.count, moved.last], [true, 0, null]);
  assert.ok(Number(moved.next) > (await now()) + 3000 * SECOND);
  await schedules.resume("report");

  // It has ended, and stays so, unless it is another one.
  await forge(jobs, { next: (await now()) - 10 }, '{"ms":1,"times":1}', "once");
  await until(async () => (await schedules.get("once"))?.ended);
  const once = await jobs.every("once", "payload", { seconds: 0.001, times: 1 });
  assert.deepEqual([once.ended, once.next, await once.upcoming()], [true, null, []]);
  const again = await jobs.every("once", "payload", { seconds: 0.001, times: 2 });
  assert.equal(again.ended, false);
});

test("a payload that changes while a worker has the schedule is that of its job", async (t) => {
  const jobs = queueOf<string>(t, server.url);
  const next = (await now()) - 10;
  await forge(jobs, { next }, HOURLY);
  const take = poll([jobs.schedules.key], 1, 60_000);
  const [delivery] = await jobs.server.ask(take);
  await jobs.every("report", "changed", { seconds: 3600 });
  const ask = jobs.server.ask.bind(jobs.server);
  assert.equal(await jobs.schedules.serve(delivery!, ask), undefined);
  assert.equal(await jobs.size(), 0);
  // It is due, and free.
  const [other] = await jobs.server.ask(poll([jobs.schedules.key], 1, 60_000));
  await jobs.schedules.serve(other!, ask);
  // The same once more, as if the reply had been lost, when the job is done.
  assert.equal((await jobs.look(`report@${next}`))?.payload, "changed");
  await jobs.cancel(`report@${next}`);
  await jobs.schedules.serve(other!, ask);
  assert.equal(await jobs.size(), 0);
  assert.deepEqual([Number((await jobs.schedules.get("report"))?.next)], [next + HOUR]);
});

test("a worker that lost its lease puts nothing", async (t) => {
  const jobs = queueOf<string>(t, server.url);
  await forge(jobs, { next: (await now()) - 10 }, HOURLY);
  const [stale] = await jobs.server.ask(poll([jobs.schedules.key], 1, 1));
  await sleep(5);
  const [fresh] = await jobs.server.ask(poll([jobs.schedules.key], 1, 60_000));
  const ask = jobs.server.ask.bind(jobs.server);
  await jobs.schedules.serve(stale!, ask);
  assert.equal(await jobs.size(), 0);
  await jobs.schedules.serve(fresh!, ask);
  assert.equal(await jobs.size(), 1);
});

for (const [missed, ago, put, misses] of [
  ["one", 5400, [1], 1],
  ["all", 5400, [0, 1], 0],
  ["none", 5400, [], 2],
  // Half a minute is not too late.
  ["none", 3630, [1], 1],
] as [ScheduleOptions["missed"], number, number[], number][]) {
  test(`missed: ${missed}, of two occurrences, the first ${ago} s ago`, async (t) => {
    const jobs = queueOf(t, server.url);
    const first = (await now()) - ago * SECOND;
    await forge(jobs, { next: first }, missed === "one" ? HOURLY : `{"missed":"${missed}","ms":3600000}`);
    await served(t, jobs);
    await until(async () => Number((await jobs.schedules.get("report"))?.next) > first + HOUR);
    const schedule = (await jobs.schedules.get("report"))!;
    assert.deepEqual(
      await idsOf(jobs),
      put.map((n) => `report@${first + n * HOUR}`),
    );
    assert.deepEqual([schedule.misses, Number(schedule.next)], [misses, first + 2 * HOUR]);
    if (put.length > 0) assert.ok(schedule.late >= ago * SECOND - HOUR, `${schedule.late}`);
  });
}

for (const [plan, period, count] of [
  ['{"ms":1}', 1, 31_536_000_000],
  ['{"cron":"* * * * *","zone":"Europe/Berlin"}', 60_000, 5000],
] as [string, number, number][]) {
  test(`of very many missed occurrences, one is a job: ${plan}`, async (t) => {
    const jobs = queueOf(t, server.url);
    const first = (Math.floor((await now()) / period) - count) * period;
    await forge(jobs, { next: first }, plan);
    await served(t, jobs);
    await until(async () => (await jobs.size()) > 0);
    await jobs.schedules.pause("report");
    const [id] = await idsOf(jobs);
    const schedule = (await jobs.schedules.get("report"))!;
    assert.ok(Number(id!.split("@")[1]) >= first + count * period, id);
    assert.ok(schedule.misses >= count, `${schedule.misses}`);
  });
}

test("of very many missed occurrences, all are jobs, in steps", async (t) => {
  const jobs = queueOf(t, server.url);
  const first = (await now()) - 2500 * SECOND;
  await forge(jobs, { next: first }, '{"missed":"all","ms":1000,"times":2345}');
  await served(t, jobs);
  await until(async () => (await jobs.schedules.get("report"))?.ended);
  const grid = Array.from({ length: 2345 }, (_, n) => `report@${first + n * SECOND}`);
  assert.deepEqual(await idsOf(jobs), grid);
});

test("it occurs from its start until its end", async (t) => {
  const jobs = queueOf<number>(t, server.url);
  const begin = await now();
  const options = { seconds: 0.2, starting: begin + 5010, until: new Date(begin + 5610), missed: "all" } as const;
  await jobs.every("report", 1, options);
  // Of a start that is over, the grid remains.
  const grid = await jobs.every("grid", 1, { seconds: 3600, starting: begin - 1.5 * HOUR });
  assert.equal(Number(grid.next), begin + HOUR / 2);
  await served(t, jobs);
  await until(async () => (await jobs.schedules.get("report"))?.ended);
  assert.deepEqual(
    await idsOf(jobs),
    [5010, 5210, 5410, 5610].map((ms) => `report@${begin + ms}`),
  );
});

test("what was missed after its end is no occurrence", async (t) => {
  const jobs = queueOf(t, server.url);
  const first = (await now()) - 60 * SECOND;
  await forge(jobs, { next: first }, `{"missed":"all","ms":1000,"until":${first + 1999}}`, "all");
  await forge(jobs, { next: first }, `{"ms":1000,"until":${first + 2000}}`, "one");
  await served(t, jobs);
  const isOver = async (name: string) => (await jobs.schedules.get(name))?.ended === true;
  await until(async () => (await isOver("all")) && (await isOver("one")));
  assert.deepEqual(await idsOf(jobs), [`all@${first}`, `all@${first + 1000}`, `one@${first + 2000}`]);
  assert.equal((await jobs.schedules.get("one"))?.misses, 2);
});

test("what makes no sense is refused", async (t) => {
  const jobs = queueOf<number>(t, server.url);
  for (const [options, told] of [
    [{}, /either a `cron` or `seconds`/],
    [{ cron: "* * * * *", seconds: 1 }, /either a `cron` or `seconds`/],
    [{ cron: "* * * *" }, /no cron text/],
    [{ cron: "* * * * *", zone: "Mars" }, /time zone/],
    [{ cron: "* * * * *", zone: "+01:00" }, /time zone/],
    [{ cron: "* * * * *", zone: "europe/berlin" }, /time zone/],
    [{ cron: "* * * * *", zone: "EUROPE/BERLIN" }, /time zone/],
    [{ seconds: 1, zone: "UTC" }, /only a `cron` has a `zone`/],
    [{ seconds: 0 }, /at least a millisecond/],
    [{ seconds: Number.NaN }, /a duration is a number/],
    [{ cron: "0 0 31 2 *" }, /never occurs/],
    [{ seconds: 1, until: 1000 }, /never occurs/],
    [{ seconds: 1, starting: 1e18 }, /never occurs/],
    [{ cron: "* * * * *", starting: 1e18 }, /never occurs/],
    [{ seconds: 1e12 }, /never occurs/],
    [{ seconds: 1, times: 0 }, /`times`/],
    [{ seconds: 1, attempts: 65_536 }, /`attempts`/],
    [{ seconds: 1, within: 0 }, /`within`/],
    [{ seconds: 1, missed: "some" }, /`missed`/],
    [{ seconds: 1, group: "g".repeat(1025) }, /group/],
  ] as [ScheduleOptions, RegExp][]) {
    await assert.rejects(jobs.every("report", 1, options), (error: Error) => {
      assert.match(error.message, told);
      return error instanceof RangeError;
    });
  }
  await assert.rejects(jobs.every("", 1, { seconds: 1 }), RangeError);
  assert.equal(await jobs.schedules.size(), 0);
});

test("a paused schedule skips what is due, and goes on after that", async (t) => {
  const jobs = queueOf<number>(t, server.url);
  const made = await jobs.every("tick", 1, { seconds: 0.1, missed: "all" });
  await jobs.schedules.pause("tick");
  await served(t, jobs);
  await until(async () => Number((await jobs.schedules.get("tick"))?.next) > Number(made.next) + 300);
  assert.equal(await jobs.size(), 0);
  const before = await now();
  await jobs.schedules.resume("tick");
  const resumed = (await jobs.schedules.get("tick"))!;
  await until(async () => (await jobs.size()) >= 3);
  const [id] = await idsOf(jobs);
  assert.ok(Number(id!.split("@")[1]) >= before - 100);
  assert.equal((Number(id!.split("@")[1]) - Number(made.next)) % 100, 0);
  assert.equal(resumed.misses, 0);
  // With nobody there to skip it.
  await forge(jobs, { next: (await now()) - 90 * 60 * SECOND, paused: true } as never, HOURLY, "alone");
  const idle = queueOf<number>(t, server.url);
  const next = (await now()) - 90 * 60 * SECOND;
  await forge(idle, { next, paused: true } as never, HOURLY);
  await idle.schedules.resume("report");
  assert.equal(Number((await idle.schedules.get("report"))?.next), next + 2 * HOUR);
});

test("a full queue loses no occurrence", async (t) => {
  const jobs = queueOf<number>(t, server.url);
  await call("LIMIT", jobs.name, "LENGTH", 3);
  const first = (await now()) - 4500;
  await forge(jobs, { next: first }, '{"missed":"all","ms":1000,"times":5}', "tick");
  const notes = await served(t, jobs);
  await until(() => notes.heard.some((line) => /^refused tick FULL/.test(line)));
  const grid = [0, 1, 2, 3, 4].map((n) => `tick@${first + n * SECOND}`);
  assert.deepEqual(await idsOf(jobs), grid.slice(0, 3));
  assert.equal((await jobs.schedules.get("tick"))?.count, 3);
  // Those that are done do not come again.
  assert.equal(await jobs.cancel(...grid.slice(0, 2)), 2);
  await until(async () => (await jobs.schedules.get("tick"))?.ended);
  assert.deepEqual(await idsOf(jobs), grid.slice(2));
});

test("a worker without room for jobs serves schedules", async (t) => {
  const jobs = queueOf<string>(t, server.url);
  let end = () => {};
  const long = new Promise<void>((resolve) => {
    end = resolve;
  });
  t.after(end);
  running(t, jobs, ({ payload }) => payload === "long" && long);
  await jobs.put("long");
  await until(async () => (await jobs.info()).leased === 1);
  await jobs.every("tick", "tock", { seconds: 0.3, times: 3, missed: "all" });
  await until(async () => (await jobs.schedules.get("tick"))?.ended);
  assert.equal(await jobs.size(), 4);
  end();
  await until(async () => (await jobs.size()) === 0);
});

test("a schedule of each millisecond does not keep jobs waiting", async (t) => {
  const [jobs, other] = [queueOf<number>(t, server.url), queueOf<number>(t, server.url)];
  await jobs.every("tick", -1, { seconds: 0.001 });
  await other.putMany(Array.from({ length: 20 }, (_, n) => ({ payload: n })));
  const done: number[] = [];
  running(t, [other, jobs], ({ payload }) => payload >= 0 && done.push(payload));
  await until(() => done.length === 20);
});

test("schedules are left to other workers", async (t) => {
  const jobs = queueOf<string>(t, server.url);
  await forge(jobs, { next: (await now()) - 10 }, HOURLY);
  await jobs.put("job");
  running(t, jobs, () => {}, { schedules: false });
  await until(async () => (await jobs.size()) === 0);
  await sleep(300);
  assert.equal((await elementOf(jobs))[1], HOURLY);
  assert.deepEqual([await jobs.size(), (await jobs.schedules.get("report"))?.last], [0, null]);
});

test("a schedule that cannot be read stops no other", async (t) => {
  const jobs = queueOf<string>(t, server.url);
  const next = (await now()) - 10;
  await call("PUSH", jobs.schedules.key, 0, "nonsense", "nonsense");
  await forge(jobs, { next }, '{"later":1,"ms":3600000}', "later");
  await forge(jobs, { next }, HOURLY);
  const notes = await served(t, jobs);
  await until(async () => (await jobs.size()) === 1);
  await until(() => notes.heard.filter((line) => line.startsWith("crashed")).length === 2);
  assert.deepEqual(await idsOf(jobs), [`report@${next}`]);
  await assert.rejects(jobs.schedules.get("later"), /a later version/);
});
