import assert from "node:assert/strict";
import { before, test } from "node:test";
import { ModuleMissingError, ModuleTooOldError, NotFoundError, raw } from "dehydrator-queue";
import { Cluster, Redis } from "ioredis";
import { createClient } from "redis";
import type { Part } from "../src/keys.js";
import { timedOf } from "../src/verbs.js";
import { partsOf, queueOf, withEach } from "./harness.js";
import { CuttingProxy } from "./proxy.js";
import { RealServer, until } from "./servers.js";

withEach("a queue", (library) => {
  let server: RealServer;
  let bare: RealServer;
  before(async () => {
    server = await RealServer.start();
    bare = await RealServer.bare("--save", "");
  });

  test("what is put away waits for its delay", async (t) => {
    const jobs = queueOf(t, server.url, { library });
    const before = Date.now();
    const id = await jobs.put({ mail: "änna" }, { delay: 60_000 });
    assert.ok(id);
    const found = await jobs.look(id);
    assert.deepEqual(found?.payload, { mail: "änna" });
    assert.ok(found.due.getTime() >= before + 60_000 && found.due.getTime() <= Date.now() + 60_000);
    assert.deepEqual([found.attempt, found.leased, await jobs.size()], [0, false, 1]);
    const moment = new Date(Date.now() + 86_400_000);
    await jobs.put(1, { id: "at", at: moment });
    assert.deepEqual((await jobs.look("at"))?.due, moment);
    assert.equal(await jobs.look("nobody"), null);
  });

  test("an id that is there stays, unless it is replaced", async (t) => {
    const jobs = queueOf(t, server.url, { library });
    assert.equal(await jobs.put(1, { id: "a", delay: 60_000 }), "a");
    assert.equal(await jobs.put(2, { id: "a" }), null);
    assert.equal((await jobs.look("a"))?.payload, 1);
    assert.equal(await jobs.put(3, { id: "a", replace: true }), "a");
    assert.equal((await jobs.look("a"))?.payload, 3);
    await jobs.update("a", 4);
    assert.equal((await jobs.look("a"))?.payload, 4);
    await assert.rejects(jobs.update("b", 4), NotFoundError);
  });

  test("a job may have an end and attempts of its own", async (t) => {
    const jobs = queueOf(t, server.url, { library });
    const bounds = { within: 60_000, attempts: 10 };
    const look = async (id: string) => {
      const reply = (await server.client.call("DEHYDRATOR.LOOK", jobs.name, id, "FULL")) as unknown[];
      return (name: string) => reply[reply.indexOf(name) + 1];
    };
    await jobs.put(1, { id: "a", delay: 600_000, ...bounds });
    await jobs.putMany([{ payload: 1, id: "b", at: Date.now() + 600_000 }], bounds);
    for (const id of ["a", "b"]) {
      const told = await look(id);
      assert.equal(Number(told("until")) - Number(told("deadline")), 60_000);
      assert.equal(told("deliveries-limit"), 10);
    }
    await jobs.put(1, { id: "c" });
    const told = await look("c");
    assert.deepEqual([told("until"), told("deliveries-limit")], [null, 0]);
    await assert.rejects(jobs.put(1, { within: 0 }), RangeError);
    await assert.rejects(jobs.put(1, { attempts: 65_536 }), RangeError);
  });

  test("groups of jobs take turns", async (t) => {
    const jobs = queueOf(t, server.url, { library });
    await jobs.put(1, { id: "a1", group: "anna" });
    await jobs.putMany(
      ["a2", "a3"].map((id) => ({ payload: 1, id })),
      { group: "anna" },
    );
    await jobs.put(1, { id: "b1", group: "bert" });
    await jobs.put(1, { id: "-" });
    const told = (await server.client.call("DEHYDRATOR.POLL", jobs.name, "WITHIDS")) as [string, string][];
    assert.deepEqual(
      told.map(([id]) => id),
      ["a1", "b1", "-", "a2", "a3"],
    );
    await assert.rejects(jobs.put(1, { group: "c".repeat(1025) }), /GROUP/);
  });

  test("many are put away at once, and listed in their order", async (t) => {
    const jobs = queueOf<number>(t, server.url, { library });
    await jobs.put(0, { id: "7" });
    const items = Array.from({ length: 2500 }, (_, n) => ({ payload: n, id: String(n), delay: 60_000 + n }));
    const ids = await jobs.putMany(items);
    const stored = (id: string) => ({ id, outcome: "stored" });
    const [exists, there] = [{ id: "7", outcome: "exists" }, [ids[6], ids[7], ids[2499]]];
    assert.deepEqual([ids.length, there], [2500, [stored("6"), exists, stored("2499")]]);
    assert.equal((await jobs.putMany([{ payload: 1 }]))[0]?.outcome, "stored");
    const listed: string[] = [];
    for await (const { id } of jobs) listed.push(id);
    assert.deepEqual([listed.length, listed[0], listed[2], listed.at(-1)], [2501, "7", "0", "2499"]);
    await jobs.limit({ length: 2502 });
    const outcomes = (await jobs.putMany([{ payload: 1 }, { payload: 2 }])).map(({ outcome }) => outcome);
    assert.deepEqual(outcomes, ["stored", "full"]);
    const full = { id: "new", outcome: "full" };
    assert.deepEqual(await jobs.putMany(["7", "new"].map((id) => ({ payload: 1, id }))), [exists, full]);
  });

  test("many are put away for moments and after delays, and each reply is in its place", async (t) => {
    const jobs = queueOf<number>(t, server.url, { library });
    const moments = [new Date("2030-01-01T00:00:00Z"), new Date("2031-01-01T00:00:00Z")];
    const items = Array.from({ length: 1500 }, (_, n) => {
      const id = String(n % 1499);
      return n % 3 === 2 ? { payload: n, id, delay: 60_000 } : { payload: n, id, at: moments[n % 3]! };
    });
    const ids = await jobs.putMany(items);
    const stored = items.slice(0, 1499).map(({ id }) => ({ id, outcome: "stored" }));
    assert.deepEqual(ids, [...stored, { id: "0", outcome: "exists" }]);
    for (const n of [0, 1, 1498]) assert.deepEqual((await jobs.look(String(n)))?.due, moments[n % 3]);
    assert.ok((await jobs.look("2"))!.due.getTime() <= Date.now() + 60_000);
    await jobs.putMany([{ payload: 1, id: "0", at: Number(moments[1]) }], { replace: true });
    assert.deepEqual((await jobs.look("0"))?.due, moments[1]);
    await assert.rejects(jobs.putMany([{ payload: 1, at: Number.NaN }]), RangeError);
  });

  test("jobs are cancelled and postponed by their ids", async (t) => {
    const jobs = queueOf(t, server.url, { library });
    await jobs.putMany(["a", "b", "c"].map((id) => ({ payload: id, id })));
    assert.equal(await jobs.cancel("a", "b", "nobody"), 2);
    assert.equal(await jobs.cancel(), 0);
    assert.equal(await jobs.postpone("c", 60_000), true);
    assert.ok((await jobs.look("c"))!.due.getTime() > Date.now() + 50_000);
    const moment = new Date(2030, 1, 1);
    assert.equal(await jobs.postpone("c", moment), true);
    assert.deepEqual((await jobs.look("c"))?.due, moment);
    assert.equal(await jobs.postpone("nobody", 0), false);
  });

  test("ids and payloads may be any bytes", async (t) => {
    const jobs = queueOf<Uint8Array>(t, server.url, { library, codec: raw() });
    const id = Buffer.from([0, 255, 13, 10]);
    await jobs.put(new Uint8Array([255, 0]), { id });
    assert.deepEqual((await jobs.look(id))?.payload, Buffer.from([255, 0]));
    for await (const waiting of jobs) assert.deepEqual(waiting.idBytes, id);
    assert.equal(await jobs.cancel(id), 1);
  });

  test("what is no JSON is refused", async (t) => {
    const jobs = queueOf(t, server.url, { library });
    await assert.rejects(jobs.put(undefined), TypeError);
    assert.equal(await jobs.size(), 0);
  });

  test("a pause is made and ended", async (t) => {
    const jobs = queueOf(t, server.url, { library });
    await jobs.pause();
    assert.equal((await jobs.info()).paused, 1);
    assert.equal(await jobs.resume(), true);
    assert.equal(await jobs.resume(), false);
    await jobs.pause(20);
    await until(async () => (await jobs.info()).paused === 0);
  });

  test("a group is paused, postponed and cancelled", async (t) => {
    const jobs = queueOf<number>(t, server.url, { library });
    for (const group of ["anna", "bert"]) {
      const items = [0, 1, 2].map((n) => ({ payload: n, id: `${group}:${n}`, delay: 60_000 }));
      await jobs.putMany(items, { group });
    }
    await jobs.pause(30_000, { group: "anna" });
    await jobs.pause(undefined, { group: "bert" });
    for (const [group, paused] of Object.entries({ anna: 1, bert: 1, carl: 0 })) {
      assert.equal((await jobs.info({ group })).paused, paused);
    }
    assert.equal(await jobs.resume(), false);
    assert.equal(await jobs.resume({ group: "anna" }), true);
    assert.equal(await jobs.resume({ group: "anna" }), false);
    assert.equal(await jobs.postponeAll({ group: "anna" }, 600_000), 3);
    assert.ok((await jobs.look("anna:0"))!.due.getTime() > Date.now() + 500_000);
    assert.equal(await jobs.cancelAll({ prefix: "anna:2" }), 1);
    assert.equal(await jobs.cancelAll({ group: "anna" }), 2);
    assert.equal(await jobs.cancelAll({ prefix: "" }), 3);
  });

  test("a server without the module is named", async (t) => {
    const jobs = queueOf(t, bare.url, { library });
    await assert.rejects(jobs.put(1), ModuleMissingError);
    await assert.rejects(jobs.check(), ModuleMissingError);
    await queueOf(t, server.url, { library }).check();
  });

  test("a key of another type is an error at once", async (t) => {
    const jobs = queueOf(t, server.url, { library });
    await server.client.set(jobs.name, "text");
    await assert.rejects(jobs.put(1), /WRONGTYPE/);
  });

  test("a wrong password is an error at once, and no server is one after patience", async (t) => {
    const locked = await RealServer.start();
    await locked.client.config("SET", "requirepass", "secret");
    const began = performance.now();
    const wrong = locked.url.replace("//", "//:wrong@");
    await assert.rejects(queueOf(t, wrong, { library }).put(1), /WRONGPASS|NOAUTH|invalid username-password/);
    assert.ok(performance.now() - began < 60_000);
    const right = locked.url.replace("//", "//:secret@");
    assert.ok(await queueOf(t, right, { library }).put(1));
    await locked.close();
    await assert.rejects(queueOf(t, right, { library, patience: 200 }).put(1), /ECONNREFUSED/);
  });

  test("what is put away while the server restarts arrives once", async (t) => {
    const server = await RealServer.start();
    const jobs = queueOf<number>(t, server.url, { library, patience: 20_000 });
    await jobs.put(0);
    await server.kill();
    const putting = Promise.all(Array.from({ length: 50 }, (_, n) => jobs.put(n, { id: `n${n}` })));
    await server.up();
    assert.equal((await putting).filter((id) => id === null).length, 0);
    assert.equal(await jobs.size(), 51);
    await server.close();
  });

  test("a script that runs for too long is waited for, by connections old and new", async (t) => {
    const server = await RealServer.start("--busy-reply-threshold", "50");
    t.after(() => server.close());
    const old = queueOf(t, `${server.url}/1`, { library, name: "jobs" });
    await old.put(1);
    await server.client.ping();
    const looping = server.client.duplicate();
    t.after(() => looping.disconnect());
    looping.eval("while true do end", 0).catch(() => {});
    const busy = async () => (await server.client.ping().catch(String)).includes("BUSY");
    await until(busy);
    const told: string[] = [];
    const tell = (error: unknown) => told.push(String(error));
    const queues = [old, queueOf(t, `${server.url}/1`, { library, name: "jobs" })];
    const putting = queues.map(async (jobs) => {
      const [{ server, verbs }] = (await partsOf(jobs)) as [Part<unknown>];
      return server.ask(verbs.putMany([{ ...timedOf({ id: `${jobs === old}` }), element: "2" }]), {
        tell,
      });
    });
    await until(() => told.length >= 3);
    await server.client.script("KILL");
    assert.equal((await Promise.all(putting)).filter(Boolean).length, 2);
    await server.client.select(1);
    assert.equal(await server.client.call("DEHYDRATOR.LEN", "jobs"), 3);
    for (const line of told) assert.match(line, /BUSY/);
  });

  test("a PUSH whose reply is lost is sent again, and put away once", async (t) => {
    const proxy = await CuttingProxy.start(server.port);
    t.after(() => proxy.close());
    const jobs = queueOf(t, proxy.url, { library });
    proxy.cutReplyTo("DEHYDRATOR.PUSH");
    assert.ok(await jobs.put(1));
    assert.deepEqual([proxy.cuts, await jobs.size()], [1, 1]);
  });

  const quick = process.env.DEHYDRATOR_QUICK !== undefined;
  test("a connection that says nothing is given up", { skip: quick }, async (t) => {
    const proxy = await CuttingProxy.start(server.port);
    t.after(() => proxy.close());
    const jobs = queueOf(t, proxy.url, { library });
    await jobs.put(1);
    proxy.stall();
    assert.ok(await jobs.put(2));
    assert.equal(await jobs.size(), 2);
  });

  test("a queue that is closed says so", async (t) => {
    const jobs = queueOf(t, server.url, { library });
    await jobs.put(1);
    jobs.close();
    await assert.rejects(jobs.put(1), /closed/);
  });

  test("a client of one's own will do, and stays as it was", async (t) => {
    const own =
      library === "ioredis"
        ? new Redis(server.port, { keyPrefix: "app:", maxRetriesPerRequest: null, stringNumbers: true })
        : createClient({ url: server.url });
    own.on("error", () => {});
    if (!(own instanceof Redis)) await own.connect();
    t.after(() => own.quit());
    const jobs = queueOf(t, own as never);
    await jobs.put({ n: 1 }, { id: "a" });
    assert.equal(await jobs.put({ n: 1 }, { id: "a" }), null);
    assert.deepEqual((await jobs.look("a"))?.payload, { n: 1 });
    assert.equal(await jobs.revive(), 0);
    jobs.close();
    assert.equal(await (own as Redis).ping(), "PONG");
  });
});

test("what is no server is refused", async (t) => {
  assert.throws(() => queueOf(t, "http://127.0.0.1"), TypeError);
  assert.throws(() => queueOf(t, "redis+sentinel://127.0.0.1:26379"), /name of the primary/);
  assert.throws(() => queueOf(t, {} as never), TypeError);
  const cluster = new Cluster([{ port: 1 }], { lazyConnect: true });
  const [part] = await partsOf(queueOf(t, cluster, { name: "jobs" }));
  assert.equal(part?.verbs.dead, "{jobs}:dead");
});

test("a module that is too old is named", async (t) => {
  for (const [version, isOld] of [
    ["0.0.9", true],
    ["0.1.0", false],
    ["0.10.0", false],
    ["1.0.0-rc.1", false],
    // Who may not read it goes on.
    ["", false],
  ] as const) {
    const send = async ([name]: readonly (string | Buffer)[]) => {
      if (name === "INFO" && version !== "") return `dehydrator_version:${version}\r\n`;
      if (name === "INFO") throw new Error("NOPERM this user has no permissions");
      throw new Error(name === "DEHYDRATOR.POLL" ? "ERR wrong number of arguments" : `ERR unknown command '${name}'`);
    };
    const jobs = queueOf(t, { cluster: false, open: async () => ({ alive: true, send, close() {} }) });
    const said = await jobs.check().catch((error) => error);
    assert.equal(said instanceof ModuleTooOldError && said.message.includes(version), isOld, `${version}: ${said}`);
  }
});
