// A queue of several keys that Python and Node use together. What else they agree on is in protocol.test.ts.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { before, type TestContext, test } from "node:test";
import type { Queue } from "dehydrator-queue";
import { partsOf, queueOf } from "./harness.js";
import { RealServer } from "./servers.js";

const ROOT = new URL("../../../../", import.meta.url).pathname;
const PYTHON = join(ROOT, "target/integrations/venv/bin/python");

let server: RealServer;
before(async () => {
  assert.ok(existsSync(PYTHON), "scripts/integrations-python.sh makes the Python that this needs");
  server = await RealServer.start();
});

/** Runs a program in Python, with a queue as `jobs`; returns what it prints, as JSON. */
async function python(t: TestContext, jobs: Queue, program: string, ...words: string[]): Promise<unknown> {
  const begin = `import json, sys\nfrom dehydrator_queue import Queue, Worker\njobs = Queue(sys.argv[1], sys.argv[2])\n`;
  const process_ = spawn(PYTHON, ["-c", begin + program, server.url, jobs.name, ...words], {
    env: { ...process.env, PYTHONPATH: join(ROOT, "integrations/python/src") },
    stdio: ["ignore", "pipe", "inherit"],
  });
  t.after(() => process_.kill("SIGKILL"));
  let printed = "";
  process_.stdout.on("data", (text) => {
    printed += text;
  });
  assert.deepEqual(await once(process_, "close"), [0, null]);
  return printed === "" ? undefined : JSON.parse(printed);
}

const WIDE = `
jobs = Queue(sys.argv[1], sys.argv[2], keys=3)
if sys.argv[3] == "put":
    for n in range(100):
        jobs.put(n, id=f"é{n}", delay=60)
else:
    print(json.dumps([jobs.cancel(*[f"n{n}" for n in range(100)]), len(jobs.set_keys(4)), jobs.forget_keys()]))
`;

test("a queue of several keys is used by both, and its directory is the same", async (t) => {
  const name = "wïde";
  const [directory, other] = [`${name}:keys`, "öther"];
  const jobs = queueOf<number>(t, server.url, { name, keys: 3 });
  await python(t, jobs, WIDE, "put");
  assert.equal(await jobs.cancel(...Array.from({ length: 100 }, (_, n) => `é${n}`)), 100);
  await queueOf<number>(t, server.url, { name: other, keys: 3 }).size();
  const [byPython, byNode] = await Promise.all([directory, `${other}:keys`].map((key) => server.client.get(key)));
  assert.equal(byPython?.replaceAll(name, other), byNode);
  await jobs.putMany(Array.from({ length: 100 }, (_, n) => ({ payload: n, id: `n${n}`, delay: 60_000 })));
  assert.deepEqual(await python(t, jobs, WIDE, "change"), [100, 4, 0]);
  assert.equal((await partsOf(jobs)).length, 4);
});
