import assert from "node:assert/strict";
import { once } from "node:events";
import { before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { type Job, ModuleMissingError, Reject, Retry, Worker } from "dehydrator-queue";
import { PrometheusHooks } from "dehydrator-queue/prometheus";
import { Registry } from "prom-client";
import { buryAll, failing, Notes, queueOf, running, withEach } from "./harness.js";
import { CuttingProxy } from "./proxy.js";
import { RealServer, until } from "./servers.js";

withEach("a worker", (library) => {
  let server: RealServer;
  before(async () => {
    server = await RealServer.start();
  });

  test("what is due is worked on once, and not before", async (t) => {
    const jobs = queueOf<number>(t, server.url, { library });
    const began = Date.now();
    await jobs.putMany(Array.from({ length: 300 }, (_, n) => ({ payload: began + n * 3, delay: n * 3 })));
    const late: number[] = [];
    running(t, jobs, ({ payload }) => late.push(Date.now() - payload), { concurrency: 20 });
    await until(async () => (await jobs.size()) === 0);
    assert.equal(late.length, 300);
    // The command came a little after `began`; a clock may show the millisecond before.
    assert.ok(Math.min(...late) >= -1, `early by ${Math.min(...late)}`);
  });

  test("what fails is tried again, later each time, and then a dead letter with the reason", async (t) => {
    const jobs = queueOf(t, server.url, { library });
    await jobs.put("x", { id: "a" });
    const at: number[] = [];
    const { notes } = running(
      t,
      jobs,
      ({ attempt }) => {
        at.push(performance.now());
        throw new Error(`at ${attempt}`);
      },
      { attempts: 3, backoff: { first: 40, factor: 3, jitter: 0 } },
    );
    const [letter] = await until(async () => {
      const letters = await jobs.deadLetters();
      return letters.length > 0 && letters;
    });
    assert.equal(at.length, 3);
    assert.ok(at[1]! - at[0]! >= 39 && at[2]! - at[1]! >= 119, `waits ${at}`);
    assert.deepEqual([letter!.id, letter!.attempt, letter!.reason.split("\n")[0]], ["a", 3, "Error: at 3"]);
    assert.equal(await jobs.size(), 0);
    await until(() => notes.heard.length === 3);
    assert.equal(notes.heard[2], "buried a: Error: at 3");
  });

  test("dead letters are revived, with a count that begins anew", async (t) => {
    const jobs = queueOf<string>(t, server.url, { library });
    await jobs.put("x", { id: "a" });
    const attempts: number[] = [];
    const work = ({ attempt }: { attempt: number }) => {
      attempts.push(attempt);
      if (attempts.length === 1) throw new Reject("nobody wants it");
    };
    const { notes } = running(t, jobs, work);
    await until(() => notes.heard.length === 1);
    assert.equal((await jobs.deadLetters())[0]?.reason, "nobody wants it");
    assert.equal(await jobs.revive(), 1);
    await until(() => notes.heard.includes("succeeded a"));
    assert.deepEqual(attempts, [1, 1]);
    assert.deepEqual(await jobs.deadLetters(), []);
  });

  test("a dead letter whose id is in the queue again stays, and one whose id is remembered comes back", async (t) => {
    const jobs = queueOf<string>(t, server.url, { library });
    await server.client.call("DEHYDRATOR.LIMIT", jobs.name, "REMEMBER", "60000");
    await jobs.put("dead", { id: "a" });
    await buryAll(t, jobs, 1);
    assert.equal(await jobs.put("new", { id: "a", delay: 60_000, replace: true }), "a");
    assert.equal(await jobs.revive(), 0);
    assert.deepEqual([(await jobs.deadLetters()).length, (await jobs.look("a"))?.payload], [1, "new"]);
    await jobs.cancel("a");
    assert.equal(await jobs.revive(), 1);
    assert.deepEqual([await jobs.deadLetters(), (await jobs.look("a"))?.payload], [[], "dead"]);
  });

  test("where dead letters cannot go the job stays", async (t) => {
    const jobs = queueOf<string>(t, server.url, { library });
    const dead = `${jobs.name}:dead`;
    await jobs.put("x", { id: "a" });
    const work = async ({ attempt }: { attempt: number }) => {
      if (attempt === 1) await server.client.set(dead, "text");
      throw new Reject("no");
    };
    const { notes } = running(t, jobs, work, { lease: 300 });
    await until(() => notes.heard.includes("buried a: no"));
    assert.equal(await jobs.size(), 1);
    await server.client.del(dead);
    const [letter] = await until(async () => {
      const letters = await jobs.deadLetters();
      return letters.length > 0 && letters;
    });
    assert.deepEqual([letter?.id, letter?.reason], ["a", "no"]);
  });

  test("work may say when it wants to try again, and whether that was an attempt", async (t) => {
    const jobs = queueOf(t, server.url, { library });
    await jobs.put("x", { id: "a" });
    const at: [attempt: number, ms: number][] = [];
    const work = ({ attempt }: Job) => {
      at.push([attempt, performance.now()]);
      if (at.length === 1) throw new Retry(70, "busy");
      if (at.length < 4) throw new Retry(50, "wait", { counted: false });
    };
    const { notes } = running(t, jobs, work, { attempts: 2 });
    await until(() => notes.heard.includes("succeeded a"));
    assert.deepEqual(notes.heard.slice(0, -1), ["retried a Retry: busy", ...Array(2).fill("retried a Retry: wait")]);
    const [first, ...others] = at.map(([, ms], n) => ms - (at[n - 1]?.[1] ?? 0)).slice(1);
    assert.ok(first! >= 69 && others.every((ms) => ms >= 49));
    const attempts = at.map(([attempt]) => attempt);
    assert.deepEqual(attempts, [1, 2, 2, 2]);
  });

  test("a payload that cannot be decoded is a dead letter, and work goes on", async (t) => {
    const jobs = queueOf(t, server.url, { library });
    const bad = Buffer.from([0x22, 0xff, 0x22]);
    await server.client.call("DEHYDRATOR.MPUSH", jobs.name, 0, "{no", "bad1", 0, bad, "bad2");
    await jobs.put("good", { id: "good" });
    const { notes } = running(t, jobs, () => {});
    await until(() => notes.heard.length === 3);
    const letters = await jobs.deadLetters();
    assert.deepEqual(
      letters.map(({ id }) => id),
      ["bad1", "bad2"],
    );
    assert.deepEqual(letters[1]?.element, bad);
    for (const { reason } of letters) assert.match(reason, /^it cannot be decoded: /);
    assert.ok(notes.heard.includes("succeeded good"));
  });

  test("with attempts null what cannot be done goes where the queue says, or waits", async (t) => {
    const jobs = queueOf(t, server.url, { library });
    await jobs.put("x", { id: "a" });
    const { notes } = running(t, jobs, failing(new Reject("no")), { attempts: null, backoff: { most: 50 } });
    await until(() => notes.heard.some((line) => line.includes("no policy")));
    await server.client.call("DEHYDRATOR.ONDUE", jobs.name, "HOLD", "DELIVERIES", 9, "STREAM", `${jobs.name}:dead`);
    await until(async () => (await jobs.deadLetters()).length === 1);
  });

  test("work may take longer than its lease, and is done once", async (t) => {
    const jobs = queueOf(t, server.url, { library });
    await jobs.put("x", { id: "a" });
    let done = 0;
    const work = async () => {
      await sleep(9000);
      done += 1;
    };
    // Long enough for a machine that does something else for a while.
    const some = [1, 2].map(() => running(t, jobs, work, { lease: 6000 }));
    await until(async () => (await jobs.size()) === 0);
    assert.equal(done, 1);
    assert.deepEqual(
      some.flatMap(({ notes }) => notes.heard),
      ["succeeded a"],
    );
  });

  test("a job that is cancelled meanwhile is told, and its end counts no more", async (t) => {
    const jobs = queueOf(t, server.url, { library });
    await jobs.put("x", { id: "a" });
    let begun = false;
    const { notes } = running(
      t,
      jobs,
      async ({ signal }) => {
        begun = true;
        await sleep(240_000, null, { signal });
      },
      { lease: 3000 },
    );
    await until(() => begun);
    assert.equal(await jobs.cancel("a"), 1);
    await until(() => notes.heard.length > 0);
    await jobs.put("y", { id: "b" });
    await until(async () => (await jobs.look("b"))?.leased);
    assert.deepEqual(notes.heard, ["lost a"]);
    await jobs.cancel("b");
    await until(() => notes.heard.includes("lost b"));
  });

  test("a stop lets what is in hand end, and takes nothing more", async (t) => {
    const jobs = queueOf<string>(t, server.url, { library });
    await jobs.putMany(["a", "b"].map((id) => ({ payload: id, id })));
    const begun: string[] = [];
    const { worker, ended, notes } = running(t, jobs, async ({ id }) => {
      begun.push(id);
      await sleep(3000);
    });
    await until(() => begun.length === 1);
    worker.stop();
    await ended;
    assert.deepEqual([begun, notes.heard, await jobs.size()], [["a"], ["succeeded a"], 1]);
  });

  test("what comes after a stop, while the worker still sleeps, is given back and counts nothing", async (t) => {
    const server = await RealServer.start();
    t.after(() => server.close());
    const jobs = queueOf<string>(t, server.url, { library });
    // It would be the last attempt.
    const { worker, ended, notes } = running(t, jobs, () => {}, { block: 20_000, attempts: 1 });
    await until(async () => (await server.client.info("clients")).includes("blocked_clients:1"));
    worker.stop();
    await jobs.put("x", { id: "a" });
    await ended;
    const waiting = await jobs.look("a");
    assert.deepEqual([notes.heard, waiting?.attempt, waiting?.leased], [[], 0, false]);
    const attempts: number[] = [];
    running(t, jobs, ({ attempt }) => attempts.push(attempt), { attempts: 1 });
    await until(async () => (await jobs.size()) === 0);
    assert.deepEqual(attempts, [1]);
  });

  test("attempts belong to the job", async (t) => {
    const jobs = queueOf<string>(t, server.url, { library });
    await jobs.put("x", { id: "ten", attempts: 10 });
    await jobs.put("x", { id: "once", attempts: 1 });
    await jobs.put("x", { id: "as the worker says" });
    await jobs.putMany([{ payload: "x", id: "four" }], { attempts: 4 });
    const work = ({ attempt }: Job<string>) => {
      throw new Error(`no ${attempt}`);
    };
    const backoff = { first: 10, most: 10 };
    const { worker, ended, notes } = running(t, jobs, work, { attempts: 3, backoff, concurrency: 4 });
    await until(async () => (await jobs.size()) === 0);
    worker.stop();
    await ended;
    const letters = await jobs.deadLetters();
    assert.deepEqual(
      Object.fromEntries(letters.map(({ id, attempt, reason }) => [id, [attempt, reason.split("\n")[0]]])),
      {
        ten: [10, "Error: no 10"],
        once: [1, "Error: no 1"],
        "as the worker says": [3, "Error: no 3"],
        four: [4, "Error: no 4"],
      },
    );
    assert.equal(notes.heard.filter((line) => line.startsWith("retried")).length, 9 + 0 + 2 + 3);
  });

  test("a job that is too late is not begun", async (t) => {
    const jobs = queueOf<string>(t, server.url, { library });
    await jobs.put("x", { id: "late", within: 50 });
    await until(async () => (await jobs.size()) === 0);
    assert.deepEqual(await jobs.deadLetters(), []);
    const { notes } = running(t, jobs, () => {});
    // The worker has made the rule for dead letters.
    await until(async () => ((await jobs.info()).policy as { deliveries: number }).deliveries > 0);
    await jobs.pause();
    await jobs.put("x", { id: "late", delay: 10, within: 50 });
    await jobs.putMany([{ payload: "x", id: "in time" }], { within: 60_000 });
    await sleep(200);
    await jobs.resume();
    await until(async () => (await jobs.size()) === 0 && notes.heard.length > 0);
    const letters = await jobs.deadLetters();
    assert.deepEqual(
      letters.map(({ id, attempt, reason }) => [id, attempt, reason]),
      [["late", 0, "expired"]],
    );
    assert.deepEqual(notes.heard, ["succeeded in time"]);
  });

  test("a job tells its group, which a retry keeps", async (t) => {
    const jobs = queueOf<string>(t, server.url, { library });
    const groups: unknown[] = [];
    await jobs.putMany([{ payload: "x", group: "ä" }, { payload: "none" }]);
    running(t, jobs, async ({ payload, attempt, group }) => {
      groups.push(await group());
      if (payload === "none") return;
      if (attempt === 1) throw new Retry(10);
      if (attempt === 2) throw new Error("no answer");
    });
    await until(async () => (await jobs.size()) === 0);
    assert.deepEqual(groups.sort(), [null, "ä", "ä", "ä"]);
  });

  test("a stop with a grace gives back what is not done by then", async (t) => {
    const jobs = queueOf<string>(t, server.url, { library });
    await jobs.putMany(["a", "b", "c"].map((id) => ({ payload: id, id })));
    const aborted: string[] = [];
    let end = () => {};
    const late = new Promise<void>((resolve) => {
      end = resolve;
    });
    const work = async ({ id, signal }: Job<string>) => {
      if (id === "a") return sleep(50);
      signal.addEventListener("abort", () => aborted.push(id));
      // One ends later with an error, which must not be reported.
      await late;
      throw new Error("too late");
    };
    const { worker, ended, notes } = running(t, jobs, work, { concurrency: 3, block: 20_000, attempts: 2 });
    await until(() => jobs.size().then((size) => size === 2));
    worker.stop(100);
    await ended;
    assert.deepEqual(aborted.sort(), ["b", "c"]);
    assert.deepEqual(
      notes.heard.slice(1).sort(),
      ["b", "c"].map((id) => `lost ${id}`),
    );
    const waiting = await jobs.look("b");
    assert.deepEqual([waiting?.attempt, waiting?.leased], [0, false]);
    end();
    await sleep(100);
    assert.equal(notes.heard.length, 3);
  });

  test("a stop with a grace ends though the server is away", async (t) => {
    const server = await RealServer.start();
    t.after(() => server.close());
    const jobs = queueOf<number>(t, server.url, { library });
    await jobs.putMany([100, 60_000].map((payload) => ({ payload })));
    let begun = 0;
    const work = async ({ payload, signal }: Job<number>) => {
      begun += 1;
      await sleep(payload, undefined, { signal });
    };
    const { worker, ended } = running(t, jobs, work, { concurrency: 2 });
    await until(() => begun === 2);
    await server.kill();
    await sleep(200);
    const began = performance.now();
    worker.stop(100);
    await ended;
    assert.ok(performance.now() - began < 30_000, `it took ${performance.now() - began} ms`);
  });

  test("a stop with a grace does not wait for a sleep in the server", async (t) => {
    const server = await RealServer.start();
    t.after(() => server.close());
    const { worker, ended } = running(t, queueOf(t, server.url, { library }), () => {}, { block: 120_000 });
    await until(async () => (await server.client.info("clients")).includes("blocked_clients:1"));
    const began = performance.now();
    worker.stop(50);
    await ended;
    assert.ok(performance.now() - began < 60_000);
  });

  test("queues are served in their order, and several jobs at a time", async (t) => {
    const [high, low] = ["high", "low"].map((name) => queueOf<string>(t, server.url, { library, name }));
    await low!.putMany(Array.from({ length: 5 }, () => ({ payload: "low" })));
    await high!.putMany(Array.from({ length: 5 }, () => ({ payload: "high" })));
    const seen: string[] = [];
    let most = 0;
    let now = 0;
    const work = async ({ payload, queue }: { payload: string; queue: string }) => {
      assert.equal(queue, payload);
      most = Math.max(most, ++now);
      seen.push(payload);
      await sleep(30);
      now -= 1;
    };
    running(t, [high!, low!], work, { concurrency: 2 });
    await until(async () => (await low!.size()) === 0);
    assert.deepEqual(seen, [...Array(5).fill("high"), ...Array(5).fill("low")]);
    assert.equal(most, 2);
  });

  test("a reply to POLL that is lost is asked for again, and nothing is done twice", async (t) => {
    const proxy = await CuttingProxy.start(server.port);
    t.after(() => proxy.close());
    const jobs = queueOf<string>(t, proxy.url, { library });
    const attempts: number[] = [];
    proxy.cutReplyTo("DEHYDRATOR.POLL\r\n$");
    await jobs.putMany(Array.from({ length: 5 }, (_, n) => ({ payload: `${n}` })));
    const { notes } = running(t, jobs, ({ attempt }) => attempts.push(attempt), { concurrency: 5, lease: 60_000 });
    await until(async () => (await jobs.size()) === 0);
    assert.deepEqual(attempts, [1, 1, 1, 1, 1]);
    assert.equal(proxy.cuts, 1);
    assert.ok(notes.heard.includes("interrupted"));
  });

  const quick = process.env.DEHYDRATOR_QUICK !== undefined;
  test("a worker of many queues is warned of nothing", async (t) => {
    const warnings: Error[] = [];
    const hear = (warning: Error) => warnings.push(warning);
    process.on("warning", hear);
    t.after(() => process.off("warning", hear));
    const queues = Array.from({ length: 12 }, () => queueOf<string>(t, server.url, { library }));
    const { worker, ended } = running(t, queues, () => {});
    const channel = `__cancelled@0__:${queues[11]!.name}`;
    await until(async () => ((await server.client.pubsub("NUMSUB", channel)) as unknown[])[1] === 1);
    worker.stop();
    await ended;
    assert.deepEqual(warnings, []);
  });

  for (const [what, trouble] of [
    ["a connection that says nothing costs", {}],
    // The first renewal fails, and the next one does not wait.
    ["a server that is away, and then silent, costs", { away: 3200, silent: 4600 }],
    // Each command is asked for longer than the one before.
    ["a slow server costs", { slow: 1500 }],
  ] as const) {
    test(`${what} no lease`, { skip: quick }, async (t) => {
      const proxy = await CuttingProxy.start(server.port);
      t.after(() => proxy.close());
      const jobs = queueOf<string>(t, proxy.url, { library });
      const others = queueOf<string>(t, server.url, { library, name: jobs.name });
      await jobs.put("x");
      const attempts: number[] = [];
      const work = async ({ attempt }: { attempt: number }) => {
        attempts.push(attempt);
        proxy.stall(trouble);
        await sleep(9000);
      };
      running(t, jobs, work, { lease: 6000 });
      await until(() => attempts.length > 0);
      running(t, others, work, { lease: 6000 });
      await until(async () => (await others.size()) === 0);
      assert.deepEqual(attempts, [1]);
    });
  }

  for (const command of ["SETTLE", "RELEASE", "REJECT"]) {
    test(`a reply to ${command} that is lost is asked for again`, async (t) => {
      const proxy = await CuttingProxy.start(server.port);
      t.after(() => proxy.close());
      const jobs = queueOf<string>(t, proxy.url, { library });
      await jobs.put("x", { id: "a" });
      proxy.cutReplyTo(command);
      let attempts = 0;
      const { notes } = running(t, jobs, () => {
        attempts += 1;
        if (command === "RELEASE" && attempts === 1) throw new Retry(10);
        if (command === "REJECT") throw new Reject("no");
      });
      await until(() => notes.heard.includes(command === "REJECT" ? "buried a: no" : "succeeded a"));
      assert.deepEqual([proxy.cuts, await jobs.size()], [1, 0]);
      assert.equal(attempts, command === "RELEASE" ? 2 : 1);
      assert.equal((await jobs.deadLetters()).length, command === "REJECT" ? 1 : 0);
    });
  }

  test("a server without the module, and a key of another type, end the worker", async (t) => {
    const bare = await RealServer.bare("--save", "");
    const end = new Worker(queueOf(t, bare.url, { library }), () => {}).run({ signals: false });
    await assert.rejects(end, ModuleMissingError);
    const jobs = queueOf(t, server.url, { library });
    await server.client.set(jobs.name, "text");
    await assert.rejects(new Worker(jobs, () => {}).run({ signals: false }), /WRONGTYPE/);
  });

  for (const name of ["started", "succeeded", "retried", "buried", "lost", "interrupted", "crashed"] as const) {
    test(`a hook \`${name}\` that throws ends nothing`, async (t) => {
      const printed = t.mock.method(console, "error", () => {});
      const proxy = await CuttingProxy.start(server.port);
      t.after(() => proxy.close());
      const jobs = queueOf<string>(t, proxy.url, { library });
      await jobs.put("first", { id: "a" });
      const hooks = new Notes();
      hooks[name] = () => {
        throw new Error("of the hook");
      };
      if (name === "crashed") {
        // The rejection of an asynchronous hook is not awaited.
        hooks.succeeded = async () => {
          throw new Error("of another");
        };
      }
      if (name === "interrupted") proxy.cutReplyTo("DEHYDRATOR.POLL\r\n$");
      const done: string[] = [];
      const work = async ({ payload, attempt, signal }: Job<string>) => {
        if (payload === "first" && attempt === 1) {
          if (name === "retried") throw new Retry(10);
          if (name === "buried") throw new Reject("no");
          if (name === "lost") {
            await jobs.cancel("a");
            await once(signal, "abort");
          }
        }
        done.push(payload);
      };
      running(t, jobs, work, { hooks, lease: 3000 });
      if (name === "crashed") await until(() => printed.mock.callCount() > 1);
      else await until(() => hooks.heard.includes("crashed Error: of the hook"));
      await jobs.put("last");
      await until(async () => (await jobs.size()) === 0);
      assert.deepEqual(done.sort(), name === "buried" ? ["last"] : ["first", "last"]);
    });
  }

  test("a renewal that fails is told of as one", async (t) => {
    const printed = t.mock.method(console, "error", () => {});
    const proxy = await CuttingProxy.start(server.port);
    t.after(() => proxy.close());
    proxy.rename("DEHYDRATOR.RENEW", "DEHYDRATOR.RENOW");
    const jobs = queueOf(t, proxy.url, { library });
    await jobs.put(1);
    const worker = new Worker(jobs, () => sleep(4000), { lease: 900, block: 100 });
    const ended = worker.run({ signals: false });
    await until(() => printed.mock.callCount() > 0);
    assert.match(String(printed.mock.calls[0]!.arguments[0]), /a renewal failed/);
    worker.stop();
    await ended;
  });

  test("Prometheus counts", async (t) => {
    const jobs = queueOf<string>(t, server.url, { library });
    const registry = new Registry();
    const hooks = new PrometheusHooks(registry);
    await jobs.putMany(["good", "good", "bad"].map((payload) => ({ payload })));
    running(
      t,
      jobs,
      ({ payload }) => {
        if (payload === "bad") throw new Reject("no");
      },
      { hooks },
    );
    const line = (outcome: string, n: number) =>
      `dehydrator_worker_jobs_total{queue="${jobs.name}",outcome="${outcome}"} ${n}`;
    await until(async () => {
      const told = await registry.metrics();
      return told.includes(line("succeeded", 2)) && told.includes(line("buried", 1));
    });
    assert.match(await registry.metrics(), /dehydrator_worker_seconds_count\{queue="[^"]*"\} 2/);
  });
});

test("a signal stops any number of workers, and Node warns of none", async (t) => {
  const server = await RealServer.start();
  t.after(() => server.close());
  const listeners = () => process.listenerCount("SIGTERM");
  const before = listeners();
  const work = async ({ signal }: Job) => once(signal, "abort");
  const jobs = queueOf(t, server.url);
  await jobs.put(1);
  const workers = Array.from({ length: 12 }, () => new Worker(jobs, work, { block: 100, hooks: new Notes() }));
  const running = workers.map((worker) => worker.run({ grace: 100 }));
  await until(async () => (await jobs.info()).leased === 1);
  assert.equal(listeners(), before + 1);
  process.kill(process.pid, "SIGTERM");
  await Promise.all(running);
  assert.deepEqual([listeners(), await jobs.size()], [before, 1]);
});
