// Schedules that Python makes and serves too, and queues of several keys.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { before, type TestContext, test } from "node:test";
import type { Queue, ScheduleOptions } from "dehydrator-queue";
import { home } from "../src/wide/directory.js";
import { CHANGE, GUARD, ROUTED } from "../src/wide/script.js";
import { queueOf, running } from "./harness.js";
import { RealServer, until } from "./servers.js";

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

const HOMES = `
from dehydrator_queue.wide.directory import home
from dehydrator_queue.wide.script import CHANGE, GUARD, ROUTED
ids, names = json.loads(sys.argv[3])
print(json.dumps([ROUTED, CHANGE, GUARD, [home(bytes.fromhex(id), names) for id in ids]]))
`;

test("the scripts of several keys are the same, and so is the key of each id", async (t) => {
  const ids = Array.from({ length: 2000 }, (_, n) => randomBytes(n % 40));
  const names = Array.from({ length: 7 }, (_, n) => `{jöbs:${n}}`);
  const told = await python(
    t,
    queueOf(t, server.url),
    HOMES,
    JSON.stringify([ids.map((id) => id.toString("hex")), names]),
  );
  assert.deepEqual(told, [ROUTED, CHANGE, GUARD, ids.map((id) => home(id, names))]);
});

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
  assert.equal((await jobs.parts()).length, 4);
});

const starting = Date.parse("2099-10-20T12:00:00Z");
/** Python has the same names, and seconds for all durations and moments. */
const OPTIONS: Record<string, ScheduleOptions> = {
  weekdays: { cron: "0  9 * * mon-fri", zone: "Europe/Berlin", starting },
  night: { cron: "*/20 1-3 * * *", zone: "America/New_York", starting, attempts: 3, missed: "none" },
  last: { cron: "30 2 L,5/9 */2 *", zone: "Australia/Lord_Howe", starting, group: 'ä "quoted" \\ \u0001\u007f\u2028' },
  hourly: { seconds: 3600, starting, until: starting + 7_200_000, within: 1500, missed: "all" },
  often: { seconds: 0.3, starting, times: 4 },
};

const EVERY = `
told = {}
for name, options in json.loads(sys.argv[3]).items():
    for ms in options.keys() & {"starting", "until", "within"}:
        options[ms] /= 1000
    schedule = jobs.every(name, {"name": name, "é": [1]}, **options)
    told[name] = [round(one.timestamp() * 1000) for one in schedule.upcoming(40)]
print(json.dumps(told))
`;

test("the same schedule is the same element, with the same occurrences", async (t) => {
  const [there, here] = [queueOf(t, server.url), queueOf(t, server.url)];
  const elements = async (jobs: Queue) => {
    const found = await Promise.all(
      Object.keys(OPTIONS).map((name) => server.client.callBuffer("DEHYDRATOR.LOOK", jobs.schedules.key, name)),
    );
    return found.map((element) => (element as Buffer).toString("latin1"));
  };
  const every = async (jobs: Queue) => {
    const told: Record<string, number[]> = {};
    for (const [name, options] of Object.entries(OPTIONS)) {
      const schedule = await jobs.every(name, { name, é: [1] }, options);
      told[name] = (await schedule.upcoming(40)).map(Number);
    }
    return told;
  };
  const [byPython, byNode] = [await python(t, there, EVERY, JSON.stringify(OPTIONS)), await every(here)];
  assert.deepEqual(byPython, byNode);
  assert.deepEqual(byNode.often?.length, 4);
  const [made, own] = [await elements(there), await elements(here)];
  assert.deepEqual(made, own);
  // Each says again what the other one made.
  await every(there);
  await python(t, here, EVERY, JSON.stringify(OPTIONS));
  assert.deepEqual([await elements(there), await elements(here)], [made, own]);
});

const WORK = `
import threading, time
jobs = Queue(sys.argv[1], sys.argv[2], keys=json.loads(sys.argv[4]))
worker = Worker(jobs, lambda job: jobs.server.client.rpush("done", f"{job.id} {job.attempt}"), block=0.2)
def watch():
    while True:
        schedule = jobs.schedules.get("tick")
        if schedule.ended or schedule.count >= int(sys.argv[3]):
            return worker.stop()
        time.sleep(0.01)
threading.Thread(target=watch, daemon=True).start()
worker.run()
`;

for (const keys of [undefined, 3]) {
  test(`workers in both languages move a schedule on: ${keys ?? 1} keys`, async (t) => {
    const jobs = queueOf<string>(t, server.url, keys === undefined ? {} : { keys });
    await server.client.del("done");
    const byPython = (count: number) => python(t, jobs, WORK, String(count), JSON.stringify(keys ?? null));
    const made = await jobs.every("tick", "tock", { seconds: 0.02, times: 90, missed: "all" });
    const count = async () => (await jobs.schedules.get("tick"))!.count;
    const work = ({ id, attempt }: { id: string; attempt: number }) => server.client.rpush("done", `${id} ${attempt}`);
    const first = running(t, jobs, work);
    await until(async () => (await count()) >= 15);
    first.worker.stop();
    await first.ended;
    const before = await count();
    await byPython(before + 15);
    assert.ok((await count()) >= before + 15);
    const together = byPython(90);
    running(t, jobs, work);
    await Promise.all([together, until(async () => (await jobs.schedules.get("tick"))?.ended)]);
    await until(async () => (await jobs.size()) === 0);
    const done = await server.client.lrange("done", 0, -1);
    const grid = Array.from({ length: 90 }, (_, n) => `tick@${Number(made.next) + n * 20} 1`);
    assert.deepEqual(done.map((one) => one.replace(/\.\d+/, "")).sort(), grid.sort());
    if (keys === undefined) assert.deepEqual(done.sort(), grid.sort());
    else {
      // The same numbers after the ids, as both count them.
      const names = Array.from({ length: keys }, (_, n) => `{${jobs.name}:${n}}`);
      const numbered = grid.map((one) => {
        const [id = ""] = one.split(" ");
        let found = id;
        for (let n = 1; home(found, names) !== names[0]; n += 1) found = `${id}.${n}`;
        return `${found} 1`;
      });
      assert.deepEqual(done.sort(), numbered.sort());
    }
  });
}
