// What makes no sense is refused with the name of the option, before anything is sent: every option there is.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { Queue, Retry, Worker } from "dehydrator-queue";
import { MemoryServer } from "dehydrator-queue/testing";

// biome-ignore lint/suspicious/noExplicitAny: what JavaScript would pass
type Any = any;

const memory = new MemoryServer();
const jobs = new Queue<Any>(memory, "jobs");
after(() => jobs.close());

const work = () => {};
const letter = { key: "jobs", entry: "0-1" };

/** The calls that take options, with other words that make them complete. */
const CALLS: Record<string, [call: (options: Any) => unknown, rest?: object]> = {
  "new Queue": [(options) => new Queue(memory, "jobs", options)],
  "new Worker": [(options) => new Worker(jobs, work, options)],
  "backoff of new Worker": [(backoff) => new Worker(jobs, work, { backoff })],
  "hooks of new Worker": [(hooks) => new Worker(jobs, work, { hooks })],
  Retry: [(options) => new Retry(5, "later", options)],
  run: [(options) => new Worker(jobs, work).run(options)],
  put: [(options) => jobs.put(1, options)],
  putMany: [(options) => jobs.putMany([{ payload: 1 }], options)],
  "items of putMany": [(item) => jobs.putMany([item]), { payload: 1 }],
  every: [(options) => jobs.every("tick", 1, options), { interval: 5 }],
  limit: [(options) => jobs.limit(options)],
  limits: [(of) => jobs.limits(of)],
  pause: [(of) => jobs.pause(5, of)],
  resume: [(of) => jobs.resume(of)],
  info: [(of) => jobs.info(of)],
  cancelAll: [(selection) => jobs.cancelAll(selection)],
  postponeAll: [(selection) => jobs.postponeAll(selection, 5)],
  setPolicy: [(policy) => jobs.setPolicy(policy), { attempts: 5 }],
  revive: [(edited) => jobs.revive([letter, letter], edited)],
};

const NUMBERS = [Number.NaN, Number.POSITIVE_INFINITY, -1, "5", null, true, {}];
const COUNTS = [...NUMBERS, 0, 1.5];
const MOMENTS = [Number.NaN, "2030-01-01", null, new Date("no"), true];
const WORDS = ["", new Uint8Array(), 5, null, {}, ["a"]];
const FLAGS = ["yes", 1, null];
const OWN = {
  within: [...NUMBERS, 0],
  attempts: [...COUNTS, 65_536],
  group: WORDS,
  timeout: [...NUMBERS, 0],
};
const TIMED = { ...OWN, id: WORDS, delay: NUMBERS, at: MOMENTS, replace: FLAGS };
const CAPS = [-1, 1.5, Number.NaN, "5"];
const RATES = [10, [10], [10, 1000, 1], ["10", 1000], [10, "1000"], [0, 1000], [10, 0], "10/s"];

/** What each option refuses. Any payload will do, which is what `never` tells. */
const WRONG: Record<string, Record<string, readonly unknown[]>> = {
  "new Queue": {
    codec: [{}, "json", null, { encode: work }],
    dead: ["", 5],
    patience: NUMBERS,
    library: ["valkey", 5, null],
    hooks: [{ sent: work }, "all", null],
    logger: [{}, console.log, { debug: work, info: work, warn: work }],
    keys: [0, 1.5, "many", Number.NaN],
  },
  "new Worker": {
    concurrency: COUNTS.filter((one) => one !== null),
    lease: [...NUMBERS.filter((one) => one !== null), 99],
    attempts: [...COUNTS.filter((one) => one !== null), 65_536],
    keepDead: COUNTS.filter((one) => one !== null),
    timeout: [...NUMBERS, 0],
    keepPlace: FLAGS,
    backoff: [5, null, "fast", { frist: 1 }],
    block: NUMBERS.filter((one) => one !== null),
    waitReplicas: [-1, 1.5, "1", Number.NaN, 1],
    hooks: [{ done: work }, "all", null],
    logger: [{}, console.log],
  },
  "backoff of new Worker": {
    first: NUMBERS,
    factor: [...NUMBERS, 0.5],
    most: NUMBERS,
    jitter: [...NUMBERS, 1.5],
  },
  "hooks of new Worker": Object.fromEntries(
    "logger sending received working settling begun overruled ended started succeeded retried buried lost interrupted crashed"
      .split(" ")
      .map((name) => [name, []]),
  ),
  Retry: { counted: FLAGS },
  run: { signals: FLAGS, grace: NUMBERS },
  put: TIMED,
  putMany: { ...OWN, replace: FLAGS },
  "items of putMany": { ...TIMED, payload: [] },
  every: {
    ...OWN,
    cron: ["", 5, null, "5000"],
    zone: ["", 5, null],
    interval: [...NUMBERS, 0],
    from: MOMENTS,
    until: MOMENTS,
    times: COUNTS,
    missed: ["some", 5, null],
    overlap: ["skipped", true, null],
    jitter: NUMBERS,
  },
  limit: {
    length: CAPS,
    held: CAPS,
    rate: RATES,
    remember: [-1, Number.NaN, "5"],
    eachLength: CAPS,
    eachHeld: CAPS,
    eachRate: RATES,
    group: WORDS,
    share: COUNTS,
  },
  limits: { group: WORDS.slice(2) },
  pause: { group: WORDS },
  resume: { group: WORDS },
  info: { group: WORDS.slice(2) },
  cancelAll: { group: [...WORDS, undefined], prefix: [...WORDS.slice(2), undefined] },
  postponeAll: { group: [...WORDS, undefined] },
  setPolicy: { attempts: [...COUNTS, 65_536], keepDead: COUNTS.filter((one) => one !== null) },
  revive: { payload: [1] },
};

/** What becomes of a call: the text of a TypeError or a RangeError. */
async function refused(call: () => unknown): Promise<string> {
  try {
    await call();
  } catch (error) {
    if (error instanceof TypeError || error instanceof RangeError) return error.message;
    return `${error}`;
  }
  return "it was taken";
}

for (const [name, [call, rest = {}]] of Object.entries(CALLS)) {
  test(`the options of ${name}`, async () => {
    // The list in the error is whole, and so is this table.
    const misspelled = await refused(() => call({ ...rest, dealy: 5 }));
    const [, all = ""] = /^there is no option `dealy`: known are (.*)$/.exec(misspelled) ?? assert.fail(misspelled);
    assert.deepEqual(all.split(", ").sort(), Object.keys(WRONG[name]!).sort());
    for (const [option, some] of Object.entries(WRONG[name]!)) {
      const own = option === "cron" ? {} : option === "zone" ? { cron: "0 9 * * *" } : rest;
      const beside = option === "share" ? { group: "anna" } : {};
      for (const value of some) {
        const text = await refused(() => call({ ...own, ...beside, [option]: value }));
        // Those of a group or of each are named by their last word.
        const word = option.replace(/^each/, "").toLowerCase();
        const isNamed = text.toLowerCase().includes(`\`${word}`) || text.includes(`.${option}\``);
        const isInner = /there is no option `|`(encode|debug)|an object|name either|`keys`/.test(text);
        assert.ok(isNamed || isInner, `${option}: ${String(value)}: ${text}`);
      }
    }
    // `info(of)` reads `of`; null is for JavaScript alone.
    if (name !== "hooks of new Worker") assert.match(await refused(() => call(null)), /is an object, and not null/);
    assert.equal(await jobs.size(), 0);
  });
}

test("what comes before options", async () => {
  const some: [(wrong: Any) => unknown, string, readonly unknown[]][] = [
    [(name) => new Queue(memory, name), "name", ["", 5, null, undefined]],
    [(queues) => new Worker(queues, work), "queue", [[], "jobs", null, [jobs, jobs]]],
    [(own) => new Worker(jobs, own), "work", [null, "work", 5]],
    [(grace) => new Worker(jobs, work).stop(grace), "grace", NUMBERS],
    [(delay) => new Retry(delay), "delay", NUMBERS],
    [(name) => jobs.every(name, 1, { interval: 5 }), "name", WORDS],
    [(options) => jobs.every("tick", 1, options), "options", [undefined, null, 5]],
    [(duration) => jobs.pause(duration), "duration", [...NUMBERS, 0]],
    [(duration) => memory.advance(duration), "duration", NUMBERS],
    [(now) => new MemoryServer(now), "now", MOMENTS],
    [(id) => jobs.cancel("a", id), "id", [...WORDS, undefined]],
    [(id) => jobs.look(id), "id", [...WORDS, undefined]],
    [(id) => jobs.update(id, 1), "id", [...WORDS, undefined]],
    [(id) => jobs.postpone(id, 5), "id", [...WORDS, undefined]],
    [(until) => jobs.postpone("a", until), "until", [...NUMBERS, "2030-01-01", new Date("no")]],
    [(delay) => jobs.postponeAll({ group: "anna" }, delay), "delay", NUMBERS],
    [(count) => jobs.deadLetters(count), "count", COUNTS],
    [(which) => jobs.revive(which), "which", [...COUNTS, ["d1"], letter, [null]]],
    [(letters) => jobs.dropDeadLetters(letters), "letters", ["a", 5, null, ["d1"], letter]],
    [(name) => jobs.schedules.get(name), "name", WORDS],
    [(name) => jobs.schedules.run(name), "name", WORDS],
    [(name) => (jobs as Any).put(name, {}, {}), "put(payload, options)", ["mail"]],
    [(item) => jobs.putMany([item]), "item", [null, "a", 5]],
  ];
  for (const [call, name, values] of some) {
    for (const value of values) {
      const text = await refused(() => call(value));
      assert.ok(text.includes(name) && !/Cannot read|is not a function|not iterable/.test(text), `${name}: ${text}`);
    }
  }
});

test("what excludes each other", async () => {
  const soon = { delay: 5, at: 5 };
  for (const [call, ...names] of [
    [() => jobs.put(1, soon), "delay", "at"],
    [() => jobs.putMany([{ payload: 1 }, { payload: 1, ...soon }]), "delay", "at"],
    [() => jobs.every("tick", 1, {}), "cron", "interval"],
    [() => jobs.every("tick", 1, { cron: "* * * * *", interval: 5 }), "cron", "interval"],
    [() => jobs.every("tick", 1, { interval: 5, zone: "UTC" }), "cron", "zone"],
    [() => jobs.limit({}), "limit"],
    [() => jobs.limit({ share: 2 }), "share", "group"],
    [() => jobs.limit({ group: "anna", eachHeld: 1 }), "each", "group"],
    [() => jobs.limit({ group: "anna", remember: 5 }), "remember", "group"],
    [() => jobs.cancelAll({} as Any), "group", "prefix"],
    [() => jobs.cancelAll({ group: "anna", prefix: "a" }), "group", "prefix"],
    [() => new Queue(memory, "jobs", { keys: 2, dead: "others" }), "keys"],
    [() => jobs.revive(5, { payload: 1 }), "payload", "letter"],
  ] as const) {
    const text = await refused(call);
    for (const name of names) assert.ok(text.includes(name), text);
  }
  assert.equal(await jobs.size(), 0);
});
