// The server tells a worker at once that its job was cancelled.

import assert from "node:assert/strict";
import { before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { type Job, JobLostError } from "dehydrator-queue";
import { LIBRARIES, queueOf, running, withEach } from "./harness.js";
import { threeNodes } from "./nodes.js";
import { RealServer, until } from "./servers.js";

let server: RealServer;
before(async () => {
  server = await RealServer.start();
});

withEach("told", (library) => {
  test("a job that is cancelled is told at once", async (t) => {
    const jobs = queueOf<string>(t, server.url, { library });
    const reasons: unknown[] = [];
    let began = Number.NaN;
    const work = ({ signal }: Job<string>) =>
      new Promise<void>((resolve) => {
        signal.addEventListener("abort", () => {
          reasons.push(signal.reason, performance.now() - began);
          resolve();
        });
      });
    const { notes } = running(t, jobs, work, { concurrency: 2 });
    await jobs.putMany(["a", "b"].map((id) => ({ payload: id, id })));
    await until(async () => (await jobs.info()).leased === 2);
    await until(async () => {
      const [, subscribers] = (await server.client.pubsub("NUMSUB", `__cancelled@0__:${jobs.name}`)) as [
        string,
        number,
      ];
      return subscribers === 1;
    });
    began = performance.now();
    await jobs.cancel("a");
    await until(() => notes.heard.includes("lost a"), 10);
    const [reason, ms] = reasons as [Error, number];
    assert.ok(reason instanceof JobLostError && ms < 2000, `${reason} after ${ms} ms`);
    assert.deepEqual(notes.heard, ["lost a"]);
    await jobs.cancel("b");
    await until(() => notes.heard.includes("lost b"), 10);
  });
});

test("on a cluster, by the node that has the key", async (t) => {
  const nodes = await threeNodes();
  const url = `redis+cluster://127.0.0.1:${nodes[0]!.port}`;
  for (const library of LIBRARIES) {
    // Slots of different nodes.
    for (const name of ["a", "b", "{c}:high"]) {
      const jobs = queueOf<string>(t, url, { library, name: `${name}${library}`, patience: 20_000 });
      const work = ({ signal }: Job<string>) => sleep(60_000, undefined, { signal });
      const { notes } = running(t, jobs, work);
      await jobs.put("x", { id: "a" });
      await until(async () => (await jobs.look("a"))?.leased);
      await until(async () => {
        const channels = await Promise.all(nodes.map(({ client }) => client.call("PUBSUB", "SHARDCHANNELS")));
        return channels.flat().some((channel) => String(channel).includes(`${name}${library}`));
      }, 20);
      await jobs.cancel("a");
      await until(() => notes.heard.includes("lost a"), 10);
    }
  }
});
