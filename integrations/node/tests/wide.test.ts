// Queues of several keys.

import assert from "node:assert/strict";
import { before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { type Delivery, type Job, type Queue, Worker } from "dehydrator-queue";
import { poll, replicated } from "../src/verbs.js";
import { home } from "../src/wide/directory.js";
import { buryAll, partsOf, queueOf, running, withEach } from "./harness.js";
import { RealServer, until } from "./servers.js";

let server: RealServer;
before(async () => {
  server = await RealServer.start();
});

/** Returns how many elements each key of the queue has. */
async function lengths(jobs: Queue): Promise<number[]> {
  return Promise.all((await partsOf(jobs)).map(({ server, verbs }) => server.ask(verbs.size())));
}

withEach("a queue of several keys", (library) => {
  test("jobs are found by their ids, and the queue is all of them", async (t) => {
    const jobs = queueOf<number>(t, server.url, { library, keys: 3 });
    const again = queueOf<number>(t, server.url, { library, keys: 7, name: jobs.name });
    const items = Array.from({ length: 300 }, (_, n) => ({
      payload: n,
      id: `id:${n}`,
      delay: 60_000 + ((n * 7) % 300),
    }));
    assert.deepEqual(
      await jobs.putMany(items),
      items.map(({ id }) => ({ id, outcome: "stored" })),
    );
    // The directory that is there holds.
    assert.equal((await partsOf(again)).length, 3);
    assert.ok(Math.min(...(await lengths(jobs))) > 60, `${await lengths(jobs)}`);
    assert.equal(await jobs.size(), 300);
    assert.equal((await jobs.info()).length, 300);
    assert.equal((await again.look("id:7"))?.payload, 7);
    assert.equal(await again.put(0, { id: "id:7" }), null);
    assert.equal(await again.put(77, { id: "id:7", delay: 90_000, replace: true }), "id:7");
    await again.update("id:8", 88);
    await assert.rejects(again.update("none", 1), /NOSUCHID/);
    assert.deepEqual([(await jobs.look("id:7"))?.payload, (await jobs.look("id:8"))?.payload], [77, 88]);
    assert.equal(await jobs.postpone("id:9", 100_000), true);
    assert.equal(await jobs.cancel("id:1", "id:2", "none", "id:3"), 3);
    const seen: { id: string; due: Date }[] = [];
    for await (const row of jobs) seen.push(row);
    assert.equal(new Set(seen.map(({ id }) => id)).size, 297);
    assert.ok(seen.every(({ due }, n) => n === 0 || due >= seen[n - 1]!.due));
    assert.equal(seen.at(-1)?.id, "id:9");
    assert.equal(await jobs.cancelAll({ prefix: "id:10" }), 11);
    await jobs.pause(60_000);
    assert.equal((await again.info()).paused, 1);
    assert.deepEqual([await jobs.resume(), await jobs.resume()], [true, false]);
  });

  test("a worker does each job once, and as many at a time as it may", async (t) => {
    const jobs = queueOf<number>(t, server.url, { library, keys: 4 });
    await jobs.putMany(Array.from({ length: 200 }, (_, n) => ({ payload: n, delay: n })));
    const done: number[] = [];
    let [now, most] = [0, 0];
    const { worker, ended, notes } = running(
      t,
      jobs,
      async ({ payload, queue }) => {
        now += 1;
        most = Math.max(most, now);
        await sleep(1);
        now -= 1;
        assert.equal(queue, jobs.name);
        done.push(payload);
      },
      { concurrency: 6 },
    );
    await until(async () => (await jobs.size()) === 0);
    assert.deepEqual([done.length, new Set(done).size], [200, 200], `${notes.heard}`);
    assert.ok(most <= 6, `${most} at a time`);
    worker.stop();
    await ended;
  });

  test("dead letters of all keys are listed, and revived", async (t) => {
    const jobs = queueOf<number>(t, server.url, { library, keys: 3 });
    const ids = Array.from({ length: 12 }, (_, n) => `d${n}`);
    await jobs.putMany(
      ids.map((id, n) => ({ payload: n, id })),
      { group: "anna" },
    );
    await buryAll(t, jobs, 12);
    assert.equal((await jobs.deadLetters(5)).length, 5);
    assert.equal(await jobs.put(0, { id: "d3", delay: 60_000 }), "d3");
    assert.equal(await jobs.revive(), 11);
    assert.deepEqual([await jobs.size(), (await jobs.deadLetters()).map(({ id }) => id)], [12, ["d3"]]);
    assert.equal((await jobs.info({ group: "anna" })).length, 11);
    assert.equal(await jobs.dropDeadLetters(await jobs.deadLetters()), 1);
    assert.deepEqual(await jobs.deadLetters(), []);
    assert.equal(await jobs.cancel(...ids), 12);
  });
});

test("a letter comes back into the key where its id belongs now", async (t) => {
  const jobs = queueOf<number>(t, server.url, { keys: 2 });
  const ids = Array.from({ length: 20 }, (_, n) => `d${n}`);
  await jobs.putMany(ids.map((id, n) => ({ payload: n, id })));
  await jobs.limit({ remember: 60_000 });
  await buryAll(t, jobs, 20);
  await jobs.setKeys(5);
  assert.equal(await jobs.forgetKeys(), 0);
  const [first, ...others] = await jobs.deadLetters();
  assert.equal(await jobs.revive([first!], { payload: 99 }), 1);
  assert.equal((await jobs.look(first!.id))?.payload, 99);
  assert.equal(await jobs.revive(others), 19);
  for (const id of ids) assert.equal((await jobs.look(id))?.attempt, 0, id);
  assert.equal(await jobs.cancel(...ids), 20);
});

test("a job that comes when all are busy is given back, for other workers", async (t) => {
  const jobs = queueOf<string>(t, server.url, { keys: 3 });
  const blocker = Array.from({ length: 50 }, (_, n) => `b${n}`);
  // Of two keys: the worker does the first, and gets the second in its sleep.
  const [, other = ""] = await keyed(jobs, blocker);
  let finish = () => {};
  const busy = new Promise<void>((resolve) => {
    finish = resolve;
  });
  const work = ({ id }: Job<string>) => (id === blocker[0] ? busy : undefined);
  const { notes, worker, ended } = running(t, jobs, work, { block: 10_000 });
  await jobs.put("long", { id: blocker[0]! });
  await until(async () => (await jobs.look(blocker[0]!))?.leased);
  await jobs.put("short", { id: other });
  // Another worker could have it, with a count as if it had not been given out.
  await until(async () => {
    const waiting = await jobs.look(other);
    return waiting !== null && !waiting.leased && waiting.attempt === 0;
  });
  const { notes: others } = running(t, queueOf<string>(t, server.url, { keys: 3, name: jobs.name }), () => {});
  await until(() => others.heard.includes(`succeeded ${other}`));
  finish();
  await until(() => notes.heard.includes(`succeeded ${blocker[0]}`));
  worker.stop(0);
  await ended;
});

/** Returns the first id, and the first that is in another key. */
async function keyed(jobs: Queue<string>, ids: string[]): Promise<string[]> {
  const names = (await partsOf(jobs)).map(({ verbs }) => verbs.key);
  const [first = ""] = ids;
  return [first, ids.find((id) => home(id, names) !== home(first, names))!];
}

test("a free place goes to the first queue that has a job, whatever its keys", async (t) => {
  const [high, low] = ["high", "low"].map((name) => queueOf<number>(t, server.url, { keys: 3, name }));
  const items = Array.from({ length: 30 }, (_, payload) => ({ payload }));
  await low!.putMany(items);
  await high!.putMany(items);
  const done: string[] = [];
  running(t, [high!, low!], ({ queue }) => done.push(queue), { concurrency: 1 });
  await until(() => done.length === 60);
  // The first POLLs of all keys come together.
  assert.ok(done.slice(0, 34).filter((queue) => queue === "high").length >= 30, `${done}`);
});

test("keys of a worker share its capacity", async (t) => {
  const jobs = queueOf<number>(t, server.url, { keys: 3 });
  const names = (await partsOf(jobs)).map(({ verbs }) => verbs.key);
  const ids = Array.from({ length: 150 }, (_, n) => `${n}`);
  await jobs.putMany(ids.map((id, payload) => ({ payload, id })));
  const turns: string[] = [];
  running(t, jobs, ({ id }) => turns.push(home(id, names)), { concurrency: 1 });
  await until(() => turns.length === 150);
  for (const name of names) {
    const share = turns.slice(0, 60).filter((turn) => turn === name).length;
    assert.ok(share >= 15 && share <= 25, `${share} of 60`);
  }
});

test("with waitReplicas a job begins when a replica has its lease", async (t) => {
  const primary = await RealServer.start();
  const replica = await RealServer.start("--replicaof", `127.0.0.1 ${primary.port}`);
  await until(async () => (await replica.client.info("replication")).includes("master_link_status:up"));
  const jobs = queueOf<number>(t, primary.url, { keys: 2 });
  const held: unknown[] = [];
  const work = async ({ id }: Job<number>) => {
    const keys = (await partsOf(jobs)).map(({ verbs }) => verbs.key);
    const rows = await Promise.all(keys.map((key) => replica.client.call("DEHYDRATOR.LOOK", key, id, "FULL")));
    const there = rows.find((row) => row !== null) as unknown[];
    held.push(there[there.indexOf("leased") + 1]);
  };
  const { notes } = running(t, jobs, work, { waitReplicas: 1, concurrency: 4, lease: 15_000 });
  await jobs.putMany([1, 2, 3].map((payload) => ({ payload })));
  await until(async () => (await jobs.size()) === 0);
  assert.deepEqual(held, [1, 1, 1]);
  await replica.kill();
  await jobs.put(4, { id: "4" });
  await until(() => notes.heard.includes("interrupted"));
  assert.equal((await jobs.look("4"))?.leased, true);
  assert.equal(held.length, 3);
  await replica.up();
  await until(async () => (await jobs.size()) === 0);
  assert.deepEqual(held, [1, 1, 1, 1]);
});

test("a job that an earlier connection settled is settled for replicas when they have that", async (t) => {
  const primary = await RealServer.start();
  const replica = await RealServer.start("--replicaof", `127.0.0.1 ${primary.port}`, "--enable-debug-command", "yes");
  await until(async () => (await replica.client.info("replication")).includes("master_link_status:up"));
  const jobs = queueOf<number>(t, primary.url, { keys: 1 });
  await jobs.put(1, { id: "a" });
  const [part] = await partsOf(jobs);
  const { verbs, server } = part!;
  const settle = verbs.settle(await server.ask(poll([verbs.key], 1, 60_000)));
  const sleeps = replica.client.call("DEBUG", "SLEEP", "5");
  await until(async () => !(await answersWithin(replica, 100)));
  const later = part!.another(5000);
  t.after(() => later.close());
  assert.deepEqual(await server.ask(settle), [true]);
  await assert.rejects(later.ask(replicated(settle, 1), { patience: 0 }), /only 0 of 1 replicas/);
  await sleeps;
  assert.deepEqual(await later.ask(replicated(settle, 1)), [false]);
  assert.throws(() => new Worker(queueOf(t, primary.url), () => {}, { waitReplicas: 1 }), /needs queues with `keys`/);
});

async function answersWithin({ client }: RealServer, ms: number): Promise<boolean> {
  const other = client.duplicate();
  const answers = other.ping().then(() => true);
  answers.catch(() => {});
  try {
    return await Promise.race([answers, sleep(ms, false)]);
  } finally {
    other.disconnect();
  }
}

test("thousands are cancelled at once", async (t) => {
  const jobs = queueOf<number>(t, server.url, { keys: 1 });
  const ids = Array.from({ length: 9000 }, (_, n) => `n${n}`);
  await jobs.putMany(ids.map((id, n) => ({ payload: n, id, delay: 60_000 })));
  assert.equal(await jobs.cancel(...ids), 9000);
});

test("a directory that lost its last change is repaired", async (t) => {
  const own = { name: "lost", keys: 2 };
  const jobs = queueOf<number>(t, server.url, own);
  await jobs.put(0, { id: "first", delay: 60_000 });
  await jobs.setKeys(3);
  await jobs.cancel("first");
  const before = (await server.client.get("lost:keys"))!;
  assert.equal(await jobs.forgetKeys(), 0);
  const ids = Array.from({ length: 20 }, (_, n) => `n${n}`);
  await jobs.putMany(ids.map((id, n) => ({ payload: n, id, delay: 60_000 })));
  await server.client.set("lost:keys", before);
  const later = queueOf<number>(t, server.url, own);
  await assert.rejects(later.look("n1"), /call setKeys again/);
  // As many as before: that was not lost.
  assert.equal((await later.setKeys(3)).length, 3);
  for (const [n, id] of ids.entries()) assert.equal((await later.look(id))?.payload, n);
  assert.equal(await jobs.put(1, { id: "n1" }), null);
  assert.equal(await later.forgetKeys(), 0);
});

test("a worker restores the directory that it knew", async (t) => {
  const own = { name: "restored", keys: 2 };
  const jobs = queueOf<number>(t, server.url, own);
  const before: (string | null)[] = [];
  for (const keys of [2, 5]) {
    await jobs.setKeys(keys);
    before.push(await server.client.get("restored:keys"));
  }
  await jobs.setKeys(3);
  const done = new Set<string>();
  const work = ({ id }: Job<number>) => {
    done.add(id);
  };
  running(t, queueOf<number>(t, server.url, own), work, { concurrency: 2 });
  const generation = async () =>
    JSON.parse((await server.client.get("restored:keys")) ?? '{"generation":0}').generation;
  // Of two changes, the last one is lost, then both; then all is lost.
  for (const [n, text] of [before[1]!, before[0]!, null].entries()) {
    await jobs.put(0, { id: `${n}` });
    await until(() => done.has(`${n}`));
    const last = await generation();
    if (text === null) await server.client.flushall();
    else await server.client.set("restored:keys", text);
    await until(async () => (await generation()) > last);
    const ids = Array.from({ length: 30 }, (_, m) => `${n}:${m}`);
    await jobs.putMany(ids.map((id) => ({ payload: 0, id })));
    await until(() => ids.every((id) => done.has(id)));
    const later = queueOf<number>(t, server.url, own);
    assert.equal((await later.setKeys(3)).length, 3);
    assert.equal(await later.put(0, { id: `${n}:later`, delay: 60_000 }), `${n}:later`);
    assert.equal(await jobs.put(0, { id: `${n}:later`, delay: 60_000 }), null);
  }
});

/** A random put or cancel of a client, which reads the directory when it is refused, and not before. */
interface Deed {
  readonly how: "new" | "replace" | "cancel";
  readonly id: string;
  readonly payload: string;
  readonly began: number;
  readonly ended: number;
  readonly done: boolean;
}

const IDS = 200;

async function act(jobs: Queue<string>, name: string, deeds: Deed[], isOver: () => boolean): Promise<void> {
  while (!isOver()) {
    const how = (["new", "new", "replace", "cancel"] as const)[Math.floor(Math.random() * 4)]!;
    const [id, payload, began] = [`id:${Math.floor(Math.random() * IDS)}`, `${name}-${deeds.length}`, Date.now()];
    const delay = [100, 300, 800][Math.floor(Math.random() * 3)]!;
    const done =
      how === "cancel"
        ? (await jobs.cancel(id)) === 1
        : (await jobs.put(payload, { id, delay, replace: how === "replace" })) !== null;
    deeds.push({ how, id, payload, began, ended: Date.now(), done });
    await sleep(2);
  }
}

test("keys change while clients with outdated lists put and cancel", async (t) => {
  const own = { name: "growing", keys: 3 };
  const jobs = queueOf<string>(t, server.url, own);
  await jobs.setKeys(3);
  const polled = new Map<string, number>();
  const taken = new Map<string, { began: number; count: number }>();
  const work = ({ payload, token }: Job<string>) => {
    const { count } = taken.get(payload) ?? { count: 0 };
    taken.set(payload, { began: polled.get(token)!, count: count + 1 });
  };
  const received = ([first]: readonly Delivery[], ms: number) => {
    polled.set(first!.token, Date.now() - ms);
  };
  running(t, queueOf<string>(t, server.url, own), work, { concurrency: 5, hooks: { received } });
  let over = false;
  const deeds: Deed[] = [];
  const clients = ["a", "b", "c"].map((name) => act(queueOf<string>(t, server.url, own), name, deeds, () => over));
  const some = async () => {
    const cancelled = () => deeds.filter(({ how, done }) => how === "cancel" && done).length;
    const [before, cancels] = [deeds.length, cancelled()];
    await until(() => deeds.length > before + 120 && cancelled() > cancels + 5);
  };
  const lists = [];
  for (const keys of [5, 4]) {
    await some();
    lists.push((await jobs.setKeys(keys)).length);
    await some();
    await until(async () => (await jobs.forgetKeys()) === 0);
    assert.equal((await partsOf(jobs)).length, keys);
  }
  assert.deepEqual(lists, [5, 4]);
  over = true;
  await Promise.all(clients);
  await until(async () => (await jobs.size()) === 0);
  assert.ok(taken.size > 50, `${taken.size} of ${deeds.length}`);
  const puts = deeds.filter(({ how, done }) => how !== "cancel" && done);
  assert.deepEqual(
    [...taken.values()].filter(({ count }) => count > 1),
    [],
  );
  assert.ok([...taken.keys()].every((payload) => puts.some((put) => put.payload === payload)));
  for (const put of puts) {
    const others = deeds.filter(({ id, payload }) => id === put.id && payload !== put.payload);
    const delivery = taken.get(put.payload);
    const removals = others.filter(
      ({ how, done, ended }) => ended >= put.began && (how === "replace" || (how === "cancel" && done)),
    );
    assert.ok(delivery !== undefined || removals.length > 0, `${put.payload} is lost`);
    if (delivery === undefined) continue;
    // What came clearly after the put, and before the POLL, must have found it.
    const between = others.filter(({ began, ended }) => began > put.ended && ended < delivery.began - 1);
    const wrong = between.filter(({ how, done }) => how !== "new" || done);
    assert.deepEqual(wrong, [], `${put.payload} was removed, and delivered`);
  }
});
