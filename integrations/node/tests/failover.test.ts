import assert from "node:assert/strict";
import { test } from "node:test";
import type { Queue } from "dehydrator-queue";
import { Redis } from "ioredis";
import { createSentinel } from "redis";
import { queueOf, running, withEach } from "./harness.js";
import { freePort, RealServer, until } from "./servers.js";

const quick = process.env.DEHYDRATOR_QUICK !== undefined;

/** A primary, its replica, and one Sentinel that watches them. */
async function watched(): Promise<{ primary: RealServer; replica: RealServer; sentinel: RealServer }> {
  const primary = await RealServer.start();
  const replica = await RealServer.start("--replicaof", `127.0.0.1 ${primary.port}`);
  await until(async () => (await replica.client.info("replication")).includes("master_link_status:up"));
  const sentinel = await RealServer.sentinel(`127.0.0.1 ${primary.port}`);
  await until(async () => ((await sentinel.client.call("SENTINEL", "REPLICAS", "mymaster")) as unknown[]).length === 1);
  return { primary, replica, sentinel };
}

async function servesThrough(
  t: Parameters<typeof running>[0],
  jobs: Queue<number>,
  replica: RealServer,
  failover: () => Promise<unknown>,
) {
  const done: number[] = [];
  const { notes } = running(t, jobs, ({ payload }) => done.push(payload), { concurrency: 5, lease: 60_000 });
  await jobs.putMany(Array.from({ length: 100 }, (_, n) => ({ payload: n, delay: n * 2 })));
  await until(() => done.length === 100);
  // Writes that the replica does not have are lost with the primary.
  await until(async () => (await replica.client.call("DEHYDRATOR.LEN", jobs.name)) === 0);
  await failover();
  await jobs.putMany(Array.from({ length: 100 }, (_, n) => ({ payload: 100 + n, id: `${n}`, delay: n * 2 })));
  await until(() => done.length >= 200);
  await until(async () => (await jobs.size()) === 0);
  assert.deepEqual(
    done.sort((a, b) => a - b),
    Array.from({ length: 200 }, (_, n) => n),
  );
  assert.deepEqual(
    notes.heard.filter((line) => /crashed|buried|retried/.test(line)),
    [],
  );
}

withEach("by Sentinel", (library) => {
  test("a URL names the primary, before and after it was killed", async (t) => {
    const { primary, replica, sentinel } = await watched();
    // The first Sentinel is away.
    const url = `redis+sentinel://127.0.0.1:${await freePort()},127.0.0.1:${sentinel.port}/mymaster`;
    const jobs = queueOf<number>(t, url, { library, patience: 40_000 });
    await servesThrough(t, jobs, replica, () => primary.kill());
  });

  test("a client of one's own finds the primary, before and after a failover", { skip: quick }, async (t) => {
    const { primary, replica, sentinel } = await watched();
    const at = { host: "127.0.0.1", port: sentinel.port };
    const own =
      library === "ioredis"
        ? new Redis({ sentinels: [at], name: "mymaster", lazyConnect: true })
        : createSentinel({ name: "mymaster", sentinelRootNodes: [at] });
    const jobs = queueOf<number>(t, own as never, { patience: 40_000 });
    await servesThrough(t, jobs, replica, async () => {
      await sentinel.client.call("SENTINEL", "FAILOVER", "mymaster");
      // Writes to the old primary after the promotion are lost.
      await until(async () => (await primary.client.info("replication")).includes("role:slave"));
    });
  });
});

withEach("FAILOVER", (library) => {
  test("while a worker works: each is done once when the old primary is one again", async (t) => {
    const primary = await RealServer.start();
    const replica = await RealServer.start("--replicaof", `127.0.0.1 ${primary.port}`);
    await until(async () => (await replica.client.info("replication")).includes("master_link_status:up"));
    const jobs = queueOf<number>(t, primary.url, { library, patience: 30_000 });
    const done: number[] = [];
    const { notes } = running(t, jobs, ({ payload }) => done.push(payload), { concurrency: 5, lease: 60_000 });
    await jobs.putMany(Array.from({ length: 400 }, (_, n) => ({ payload: n, delay: n * 4 })));
    await until(() => done.length > 20);
    await primary.client.call("FAILOVER");
    await until(async () => (await primary.client.info("replication")).includes("role:slave"));
    // A worker asks the server that it knows, which is a replica now: READONLY.
    await until(() => notes.heard.includes("interrupted"));
    await until(async () => (await primary.client.info("replication")).includes("master_link_status:up"));
    await replica.client.call("FAILOVER");
    await until(async () => (await jobs.size()) === 0 && done.length >= 400);
    assert.deepEqual(
      done.sort((a, b) => a - b),
      Array.from({ length: 400 }, (_, n) => n),
    );
  });
});
