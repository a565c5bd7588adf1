// What an operator looks at.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, test } from "node:test";
import { moment } from "../../web/figures.js";
import { b64 } from "./operator.js";
import { scene } from "./scene.js";
import { Server, Top } from "./servers.js";
import { until } from "./until.js";

const MESSAGES = JSON.parse(readFileSync(new URL("messages.json", import.meta.url)));
const HOUR = 3_600_000;

/** Opens the overview with the queues whose names contain a text. */
const overview = (text) => scene.operator.open(`#/?match=${encodeURIComponent(text)}`);

/** Returns the cells of a queue's row, by the names of their columns. */
async function row(key) {
  const { page } = scene.operator;
  return page.$$eval(
    "main tbody tr",
    (rows, wanted) => {
      const found = rows.find((each) => each.querySelector("td.id")?.innerText.trim().startsWith(wanted));
      return found && Object.fromEntries([...found.cells].map((cell) => [cell.dataset.label, cell.innerText.trim()]));
    },
    key,
  );
}

/** Waits until a queue's row has these cells. */
function seesRow(key, cells) {
  let last;
  return until(
    async () => {
      last = await row(key);
      return last && Object.entries(cells).every(([name, value]) => last[name] === value);
    },
    `the row of ${key} with ${JSON.stringify(cells)}`,
  ).catch((error) => {
    throw new Error(`${error.message}; it shows ${JSON.stringify(last)}`);
  });
}

describe("an operator looks", () => {
  test("01 at each queue: waiting, due, held and dead", async () => {
    const { server, operator } = scene;
    await server.call("DEHYDRATOR.ONDUE", "shop", "HOLD", "DELIVERIES", 1, "STREAM", "shop:dead");
    await server.fill("shop", 3, { ttl: () => HOUR, prefix: "later:" });
    await server.fill("shop", 1, { ttl: () => 0, prefix: "dead:" });
    await server.poll("shop", 1, "carl", 1);
    // Its only delivery is over: the server moves it.
    await until(async () => (await server.call("XLEN", "shop:dead")) === 1, "the dead letter");
    await server.fill("shop", 4, { ttl: () => 0, prefix: "due:" });
    await server.poll("shop", 2, "anna-1");
    await overview("shop");
    await seesRow("shop", { Waiting: "3", Due: "2", Held: "2", Dead: "1" });
    const info = await server.info("shop");
    assert.deepEqual([info.length, info.due, info.leased], [7, 2, 2]);
    assert.deepEqual(operator.faults, []);
  });

  test("02 for a queue, by a part of its name", async () => {
    const { server, operator } = scene;
    await server.push("needle:invoices", HOUR, "x", "1");
    await server.push("needle:mails", HOUR, "x", "1");
    await operator.open("#/");
    await operator.type("Name contains", "le:inv");
    await operator.button("Filter");
    await operator.seesIds(["needle:invoices"]);
  });

  test("03 at the queues in the order of a column", async () => {
    const { server, operator } = scene;
    for (const [key, due] of [
      ["sorted:a", 2],
      ["sorted:b", 5],
      ["sorted:c", 1],
    ])
      await server.fill(key, due, { ttl: () => 0 });
    await overview("sorted:");
    await seesRow("sorted:c", { Due: "1" });
    await operator.button("Due");
    await operator.seesIds(["sorted:b", "sorted:a", "sorted:c"]);
    await operator.button("Due");
    await operator.seesIds(["sorted:c", "sorted:a", "sorted:b"]);
  });

  test("04 at what is late, and for how long", async () => {
    const { server } = scene;
    await server.push("late", 0, "x", "1");
    await until(async () => (await server.info("late")).overdue === 1, "it is overdue");
    await overview("late");
    await seesRow("late", { Late: "1", State: "late" });
    assert.match((await row("late"))["Oldest due"], / s$/);
  });

  test("05 at limits, and how much of them is used", async () => {
    const { server, operator } = scene;
    await server.call(
      "DEHYDRATOR.LIMIT",
      "limited",
      "LENGTH",
      20,
      "HELD",
      4,
      "RATE",
      10,
      "PER",
      60000,
      "REMEMBER",
      60000,
    );
    await server.fill("limited", 8, { ttl: () => 0 });
    await server.poll("limited", 3, "anna-2");
    await overview("limited");
    await until(
      async () => (await row("limited"))?.Limits.includes("held 3 running of 4"),
      "the limits in the overview",
    );
    await operator.openQueue(server, "limited");
    for (const text of ["8 of 20", "3 running of 4", "3 of 10 in 1 min", "ids for 1 min"])
      await operator.sees(text, ".limits");
    assert.equal((await server.info("limited")).running, 3);
  });

  test("06 at which queues are paused, and until when", async () => {
    const { server, operator } = scene;
    await server.push("halted", HOUR, "x", "1");
    await server.call("DEHYDRATOR.PAUSE", "halted");
    await overview("halted");
    await seesRow("halted", { State: "paused", Next: "paused" });
    const end = new Date(Date.now() + 2 * HOUR);
    await server.call("DEHYDRATOR.PAUSE", "halted", "AT", end.getTime());
    const told = `paused until ${moment(end.getTime())}`;
    await seesRow("halted", { State: "paused", Next: told });
    await operator.openQueue(server, "halted");
    await operator.sees(`Next\n${told}`, ".stats");
  });

  test("07 at deliveries that fail, and why", async () => {
    const { server, operator } = scene;
    await server.call("SET", "no-stream", "x");
    await server.call("DEHYDRATOR.ONDUE", "broken", "STREAM", "parcels-broken");
    await server.call("SET", "parcels-broken", "x");
    await server.push("broken", 0, "x", "1");
    await until(async () => (await server.info("broken")).failures > 0, "a failure");
    await overview("broken");
    await until(async () => (await row("broken"))?.State.includes("failing"), "failing");
    await operator.openQueue(server, "broken");
    await operator.sees("deliveries failed since");
    await operator.sees((await server.info("broken"))["last-failure"]);
    await server.call("DEL", "broken");
  });

  test("08 at figures that change without a reload", async () => {
    const { server, operator } = scene;
    await server.push("alive", HOUR, "x", "1");
    await overview("alive");
    await seesRow("alive", { Waiting: "1" });
    await operator.page.evaluate(() => {
      window.same = true;
    });
    await server.fill("alive", 41);
    await seesRow("alive", { Waiting: "42" });
    assert.equal(await operator.page.evaluate(() => window.same), true);
  });

  test("09 at the charts of the last hour", async () => {
    const { server, operator } = scene;
    await operator.open("#/");
    await until(() => operator.page.$$eval(".chart canvas", (all) => all.length === 3), "three charts");
    const drawn = () =>
      operator.page.$eval(".chart canvas", (canvas) =>
        canvas
          .getContext("2d")
          .getImageData(0, 0, canvas.width, canvas.height)
          .data.some((byte) => byte > 0),
      );
    await until(drawn, "something is drawn");
    await operator.sees("waiting ", ".charts");
    const info = await server.call("INFO", "dehydrator");
    assert.equal(await operator.text("#version"), /dehydrator_version:(\S+)/.exec(info)[1]);
    // It counts what the server has moved, not the dead letters that are there.
    assert.match(await operator.figure("Dead letters since start"), /^\d/);
  });

  test("10 at what comes next, in the order of deadlines", async () => {
    const { server, operator } = scene;
    const deadlines = [50, 10, 40, 20, 30];
    for (const at of deadlines) await server.push("ordered", HOUR + at * 1000, "x", `at-${at}`);
    await operator.openQueue(server, "ordered");
    await operator.seesIds(["at-10", "at-20", "at-30", "at-40", "at-50"]);
    assert.deepEqual(
      (await server.range("ordered")).map(([id]) => id),
      await operator.ids(),
    );
  });

  test("11 at every page of a long queue, once at each element", async () => {
    const { server, operator } = scene;
    await server.fill("long", 230, { ttl: (n) => HOUR + ((n * 7919) % 230) * 1000 });
    await operator.openQueue(server, "long");
    const seen = [];
    for (let page = 0; page < 5; page += 1) {
      await until(
        async () => (await operator.ids()).length > 0 && (await operator.ids())[0] !== seen.at(-50),
        "the next page",
      );
      seen.push(...(await operator.ids()));
      if (page < 4) await operator.button("Next page ›");
    }
    assert.deepEqual(
      seen,
      (await server.range("long")).map(([id]) => id),
    );
    await operator.button("‹ Previous");
    await operator.seesIds(seen.slice(150, 200));
  });

  test("12 at a moment deep in a queue, by a jump", async () => {
    const { server, operator } = scene;
    const day = new Date();
    day.setDate(day.getDate() + 2);
    const at = (hours, minutes) => new Date(day).setHours(hours, minutes, 0, 0);
    await server.fill("jumps", 300);
    for (const [id, moment] of [
      ["before", at(14, 4)],
      ["exactly", at(14, 5)],
      ["after", at(14, 6)],
    ])
      await server.push("jumps", 0, "x", id, "AT", moment);
    await operator.openQueue(server, "jumps");
    const date = `${day.getFullYear()}-${String(day.getMonth() + 1).padStart(2, "0")}-${String(day.getDate()).padStart(2, "0")}`;
    await operator.type("Jump to a moment", `${date} 14:05`);
    await operator.button("Jump");
    await operator.seesIds(["exactly", "after"]);
    await operator.click("link", "« First page");
    await until(async () => (await operator.ids()).length === 50, "the first page");
  });

  test("13 at who holds an element, until when, at which attempt", async () => {
    const { server, operator } = scene;
    await server.fill("leases", 3, { ttl: () => 0 });
    await server.poll("leases", 1, "anna-3", 600_000);
    // Held longer than the next one, by some milliseconds.
    await new Promise((resolve) => setTimeout(resolve, 20));
    await server.poll("leases", 1, "bert-7", 120_000);
    await operator.openQueue(server, "leases", "&view=held");
    await operator.seesIds(["job:1", "job:0"]);
    const [first, second] = await operator.rows();
    // A word cannot be told from the number: the page says so.
    const note = "also one that a worker chose as a word: the word cannot be shown";
    await operator.sees(note);
    await operator.openElement(server, "leases", "job:0");
    await operator.sees(note);
    // And in all queues, those held the longest first.
    await operator.open("#/workers");
    const here = async () => (await operator.rows()).filter((cells) => cells[1] === "leases");
    await until(async () => (await here()).length === 2, "both leases among those of all queues");
    assert.deepEqual(
      (await here()).map(([id, , , , attempt, token]) => [id, attempt, token]),
      [second, first].map((cells) => [cells[1], "1", cells[5]]),
    );
    // The server keeps a number of each token, which its commands accept.
    assert.deepEqual(await server.call("DEHYDRATOR.SETTLE", "leases", first[5], "job:1"), [1]);
    assert.deepEqual(await server.call("DEHYDRATOR.SETTLE", "leases", second[5], "job:0"), [1]);
    assert.match(first[2], /^in 1 min 5\d s \d\d:\d\d:\d\d$|^in 2 min /);
    assert.equal(first[4], "1");
  });

  test("14 at what is due alone", async () => {
    const { server, operator } = scene;
    await server.fill("mixed", 2, { prefix: "due:", ttl: () => 0 });
    await server.fill("mixed", 60, { prefix: "later:" });
    await operator.openQueue(server, "mixed", "&view=due");
    await operator.seesIds(["due:0", "due:1"]);
  });

  test("15 for an element, by a part of its id", async () => {
    const { server, operator } = scene;
    await server.fill("ids", 3000, { prefix: "order:" });
    await operator.openQueue(server, "ids");
    await operator.type("Id contains", "ER:2999");
    await operator.button("Filter");
    await operator.seesIds(["order:2999"]);
    await operator.button("Clear");
    await until(async () => (await operator.ids()).length === 50, "all again");
  });

  test("16 for elements, by a part of their text", async () => {
    const { server, operator } = scene;
    await server.fill("texts", 2000, { element: (n) => (n % 500 === 7 ? `mail to Anna ${n}` : `mail to Bert ${n}`) });
    await operator.openQueue(server, "texts");
    await operator.type("Text contains", "to anna");
    await operator.button("Filter");
    await operator.seesIds(["job:7", "job:507", "job:1007", "job:1507"]);
    await operator.sees("Looked through 2,000 elements: 4 matches");
  });

  test("17 for something that is not there, and stops", async () => {
    const { server, operator } = scene;
    await server.fill("haystack", 200_000, { element: (n) => `straw ${n} ${"-".repeat(100)}` });
    // Its answers come slowly: on a busy machine the search would be over before the click.
    const slow = await operator.page.evaluateOnNewDocument(() => {
      const { fetch } = window;
      window.fetch = (path, ...rest) =>
        new Promise((resolve) => setTimeout(resolve, path.includes("elements") ? 500 : 0)).then(() =>
          fetch(path, ...rest),
        );
    });
    await operator.openQueue(server, "haystack", "&text=needle");
    await operator.page.removeScriptToEvaluateOnNewDocument(slow.identifier);
    await operator.button("Stop");
    await operator.sees("No element matches the filter so far.");
    const scanned = Number((await operator.text(".status")).match(/through ([\d,]+)/)[1].replaceAll(",", ""));
    assert.ok(scanned < 200_000, `${scanned}`);
    await server.call("UNLINK", "haystack");
  });

  test("18 at dead letters, with their reason and how often they were tried", async () => {
    const { server, operator } = scene;
    await server.call("DEHYDRATOR.ONDUE", "failed", "HOLD", "DELIVERIES", 3, "STREAM", "failed:dead");
    await server.push("failed", HOUR, "x", "waits");
    await server.call(
      "XADD",
      "failed:dead",
      "*",
      "id",
      "mail:17",
      "element",
      "send 17",
      "deliveries",
      3,
      "reason",
      "SMTPError: mailbox full",
    );
    await operator.openQueue(server, "failed", "&view=dead");
    await operator.seesIds(["mail:17"]);
    const [[, , reason, deliveries, , letter]] = await operator.rows();
    assert.deepEqual([reason, deliveries, letter], ["SMTPError: mailbox full", "3", "send 17"]);
    await operator.click("link", "mail:17");
    await operator.page.waitForSelector("dialog[open]");
    assert.match(await operator.dialogText(), /Deliveries\n3/);
    // It has a link of its own.
    const link = operator.page.url();
    await operator.confirm("Close");
    await operator.page.goto("about:blank");
    await operator.page.goto(link);
    await operator.sees("Dead letter mail:17", "dialog");
    await operator.confirm("Close");
    await until(() => operator.page.url() !== link, "the link of the list");
    // Who goes elsewhere from there is not brought back.
    await operator.click("link", "mail:17");
    await operator.page.waitForSelector("dialog[open]");
    await operator.go("#/batches");
    await operator.page.evaluate(() => new Promise((resolve) => setTimeout(resolve, 100)));
    assert.match(operator.page.url(), /#\/batches$/);
  });

  test("19 at how much comes due when, and from there at what", async () => {
    const { server, operator } = scene;
    const base = Math.ceil(Date.now() / HOUR) * HOUR + 24 * HOUR;
    for (let n = 0; n < 90; n += 1) await server.push("plan", 0, "x", `n${n}`, "AT", base + (n % 3) * HOUR);
    await operator.openQueue(server, "plan", "&view=timeline");
    await operator.sees("90 elements in all");
    await until(async () => (await operator.rows()).length === 3, "three hours");
    assert.deepEqual(
      (await operator.rows()).map((cells) => cells[2]),
      ["30", "30", "30"],
    );
    await operator.page.$$eval("main tbody a", (links) => links[1].click());
    await until(async () => (await operator.ids())[0] === "n1", "the second hour");
  });

  test("20 at how many ids are remembered", async () => {
    const { server, operator } = scene;
    await server.call("DEHYDRATOR.LIMIT", "memory", "REMEMBER", HOUR);
    await server.fill("memory", 5, { ttl: () => 0 });
    await server.call("DEHYDRATOR.POLL", "memory", "COUNT", 3);
    await operator.openQueue(server, "memory");
    await until(async () => (await operator.figure("Remembered")) === "3", "three are remembered");
    assert.equal((await server.info("memory")).remembered, 3);
  });

  for (const [number, name, key, message, expected] of [
    [
      "21",
      "Celery",
      "tasks:celery",
      MESSAGES.celery,
      [
        "Celery",
        "shop.tasks.send_mail",
        '["anna@example.org",17]',
        '{"template":"reminder","urgent":true}',
        "traceparent",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
      ],
    ],
    [
      "22",
      "Celery with MessagePack",
      "tasks:packed",
      MESSAGES.celery_msgpack,
      ["Celery", '["anna@example.org",17]', "application/x-msgpack"],
    ],
    [
      "23",
      "Sidekiq",
      "tasks:sidekiq",
      JSON.stringify({
        class: "HardJob",
        args: ["anna", 17],
        jid: "b4a577edbccf1d805744efa9",
        queue: "mails",
        retry: true,
        created_at: 1764000000.5,
      }),
      ["Sidekiq", "HardJob", '["anna",17]', "b4a577edbccf1d805744efa9"],
    ],
    [
      "24",
      "Dramatiq",
      "tasks:dramatiq",
      MESSAGES.dramatiq,
      ["Dramatiq", "send_mail", '["anna@example.org",17]', "retries", "dm-1"],
    ],
    [
      "25",
      "taskiq",
      "tasks:taskiq",
      MESSAGES.taskiq,
      ["taskiq", "shop.tasks:send_mail", '["anna@example.org",17]', "delay_seconds"],
    ],
    [
      "26",
      "RQ",
      "rq:queue:default:later",
      "0f2a1c1e-55aa-4a51-9c7b-6f6c7e7c2a10",
      ["RQ", "rq:job:0f2a1c1e-55aa-4a51-9c7b-6f6c7e7c2a10"],
    ],
  ]) {
    test(`${number} at the task, the arguments and the headers of ${name}`, async () => {
      const { server, operator } = scene;
      await server.push(key, HOUR, message, "task");
      await operator.openElement(server, key, "task");
      for (const text of expected) await operator.sees(text, ".shown");
      assert.equal(await server.call("DEHYDRATOR.LOOK", key, "task"), message);
    });
  }

  test("27 at MessagePack, JSON, text and bytes", async () => {
    const { server, operator } = scene;
    const forms = async () => operator.page.$$eval("[data-form]", (all) => all.map((each) => each.innerText));
    const shows = async (id, expected) => {
      await operator.openElement(server, "forms", id);
      await operator.page.waitForSelector("[data-form]");
      assert.deepEqual(await forms(), expected);
    };
    await server.push(
      "forms",
      HOUR,
      Buffer.from([
        0x82,
        0xa4,
        ...Buffer.from("user"),
        0x11,
        0xa2,
        ...Buffer.from("to"),
        0x91,
        0xa4,
        ...Buffer.from("anna"),
      ]),
      "packed",
    );
    await shows("packed", ["MessagePack", "Bytes"]);
    assert.deepEqual(JSON.parse(await operator.text(".shown")), { user: 17, to: ["anna"] });
    await server.push("forms", HOUR, '{"order":17,"paid":false}', "json");
    await shows("json", ["JSON", "Text", "Bytes"]);
    await server.push("forms", HOUR, "capture payment 17", "text");
    await shows("text", ["Text", "Bytes"]);
    await server.push("forms", HOUR, Buffer.from([0xff, 0x00, 0x0a, 0x41]), "bytes");
    await shows("bytes", ["Bytes"]);
    await operator.sees("ff 00 0a 41", ".shown");
  });

  test("28 at a colleague's link: the same view with its filter", async () => {
    const { server, operator } = scene;
    await server.fill("shared", 120, { element: (n) => (n === 99 ? "the one" : "another") });
    await operator.openQueue(server, "shared");
    await operator.type("Text contains", "the one");
    await operator.button("Filter");
    await operator.seesIds(["job:99"]);
    const colleague = await scene.another();
    await colleague.page.goto(operator.page.url());
    await colleague.seesIds(["job:99"]);
    await colleague.click("link", "job:99");
    await colleague.sees("the one", ".shown");
    assert.ok(colleague.page.url().includes(`id=${b64("job:99")}`));
    await colleague.close();
  });

  test("29 at the greatest groups of a queue, and the group of an element", async () => {
    const { server, operator } = scene;
    const hostile = Buffer.from("<b>\u202eanna\xff");
    for (let n = 0; n < 14; n += 1) {
      await server.push("grouped", HOUR, "x", `a-${n}`, "GROUP", hostile);
      await server.push("grouped", HOUR, "x", `b-${n}`, "GROUP", `tenant-${n}`);
    }
    await server.push("grouped", HOUR, "x", "b-again", "GROUP", "tenant-9");
    await overview("grouped");
    await until(async () => (await row("grouped"))?.Queue.endsWith("15 groups"), "the number in the overview");
    await operator.openQueue(server, "grouped");
    const groups = '[aria-label="Greatest groups"]';
    await operator.sees("15 groups, the greatest:", groups);
    const shown = await operator.page.$$eval(`${groups} .limit`, (all) =>
      all.map((each) => each.innerText.split(/\s+/)),
    );
    assert.equal(shown.length, 10);
    // Each with the moment of its oldest.
    assert.deepEqual(
      shown.slice(0, 2).map((words) => words.slice(0, 2)),
      [
        ["<b>\\u202eannaÿ", "14"],
        ["tenant-9", "2"],
      ],
    );
    assert.deepEqual(shown[1].slice(2, 3), ["in"]);
    await operator.openElement(server, "grouped", "b-again");
    await operator.sees("Group\ntenant-9", ".stats");
    assert.deepEqual(operator.faults, []);
  });

  test("55 at schedules: when they occur next, and what was missed", async () => {
    const { server, operator } = scene;
    const hostile = '<img src=x onerror="window.broken=1">';
    const next = Math.ceil(Date.now() / HOUR) * HOUR + HOUR;
    const every = (plan, name, ...options) =>
      server.call("DEHYDRATOR.EVERY", "planned", plan, hostile, Buffer.from(name, "latin1"), ...options);
    await every(HOUR, "hourly", "FROM", next);
    await every("0 9 * * 1-5", `${hostile}\xff`, "ZONE", "Europe/Berlin");
    await server.call("DEHYDRATOR.PAUSE", "planned", "SCHEDULE", Buffer.from(`${hostile}\xff`, "latin1"));
    await every(1, "over", "TIMES", 1);
    await operator.openQueue(server, "planned", "&view=schedules");
    await seesRow("over", { State: "ended", Occurs: "every 1 ms", Stored: "1", Next: "–", Element: hostile });
    await seesRow("hourly", { State: "ok", Occurs: "every 1 h", Zone: "–", Last: "–", Late: "–", Missed: "0" });
    await seesRow(hostile, { State: "paused", Occurs: "0 9 * * 1-5", Zone: "Europe/Berlin", Next: "–" });
    const upcoming = await operator.page.$$eval('table[aria-label="Upcoming occurrences"] time', (all) =>
      all.map((each) => Date.parse(each.dateTime)),
    );
    assert.deepEqual(
      [...new Set(upcoming)],
      [0, 1, 2, 3, 4].map((n) => next + n * HOUR),
    );
    assert.equal(await operator.page.evaluate(() => window.broken), undefined);
    // More than a page of them.
    for (let n = 0; n < 201; n++) {
      await server.call("DEHYDRATOR.EVERY", "planned:often", HOUR, "x", `n-${n}`, "FROM", next + n);
    }
    await operator.openQueue(server, "planned:often", "&view=schedules");
    await operator.sees("n-199");
    await operator.button("Next page ›");
    await operator.sees("n-200");
    await operator.button("‹ Previous");
    await operator.sees("n-0");
    assert.deepEqual(operator.faults, []);
  });

  test("56 at why an element waits", async () => {
    const { server, operator } = scene;
    const sees = async (key, id, text) => {
      await operator.openElement(server, key, id);
      await operator.sees(text, ".why");
    };
    await server.fill("why", 3, { ttl: () => 0 });
    await server.call("DEHYDRATOR.LIMIT", "why", "HELD", 1);
    await sees("why", "job:2", "Nothing holds it back");
    await server.poll("why", 1, "worker");
    await sees("why", "job:0", "A worker holds it.");
    await sees("why", "job:2", "As many leases run as the limit Held allows, 1");
    await server.call("DEHYDRATOR.RELEASE", "why", HOUR, "worker", "job:0", "REASON", "gateway down");
    await sees("why", "job:0", "It waits for its next attempt.");
    await operator.sees("gateway down", ".stats");
    await operator.openQueue(server, "why");
    await operator.act("pause");
    await operator.confirm("Pause");
    await operator.sees("Paused until resumed by local at");
    await sees("why", "job:2", "The queue is paused by local at");
    await server.push("why:groups", 0, "x", "1", "GROUP", "anna");
    await server.call("DEHYDRATOR.PAUSE", "why:groups", "GROUP", "anna");
    await sees("why:groups", "1", "Its group is paused.");
  });

  test("57 for an id in all queues", async () => {
    const { server, operator } = scene;
    for (const key of ["found:mails", "found:bills"]) await server.push(key, HOUR, "x", "order:4711");
    await server.push("found:not", HOUR, "x", "order:4712");
    await operator.open("#/?match=found:");
    await until(async () => (await operator.ids()).length === 3, "the queues are known");
    await operator.type("Element with the id", "order:4711");
    await operator.button("Find");
    await operator.sees("In 2 queues: found:bills found:mails.");
    await operator.click("link", "found:mails");
    await operator.sees("order:4711", "h1");
  });

  test("50 at a server that is down, and sees that it is", async () => {
    const server = await Server.start();
    await server.push("seen", HOUR, "x", "1");
    const top = await Top.start(`redis://${server.name}`);
    await top.ready();
    const operator = await scene.another(top.url);
    await operator.open("#/");
    await operator.sees("live", "#link");
    await server.kill();
    await operator.sees("server down", "#link");
    assert.equal(await operator.figure("Elements"), "–");
    await operator.close();
    await top.stop();
    await server.restart();
    await server.stop();
    const unheard = await Top.start(`redis://${server.name}`);
    const other = await scene.another(unheard.url);
    await other.open("#/");
    await other.sees("Nothing is known: no server answers.");
    await other.close();
    await unheard.stop();
  });
});
