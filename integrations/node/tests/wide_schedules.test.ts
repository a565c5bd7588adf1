// Schedules of queues of several keys.

import assert from "node:assert/strict";
import { before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import type { Queue } from "dehydrator-queue";
import { poll } from "../src/verbs.js";
import { home } from "../src/wide/directory.js";
import { queueOf, running, withEach } from "./harness.js";
import { RealServer, until } from "./servers.js";

let server: RealServer;
before(async () => {
  server = await RealServer.start();
});

/** Serves what is due, as a worker does. */
async function serve(jobs: Queue): Promise<void> {
  const { server } = jobs.home;
  for (const delivery of await server.ask(poll([jobs.schedules.key], 10, 60_000))) {
    assert.equal(await jobs.schedules.serve(delivery, (question) => server.ask(question)), undefined);
  }
}

async function idsOf(jobs: Queue): Promise<string[]> {
  const ids: string[] = [];
  for await (const { id } of jobs) ids.push(id);
  return ids;
}

/** Asserts that each occurrence, from the first to the last one, is there once. */
function assertGrid(ids: readonly string[], ms: number): void {
  const moments = ids.map((id) => Number(/@(\d+)(\.\d+)?$/.exec(id)![1])).sort((one, other) => one - other);
  assert.deepEqual(
    moments,
    moments.map((_, n) => moments[0]! + n * ms),
  );
}

withEach("a schedule of several keys", (library) => {
  test("is read and changed, and its jobs are found by their ids", async (t) => {
    const jobs = queueOf<string>(t, server.url, { library, keys: 3 });
    const { schedules } = jobs;
    assert.equal(schedules.key, `{${jobs.name}:0}:schedules`);
    await jobs.every("r", "payload", { seconds: 0.01, missed: "all" });
    await sleep(300);
    await serve(jobs);
    assert.equal(await schedules.pause("r"), true);
    const ids = await idsOf(jobs);
    assert.ok(ids.length >= 20, `${ids}`);
    assertGrid(ids, 10);
    const names = await jobs.setKeys(3);
    assert.ok(ids.every((id) => home(id, names) === names[0]));
    for (const id of ids) assert.equal((await jobs.look(id))?.payload, "payload");
    assert.equal(await jobs.cancel(...ids.slice(1)), ids.length - 1);
    await jobs.setKeys(5);
    assert.equal((await schedules.get("r"))?.paused, true);
    const id = (await schedules.run("r"))!;
    assert.equal((await jobs.look(id))?.payload, "payload");
    assert.equal(await jobs.cancel(id, ids[0]!), 2);
    assert.equal(await jobs.forgetKeys(), 0);
    assert.deepEqual([await schedules.size(), await schedules.remove("r"), await schedules.run("r")], [1, true, null]);
  });

  test("is served while all are busy and the keys change", async (t) => {
    const jobs = queueOf<string>(t, server.url, { library, keys: 2 });
    const done: string[] = [];
    let isBusy = false;
    let end = () => {};
    const long = new Promise<void>((resolve) => {
      end = resolve;
    });
    // A worker stops when its job has ended.
    t.after(end);
    const { notes } = running(t, jobs, async ({ id, attempt }) => {
      if (id === "long") {
        isBusy = true;
        return long;
      }
      assert.equal(attempt, 1);
      assert.ok(Date.now() >= Number(/@(\d+)/.exec(id)![1]));
      done.push(id);
    });
    await jobs.every("r", "payload", { seconds: 0.03, missed: "all" });
    for (const keys of [4, 1, 3]) {
      const so = done.length;
      await until(() => done.length > so + 5);
      await jobs.setKeys(keys);
    }
    await jobs.put("long", { id: "long" });
    await until(() => isBusy);
    const size = await jobs.size();
    await until(async () => (await jobs.size()) > size + 3);
    end();
    await jobs.schedules.pause("r");
    await until(async () => (await jobs.size()) === 0);
    await until(async () => (await jobs.forgetKeys()) === 0);
    assertGrid(done, 30);
    assert.ok(!notes.heard.some((one) => /crashed|refused/.test(one)), `${notes.heard}`);
  });
});

test("a worker with outdated keys puts jobs where they belong now", async (t) => {
  const jobs = queueOf<string>(t, server.url, { keys: 2 });
  const other = queueOf<string>(t, server.url, { keys: 2, name: jobs.name });
  await jobs.every("r", "payload", { seconds: 0.01, missed: "all" });
  await sleep(50);
  await serve(jobs);
  const names = await other.setKeys(7);
  // It touches each key, so clients with the first list are refused from now on.
  await other.forgetKeys();
  const before = new Set(await idsOf(other));
  await sleep(50);
  await serve(jobs);
  await jobs.schedules.pause("r");
  const ids = await idsOf(other);
  assert.ok(ids.length > before.size);
  assertGrid(ids, 10);
  assert.ok(ids.every((id) => before.has(id) || home(id, names) === names[0]));
  assert.equal(await other.cancel(...ids), ids.length);
  await jobs.schedules.resume("r");
  await sleep(30);
  await server.client.set(`${names[0]}:generation`, 99);
  await assert.rejects(serve(jobs), /call setKeys again/);
});

test("it is left to other workers", async (t) => {
  const jobs = queueOf<string>(t, server.url, { keys: 2 });
  await jobs.every("r", "payload", { seconds: 0.01 });
  const done: string[] = [];
  running(t, jobs, ({ id }) => done.push(id), { schedules: false });
  await jobs.put("payload", { id: "a", delay: 100 });
  await until(() => done.length > 0);
  assert.deepEqual(done, ["a"]);
});
