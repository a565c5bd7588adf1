// In a project that has dehydrator-queue and ioredis, as whoever installs them has: the server, and a worker.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Queue, Worker } from "dehydrator-queue";

async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  return port;
}

function cli(port, ...words) {
  return spawnSync("npx", ["--no-install", "dehydrator-cli", "-p", port, ...words], { encoding: "utf8" }).stdout.trim();
}

test("npx dehydrator-top is there", () => {
  const help = spawnSync("npx", ["--no-install", "dehydrator-top", "--help"], { encoding: "utf8" });
  assert.match(help.stdout, /--web address:port/);
});

for (const signal of ["SIGINT", "SIGTERM"]) {
  test(`npx dehydrator-server serves until ${signal}`, { timeout: 600_000 }, async (t) => {
    const folder = mkdtempSync(join(tmpdir(), "dehydrator-"));
    t.after(() => rmSync(folder, { recursive: true, force: true }));
    const port = await freePort();
    const words = ["--no-install", "dehydrator-server", "--port", port, "--dir", join(folder, "data"), "--hz", "17"];
    // A terminal's Ctrl-C goes to all processes of the group.
    const server = spawn("npx", words, { detached: true, stdio: "ignore" });
    t.after(() => server.exitCode ?? server.signalCode ?? process.kill(-server.pid, "SIGKILL"));
    while (cli(port, "PING") !== "PONG") await sleep(20);
    assert.equal(cli(port, "CONFIG", "GET", "hz"), "hz\n17");

    const jobs = new Queue(`redis://127.0.0.1:${port}`, "jobs");
    t.after(() => jobs.close());
    const begun = Date.now();
    await jobs.put({ mail: "anna" }, { delay: 200 });
    const done = [];
    const worker = new Worker(jobs, (job) => {
      done.push(job.payload.mail);
      worker.stop();
    });
    await worker.run();
    assert.deepEqual(done, ["anna"]);
    assert.ok(Date.now() - begun >= 200);

    process.kill(-server.pid, signal);
    await once(server, "exit");
    while (cli(port, "PING") === "PONG") await sleep(20);
    assert.ok(existsSync(join(folder, "data/appendonlydir")));
  });
}
