import assert from "node:assert/strict";
import { before, test } from "node:test";
import { type Job, type LibraryName, Reject } from "dehydrator-queue";
import { Cluster } from "ioredis";
import { createCluster } from "redis";
import { partsOf, queueOf, running, withEach } from "./harness.js";
import { moveSlot, ownerOf, SLOTS, slotOf, threeNodes } from "./nodes.js";
import { type RealServer, until } from "./servers.js";

/** By a URL, and by a client of one's own. */
function waysTo(node: RealServer, library: LibraryName): unknown[] {
  const own =
    library === "ioredis"
      ? new Cluster([{ host: "127.0.0.1", port: node.port }], { lazyConnect: true })
      : createCluster({ rootNodes: [{ url: node.url }] });
  return [`redis+cluster://127.0.0.1:${node.port}`, own];
}

let nodes: RealServer[];
before(async () => {
  nodes = await threeNodes();
});

withEach("a cluster of three", (library) => {
  test("queues on each node are put to, worked on and looked at", async (t) => {
    for (const [way, server] of waysTo(nodes[0]!, library).entries()) {
      // Slots of different nodes.
      for (const name of ["a", "b", "c", "d", "e", "f"]) {
        const jobs = queueOf<number>(t, server as string, { library, name: `${name}${way}`, patience: 20_000 });
        await jobs.putMany(Array.from({ length: 20 }, (_, n) => ({ payload: n, id: `${n}`, delay: n })));
        await jobs.put(-1, { id: "bad" });
        assert.equal((await jobs.look("bad"))?.payload, -1);
        const done: number[] = [];
        const { worker, ended } = running(t, jobs, ({ payload }) => {
          if (payload === -1 && done.length < 30) throw new Reject("no");
          done.push(payload);
        });
        await until(async () => (await jobs.size()) === 0);
        assert.equal(done.length, 20);
        assert.equal((await jobs.deadLetters())[0]?.reason, "no");
        assert.equal((await partsOf(jobs))[0]!.verbs.dead, `{${name}${way}}:dead`);
        worker.stop();
        await ended;
        assert.equal(await jobs.revive(), 1);
        assert.equal(await jobs.cancel("bad"), 1);
      }
    }
    const sizes = await Promise.all(nodes.map(({ client }) => client.dbsize()));
    // The queues are empty, but their policies for dead letters remain.
    assert.ok(Math.min(...sizes) > 0, `no node without a queue: ${sizes}`);
  });

  test("a slot that moves takes its queue and its sleeping worker along", async (t) => {
    const url = `redis+cluster://127.0.0.1:${nodes[0]!.port}`;
    const [high, low] = ["{mail}:high", "{mail}:low"].map((name) =>
      queueOf<number>(t, url, { library, name, patience: 20_000 }),
    );
    const done: number[] = [];
    running(t, [high!, low!], ({ payload }) => done.push(payload), { block: 1000 });
    await high!.put(0);
    await until(() => done.length === 1);
    await low!.put(1, { delay: 1500 });
    await moveSlot(nodes, await slotOf(nodes[0]!, "{mail}:low"));
    await until(() => done.length === 2);
    await high!.put(2);
    await until(() => done.length === 3);
    assert.deepEqual(done, [0, 1, 2]);
  });

  test("a queue has a key on each node, found by ids, and a worker serves all while a slot moves", async (t) => {
    for (const [way, server] of waysTo(nodes[0]!, library).entries()) {
      const options = { library, keys: "auto" as const, name: `wide:${library}${way}`, patience: 20_000 };
      const jobs = queueOf<number>(t, server as string, options);
      const done: number[] = [];
      const ticks: string[] = [];
      const work = ({ id, payload }: Job<number>) => void (payload < 0 ? ticks.push(id) : done.push(payload));
      const { worker, ended, notes } = running(t, jobs, work, { concurrency: 5 });
      const names = (await partsOf(jobs)).map(({ verbs }) => verbs.key);
      const owners = await Promise.all(names.map(async (name) => ownerOf(nodes, await slotOf(nodes[0]!, name))));
      assert.equal(new Set(owners).size, 3, `${names}`);
      const items = Array.from({ length: 300 }, (_, n) => ({ payload: n, id: `${n}`, delay: 200 + n * 2 }));
      await jobs.putMany(items);
      assert.equal(await jobs.cancel("299"), 1);
      assert.ok((await jobs.look("250")) !== null && (await jobs.postpone("298", 900)));
      await until(() => done.length > 10);
      await jobs.every("tick", -1, { interval: 30, times: 20, missed: "all" });
      await until(() => ticks.length > 2);
      // With the schedules.
      await moveSlot(nodes, await slotOf(nodes[0]!, names[0]!));
      await until(async () => (await jobs.schedules.get("tick"))?.next === null);
      await until(async () => (await jobs.size()) === 0 && done.length >= 299);
      assert.equal(new Set(ticks.map((id) => /@\d+/.exec(id)![0])).size, 20);
      assert.equal(ticks.length, 20);
      assert.deepEqual([done.length, new Set(done).size], [299, 299], `${notes.heard}`);
      worker.stop();
      await ended;
    }
  });

  test("the first commands of a queue look the cluster up once, however many they are", async (t) => {
    const url = `redis+cluster://127.0.0.1:${nodes[0]!.port}`;
    const jobs = queueOf<number>(t, url, { library, keys: 3, name: `first:${library}`, patience: 20_000 });
    const count = async () => {
      const stats = await Promise.all(nodes.map(({ client }) => client.info("stats")));
      return stats.reduce((sum, one) => sum + Number(/total_connections_received:(\d+)/.exec(one)?.[1]), 0);
    };
    const before = await count();
    await Promise.all(Array.from({ length: 300 }, (_, n) => jobs.put(n, { delay: 60_000 })));
    assert.equal(await jobs.cancelAll({ prefix: "" }), 300);
    const made = (await count()) - before;
    assert.ok(made < 60, `${made} connections`);
  });

  test("queues of one worker need no common slot", async (t) => {
    const url = `redis+cluster://127.0.0.1:${nodes[0]!.port}`;
    const queues = ["a", "b"].map((name) => queueOf<number>(t, url, { library, name: `apart:${name}:${library}` }));
    queues.push(queueOf<number>(t, url, { library, name: `apart:c:${library}`, keys: 2 }));
    const done: string[] = [];
    running(t, queues, ({ queue, payload }) => done.push(`${queue} ${payload}`), { concurrency: 2 });
    for (const jobs of queues) await jobs.putMany([1, 2, 3].map((payload) => ({ payload })));
    await queues[0]!.every("tick", 4, { interval: 50, times: 2 });
    await until(() => done.length === 11);
    assert.equal(new Set(done).size, 10);
  });

  const quick = process.env.DEHYDRATOR_QUICK !== undefined;
  test("a node that is killed and started again is waited for", { skip: quick }, async (t) => {
    const jobs = queueOf<number>(t, `redis+cluster://127.0.0.1:${nodes[0]!.port}`, { library, patience: 30_000 });
    const done: number[] = [];
    const { notes } = running(t, jobs, ({ payload }) => done.push(payload), { concurrency: 5, lease: 60_000 });
    await jobs.putMany(Array.from({ length: 100 }, (_, n) => ({ payload: n, delay: n * 10 })));
    await until(() => done.length > 10);
    const slot = await slotOf(nodes[0]!, jobs.name);
    await nodes[Math.floor((slot * 3) / SLOTS)]!.restart();
    await until(async () => (await jobs.size()) === 0 && done.length >= 100);
    assert.deepEqual([done.length, new Set(done).size], [100, 100], `${notes.heard}`);
  });
});
