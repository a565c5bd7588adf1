// The server tells a worker at once that its job was cancelled.

import assert from "node:assert/strict";
import { before, test } from "node:test";
import { type Job, JobLostError } from "dehydrator-queue";
import { queueOf, running, withEach } from "./harness.js";
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
