// Schedules, which the server serves.

import assert from "node:assert/strict";
import { before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { QueueFullError } from "dehydrator-queue";
import { queueOf, running, withEach } from "./harness.js";
import { CuttingProxy } from "./proxy.js";
import { RealServer, until } from "./servers.js";

let server: RealServer;
before(async () => {
  server = await RealServer.start();
});

withEach("schedules", (library) => {
  for (const keys of [undefined, 3]) {
    test(`each occurrence is a job, by whichever worker, at its moment: ${keys ?? 1} keys`, async (t) => {
      const jobs = queueOf<string>(t, server.url, { library, ...(keys === undefined ? {} : { keys }) });
      assert.equal(await jobs.every("tick", "tock", { interval: 50, times: 20, missed: "all" }), true);
      const done: { id: string; payload: string; attempt: number; late: number }[] = [];
      for (let n = 0; n < 5; n += 1) {
        running(t, jobs, ({ id, payload, attempt }) =>
          done.push({ id, payload, attempt, late: Date.now() - Number(id.split("@")[1]) }),
        );
      }
      await until(async () => (await jobs.schedules.get("tick"))?.next === null && (await jobs.size()) === 0);
      const first = Math.min(...done.map(({ id }) => Number(id.split("@")[1])));
      const grid = Array.from({ length: 20 }, (_, n) => `tick@${first + n * 50}`);
      assert.deepEqual(done.map(({ id }) => id).sort(), grid);
      for (const { payload, attempt, late } of done) assert.deepEqual([payload, attempt, late >= 0], ["tock", 1, true]);
      const ended = (await jobs.schedules.get("tick"))!;
      assert.deepEqual([ended.stored, ended.misses, Number(ended.last)], [20, 0, first + 950]);
    });
  }

  test("they are listed, read, paused, run and removed", async (t) => {
    const jobs = queueOf<{ mail: string }>(t, server.url, { library });
    const from = new Date("2090-01-01T00:00:00Z");
    const own = { attempts: 3, within: 500, group: "ä" };
    const report = { cron: "0 9 * * 1-5", zone: "Europe/Berlin", from, times: 7, missed: "none", ...own } as const;
    const more = { overlap: "skip", jitter: 1000, until: new Date("2091-01-01T00:00:00Z") } as const;
    assert.equal(await jobs.every("report", { mail: "anna" }, { ...report, ...more, timeout: 9 }), true);
    assert.equal(await jobs.every("report", { mail: "anna" }, { ...report, ...more, timeout: 9 }), false);
    await jobs.every("hourly", { mail: "bert" }, { interval: 3_600_000 });
    const { schedules } = jobs;
    const { nameBytes, ...read } = (await schedules.get("report"))!;
    assert.deepEqual(nameBytes, Buffer.from("report"));
    const state = { last: null, late: null, stored: 0, misses: 0, paused: false };
    const next = new Date("2090-01-02T08:00:00Z");
    assert.deepEqual(read, {
      name: "report",
      payload: { mail: "anna" },
      timeout: 9,
      ...report,
      ...more,
      ...state,
      next,
    });
    const names: string[] = [];
    for await (const { name } of schedules) names.push(name);
    assert.deepEqual(names, ["hourly", "report"]);

    const id = (await schedules.run("report"))!;
    assert.match(id, /^report@\d{13}$/);
    assert.deepEqual((await jobs.look(id))?.payload, { mail: "anna" });
    const told = (await server.client.call("DEHYDRATOR.LOOK", jobs.name, id, "FULL")) as unknown[];
    const of = (name: string) => told[told.indexOf(name) + 1];
    assert.deepEqual([of("deliveries-limit"), of("group")], [3, "ä"]);
    assert.equal(Number(of("until")) - Number(of("deadline")), 500);
    assert.equal(of("element"), '\x1e{"timeout":"9"}\n{"mail":"anna"}');

    assert.deepEqual([await schedules.pause("hourly"), await schedules.pause("none")], [true, false]);
    assert.equal((await schedules.get("hourly"))?.paused, true);
    assert.deepEqual([await schedules.resume("hourly"), await schedules.resume("none")], [true, false]);
    assert.equal((await schedules.get("hourly"))?.paused, false);
    assert.deepEqual([await schedules.remove("hourly"), await schedules.remove("hourly")], [true, false]);
    assert.deepEqual([await schedules.get("hourly"), await schedules.run("hourly")], [null, null]);
  });

  test("a reply to EVERY that is lost changes nothing", async (t) => {
    const proxy = await CuttingProxy.start(server.port);
    t.after(() => proxy.close());
    const jobs = queueOf<number>(t, proxy.url, { library });
    proxy.cutReplyTo("DEHYDRATOR.EVERY");
    await jobs.every("tick", 1, { interval: 60_000 });
    assert.equal(proxy.cuts, 1);
    assert.equal((await jobs.schedules.get("tick"))?.interval, 60_000);
  });
});

test("a schedule whose payload nobody can decode is listed, with the error", async (t) => {
  const jobs = queueOf<number>(t, server.url);
  await server.client.call("DEHYDRATOR.EVERY", jobs.name, 60_000, "{no", "bad");
  await jobs.every("good", 1, { interval: 3_600_000 });
  const read: unknown[] = [];
  for await (const { name, payload, error } of jobs.schedules) read.push([name, payload, error instanceof SyntaxError]);
  assert.deepEqual(read, [
    ["bad", undefined, true],
    ["good", 1, false],
  ]);
});

test("a full queue gets its occurrence when there is room", async (t) => {
  const jobs = queueOf<number>(t, server.url);
  await jobs.limit({ length: 1 });
  await jobs.put(1, { id: "a", delay: 60_000 });
  await assert.rejects(jobs.put(1), QueueFullError);
  await jobs.every("tick", 1, { interval: 20, times: 1 });
  await sleep(100);
  assert.equal(await jobs.size(), 1);
  await jobs.cancel("a");
  await until(async () => (await jobs.schedules.get("tick"))?.stored === 1);
});
