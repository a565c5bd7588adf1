import assert from "node:assert/strict";
import { before, test } from "node:test";
import { type LibraryName, Reject } from "dehydrator-queue";
import { Cluster } from "ioredis";
import { createCluster } from "redis";
import { queueOf, running, withEach } from "./harness.js";
import { freePort, RealServer, until } from "./servers.js";

const SLOTS = 16_384;

async function threeNodes(): Promise<RealServer[]> {
  const nodes: RealServer[] = [];
  const buses: number[] = [];
  for (let n = 0; n < 3; n += 1) {
    const bus = await freePort();
    const options = ["--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--cluster-port", `${bus}`];
    nodes.push(await RealServer.start(...options));
    buses.push(bus);
  }
  for (const [n, node] of nodes.entries()) {
    const [first, last] = [Math.floor((n * SLOTS) / 3), Math.floor(((n + 1) * SLOTS) / 3) - 1];
    await node.client.call("CLUSTER", "ADDSLOTSRANGE", first, last);
    await node.client.call("CLUSTER", "SET-CONFIG-EPOCH", n + 1);
  }
  for (const [n, { port }] of nodes.entries()) {
    await nodes[0]!.client.call("CLUSTER", "MEET", "127.0.0.1", port, buses[n]!);
  }
  const isOk = async (node: RealServer) => String(await node.client.cluster("INFO")).includes("cluster_state:ok");
  await until(async () => (await Promise.all(nodes.map(isOk))).every(Boolean), 40);
  return nodes;
}

async function owns({ client }: RealServer, slot: number): Promise<boolean> {
  const me = await client.cluster("MYID");
  const ranges = (await client.call("CLUSTER", "SLOTS")) as [number, number, [string, number, string]][];
  return ranges.some(([first, last, [, , id]]) => id === me && first <= slot && slot <= last);
}

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
        assert.equal(jobs.verbs.dead, `{${name}${way}}:dead`);
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
    const slot = Number(await nodes[0]!.client.cluster("KEYSLOT", "{mail}:low"));
    const owner = (await Promise.all(nodes.map(async (node) => (await owns(node, slot)) && node))).find(Boolean);
    const from = owner as RealServer;
    const to = nodes[(nodes.indexOf(from) + 1) % 3]!;
    const [fromId, toId] = (await Promise.all([from, to].map(({ client }) => client.cluster("MYID")))) as string[];
    await to.client.call("CLUSTER", "SETSLOT", slot, "IMPORTING", fromId!);
    await from.client.call("CLUSTER", "SETSLOT", slot, "MIGRATING", toId!);
    for (const key of (await from.client.call("CLUSTER", "GETKEYSINSLOT", slot, 100)) as string[]) {
      await from.client.call("MIGRATE", "127.0.0.1", to.port, key, 0, 5000);
    }
    for (const { client } of [to, ...nodes]) await client.call("CLUSTER", "SETSLOT", slot, "NODE", toId!);
    await until(() => done.length === 2);
    await high!.put(2);
    await until(() => done.length === 3);
    assert.deepEqual(done, [0, 1, 2]);
  });

  const quick = process.env.DEHYDRATOR_QUICK !== undefined;
  test("a node that is killed and started again is waited for", { skip: quick }, async (t) => {
    const jobs = queueOf<number>(t, `redis+cluster://127.0.0.1:${nodes[0]!.port}`, { library, patience: 30_000 });
    const done: number[] = [];
    const { notes } = running(t, jobs, ({ payload }) => done.push(payload), { concurrency: 5, lease: 60_000 });
    await jobs.putMany(Array.from({ length: 100 }, (_, n) => ({ payload: n, delay: n * 10 })));
    await until(() => done.length > 10);
    const slot = Number(await nodes[0]!.client.cluster("KEYSLOT", jobs.name));
    await nodes[Math.floor((slot * 3) / SLOTS)]!.restart();
    await until(async () => (await jobs.size()) === 0 && done.length >= 100, 40);
    assert.deepEqual([done.length, new Set(done).size], [100, 100], `${notes.heard}`);
  });
});
