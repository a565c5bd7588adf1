// What an operator does, checked on the server.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { scene } from "./scene.js";
import { until } from "./until.js";

const HOUR = 3_600_000;
const near = (value, expected, within) =>
  assert.ok(Math.abs(value - expected) <= within, `${value} is not near ${expected}`);

describe("an operator acts", () => {
  test("29 runs an element now", async () => {
    const { server, operator } = scene;
    await server.push("now", HOUR, "x", "order:17");
    await operator.openElement(server, "now", "order:17");
    await operator.act("run_now");
    await operator.seesNotice("1 element due now.");
    assert.equal(await server.pttl("now", "order:17"), 0);
    assert.deepEqual(await server.call("DEHYDRATOR.POLL", "now"), ["x"]);
  });

  test("30 postpones the marked elements by ten minutes", async () => {
    const { server, operator } = scene;
    await server.fill("snooze", 4, { ttl: (n) => 60_000 + n });
    await operator.openQueue(server, "snooze");
    await operator.mark("job:1", "job:3");
    await operator.act("postpone");
    await operator.type("New deadline", "10m");
    await operator.confirm("Postpone 2 elements");
    await operator.seesNotice("2 elements postponed.");
    for (const [id, ms] of [
      ["job:0", 60_000],
      ["job:1", 600_000],
      ["job:2", 60_000],
      ["job:3", 600_000],
    ])
      near(await server.pttl("snooze", id), ms, 50_000);
  });

  test("31 postpones an element to a moment", async () => {
    const { server, operator } = scene;
    await server.push("moment", 60_000, "x", "1");
    await operator.openElement(server, "moment", "1");
    await operator.act("postpone");
    await operator.type("New deadline", "2030-12-24 18:00");
    await operator.confirm("Postpone");
    await operator.seesNotice("1 element postponed.");
    const [[, deadline]] = await server.range("moment");
    assert.equal(deadline, new Date(2030, 11, 24, 18).getTime());
  });

  test("32 cancels an element, after a question to which they first say no", async () => {
    const { server, operator } = scene;
    await server.fill("cancelled", 2);
    await operator.openElement(server, "cancelled", "job:0");
    await operator.act("cancel");
    await operator.confirm("Back");
    assert.equal(await server.len("cancelled"), 2);
    await operator.act("cancel");
    await operator.confirm("Cancel");
    await operator.seesNotice("1 element cancelled.");
    await operator.sees("There is no element with this id any more");
    assert.deepEqual(
      (await server.range("cancelled")).map(([id]) => id),
      ["job:1"],
    );
  });

  test("33 edits an element, which keeps its deadline", async () => {
    const { server, operator } = scene;
    await server.push("edited", HOUR, "send to ana", "mail");
    const [[, deadline]] = await server.range("edited");
    await operator.openElement(server, "edited", "mail");
    await operator.act("edit");
    await operator.type("Element (text)", "send to anna\nand bert – ü");
    await operator.confirm("Save");
    await operator.sees("and bert", ".shown");
    assert.equal(await server.call("DEHYDRATOR.LOOK", "edited", "mail"), "send to anna\nand bert – ü");
    assert.equal((await server.range("edited"))[0][1], deadline);
  });

  test("34 edits bytes in hex", async () => {
    const { server, operator } = scene;
    await server.push("hex", HOUR, Buffer.from([0, 255, 13]), "raw");
    await operator.openElement(server, "hex", "raw");
    await operator.act("edit");
    await operator.type("Element (bytes in hex)", "de ad be ef 0");
    const save = await operator.find("button", "Save");
    await save.click();
    await operator.sees("not pairs of hexadecimal digits", "dialog");
    await operator.type("Element (bytes in hex)", "de ad be ef 00");
    await operator.confirm("Save");
    await operator.sees("de ad be ef 00", ".shown");
    assert.deepEqual(
      await server.callBuffer("DEHYDRATOR.LOOK", "hex", "raw"),
      Buffer.from([0xde, 0xad, 0xbe, 0xef, 0]),
    );
  });

  test("35 cancels all that match, told how many first", async () => {
    const { server, operator } = scene;
    await server.fill("purge", 1000, { element: (n) => (n % 2 ? `spam ${n}` : `mail ${n}`) });
    await operator.openQueue(server, "purge", "&text=spam");
    await until(async () => (await operator.ids()).length >= 50, "a page of matches");
    await operator.act("all-match");
    await operator.act("cancel");
    // On a slow machine it tells how many it has found so far.
    const told = /^Cancel (500 elements|all, at least \d+ elements)$/;
    await operator.sees("This touches", "dialog");
    assert.equal(await server.len("purge"), 1000);
    await operator.confirm(told);
    await operator.seesNotice("Cancel: done, 500 done");
    const left = await server.range("purge", "WITHELEMENTS");
    assert.equal(left.length, 500);
    assert.ok(left.every((row) => row[5].startsWith("mail")));
  });

  test("36 stops what takes long", async () => {
    const { server, operator } = scene;
    await server.fill("endless", 100_000);
    const before = (await server.range("endless")).length;
    await operator.openQueue(server, "endless");
    await until(async () => (await operator.ids()).length === 50, "a page");
    await operator.act("all");
    await operator.act("postpone");
    await operator.type("New deadline", "+3d");
    await operator.confirm("Postpone 100,000 elements");
    await operator.page.waitForSelector("#jobs .job");
    await operator.sees(" of 100,000", "#jobs");
    await operator.button("Stop");
    await operator.seesNotice("Postpone: stopped");
    const rows = await server.range("endless");
    const moved = rows.filter(([, deadline]) => deadline > Date.now() + 2 * 24 * HOUR).length;
    assert.equal(rows.length, before);
    assert.ok(moved > 0 && moved < 100_000, `${moved}`);
    await server.call("UNLINK", "endless");
  });

  test("37 gives back what a worker holds", async () => {
    const { server, operator } = scene;
    await server.fill("stuck", 2, { ttl: () => 0 });
    await server.poll("stuck", 2, "dead-worker");
    await operator.openQueue(server, "stuck", "&view=held");
    await operator.mark("job:0");
    await operator.act("give_back");
    await operator.seesNotice("1 element given back.");
    assert.equal(await server.pttl("stuck", "job:0"), 0);
    assert.deepEqual(
      await server.call("DEHYDRATOR.SETTLE", "stuck", "dead-worker", "job:0", "dead-worker", "job:1"),
      [0, 1],
    );
  });

  test("38 retries a dead letter, and drops another", async () => {
    const { server, operator } = scene;
    await server.call("DEHYDRATOR.ONDUE", "letters", "HOLD", "DELIVERIES", 3, "STREAM", "letters:dead");
    for (const id of ["again", "never", "stays"])
      await server.call("XADD", "letters:dead", "*", "id", id, "element", `do ${id}`, "deliveries", 3);
    await operator.openQueue(server, "letters", "&view=dead");
    await operator.mark("again");
    await operator.act("revive");
    await operator.seesNotice("1 dead letter sent back to the queue.");
    assert.equal(await server.call("DEHYDRATOR.LOOK", "letters", "again"), "do again");
    assert.equal(await server.pttl("letters", "again"), 0);
    await until(async () => (await operator.ids()).length === 2, "two are left");
    await operator.click("link", "never");
    await operator.page.waitForSelector("dialog[open]");
    await operator.button("Drop…");
    await operator.confirm("Drop");
    await operator.seesNotice("1 dead letter dropped.");
    const left = await server.call("XRANGE", "letters:dead", "-", "+");
    assert.deepEqual(
      left.map(([, fields]) => fields[1]),
      ["stays"],
    );
    assert.equal(await server.len("letters"), 1);
  });

  test("39 retries all dead letters with one reason", async () => {
    const { server, operator } = scene;
    await server.call("DEHYDRATOR.ONDUE", "outage", "HOLD", "DELIVERIES", 3, "STREAM", "outage:dead");
    for (let n = 0; n < 300; n += 1)
      await server.call(
        "XADD",
        "outage:dead",
        "*",
        "id",
        `n${n}`,
        "element",
        "x",
        "deliveries",
        3,
        "reason",
        n % 3 ? "gateway down" : "bad address",
      );
    await operator.openQueue(server, "outage", "&view=dead&text=gateway");
    await until(async () => (await operator.ids()).length >= 50, "a page of matches");
    await operator.act("all-match");
    await operator.act("revive");
    await operator.confirm(/^Retry (200 dead letters|all, at least \d+ dead letters)$/);
    await operator.seesNotice("Retry dead letters: done, 200 done");
    assert.equal(await server.len("outage"), 200);
    assert.equal(await server.call("XLEN", "outage:dead"), 100);
  });

  test("56 edits a dead letter, and retries it", async () => {
    const { server, operator } = scene;
    await server.call("DEHYDRATOR.ONDUE", "mended", "HOLD", "DELIVERIES", 3, "STREAM", "mended:dead");
    await server.call("XADD", "mended:dead", "*", "id", "mail:1", "element", "to ana", "group", "shop");
    await operator.openQueue(server, "mended", "&view=dead");
    await operator.click("link", "mail:1");
    await operator.page.waitForSelector("dialog[open]");
    await operator.button("Edit and retry…");
    await operator.type("Element (text)", "to anna");
    await operator.confirm("Retry");
    await operator.seesNotice("1 dead letter sent back to the queue.");
    assert.equal(await server.call("DEHYDRATOR.LOOK", "mended", "mail:1"), "to anna");
    assert.equal(await server.call("DEHYDRATOR.LEN", "mended", "GROUP", "shop"), 1);
    assert.equal(await server.call("XLEN", "mended:dead"), 0);
  });

  test("57 runs a schedule now, pauses it, and takes it away", async () => {
    const { server, operator } = scene;
    await server.call("DEHYDRATOR.EVERY", "rounds", HOUR, "tick", "hourly");
    const schedule = async () => {
      const [fields] = await server.call("DEHYDRATOR.SCHEDULES", "rounds");
      return (
        fields && Object.fromEntries(fields.map((name, at) => [name, fields[at + 1]]).filter((_, at) => at % 2 === 0))
      );
    };
    const { next } = await schedule();
    await operator.openQueue(server, "rounds", "&view=schedules");
    const row = (action) => operator.page.waitForSelector(`tbody [data-action=${action}]`).then((each) => each.click());
    await row("run_schedule");
    await operator.seesNotice("hourly: a job is put, the next one stays.");
    assert.deepEqual(await server.call("DEHYDRATOR.POLL", "rounds"), ["tick"]);
    assert.equal((await schedule()).next, next);
    await row("pause");
    await until(async () => (await schedule()).paused === 1, "it is paused");
    await row("resume");
    await until(async () => (await schedule()).paused === 0, "it goes on");
    await row("unschedule");
    await operator.confirm("Unschedule");
    await operator.sees("This queue has no schedules.");
    assert.equal(await schedule(), undefined);
  });

  test("58 puts a job", async () => {
    const { server, operator } = scene;
    await server.push("put", HOUR, "x", "1");
    await operator.openQueue(server, "put");
    await operator.act("push");
    await operator.type("Element (text)", "send to anna");
    await operator.type("Id", "mail:2");
    await operator.type("Group", "shop");
    await operator.type("Due", "10m");
    await operator.confirm("Put");
    await operator.seesNotice("put: a job is put.");
    await operator.seesIds(["mail:2", "1"]);
    near(await server.pttl("put", "mail:2"), 600_000, 50_000);
    assert.equal(await server.call("DEHYDRATOR.LEN", "put", "GROUP", "shop"), 1);
  });

  test("59 looks at one group alone, pauses it, limits it, and cancels what it has", async () => {
    const { server, operator } = scene;
    for (const id of [1, 2]) await server.push("tenants", HOUR, "x", `anna:${id}`, "GROUP", "anna");
    await server.push("tenants", HOUR, "x", "bert:1", "GROUP", "bert");
    await operator.openQueue(server, "tenants");
    await operator.click("link", "anna");
    await operator.seesIds(["anna:1", "anna:2"]);
    const info = async () => {
      const fields = await server.call("DEHYDRATOR.INFO", "tenants", "GROUP", "anna");
      return Object.fromEntries(fields.map((name, at) => [name, fields[at + 1]]).filter((_, at) => at % 2 === 0));
    };
    const press = (action) =>
      operator.page.waitForSelector(`.group [data-action=${action}]`).then((each) => each.click());
    await press("pause");
    await operator.confirm("Pause");
    await operator.sees("paused", ".group");
    assert.equal((await info()).paused, 1);
    await press("resume");
    await until(async () => (await info()).paused === 0, "it goes on");
    await press("limit");
    await operator.type("Held: leases at a time", "2");
    await operator.type("Share: elements in its turn", "5");
    await operator.confirm("Set limits");
    await operator.sees("2 held at a time", ".group");
    assert.deepEqual([(await info())["held-limit"], (await info()).share], [2, 5]);
    await operator.act("all-match");
    await operator.act("cancel");
    await operator.sees("of group “anna”", "dialog");
    await operator.confirm("Cancel 2 elements");
    await operator.seesNotice("Cancel: done, 2 done");
    assert.equal((await server.pttl("tenants", "bert:1")) > 0, true);
    await operator.click("link", "All groups");
    await operator.seesIds(["bert:1"]);
  });

  test("40 pauses a queue, for a while, and resumes it", async () => {
    const { server, operator } = scene;
    await server.push("brake", 0, "x", "1");
    await operator.openQueue(server, "brake");
    await operator.act("pause");
    await operator.confirm("Pause");
    await operator.sees("Paused until resumed");
    assert.deepEqual(await server.call("DEHYDRATOR.POLL", "brake"), []);
    await operator.act("resume");
    await operator.seesNot("Paused until resumed");
    assert.equal((await server.info("brake")).paused, 0);
    await operator.act("pause");
    const field = "Until (leave empty to pause until it is resumed)";
    await operator.type(field, "half an hour");
    await operator.page.click("dialog[open] button[type=submit]");
    await operator.sees(
      "“half an hour” is neither a duration from now nor a moment. Write for example 10m",
      "dialog .wrong",
    );
    assert.equal((await server.info("brake")).paused, 0);
    await operator.type(field, "30m");
    await operator.confirm("Pause");
    await until(async () => (await server.info("brake")).paused === 1, "it is paused");
    near((await server.info("brake"))["paused-until"], Date.now() + 1_800_000, 300_000);
  });

  test("41 changes limits, and takes one away", async () => {
    const { server, operator } = scene;
    await server.push("caps", HOUR, "x", "1");
    await server.call("DEHYDRATOR.LIMIT", "caps", "LENGTH", 500);
    await operator.openQueue(server, "caps");
    await operator.act("limit");
    await operator.type("Held: leases at a time", "7");
    await operator.type("Rate: elements", "100");
    await operator.type("Rate: in how many ms", "soon");
    await operator.page.click("dialog[open] button[type=submit]");
    await operator.sees("“soon” is no duration. Write for example 10m", "dialog .wrong");
    await operator.type("Rate: in how many ms", "1s");
    await operator.type("Remember ids for ms", "60000");
    await operator.type("Length: elements at most", "0");
    await operator.confirm("Set limits");
    await operator.sees("0 of 100 in 1 s");
    const info = await server.info("caps");
    assert.deepEqual(
      [info["length-limit"], info["held-limit"], info["rate-limit"], info["rate-per"], info.remember],
      [0, 7, 100, 1000, 60_000],
    );
  });

  test("42 sets what happens to due elements", async () => {
    const { server, operator } = scene;
    await server.push("policy", HOUR, "x", "1");
    await operator.openQueue(server, "policy");
    await operator.act("ondue");
    await operator.page.select("dialog select[name=kind]", "HOLD DELIVERIES");
    await operator.type("After how many deliveries", "5");
    await operator.type("Name", "policy:dead");
    await operator.sees("ONDUE … HOLD DELIVERIES 5 STREAM policy:dead", "dialog");
    await operator.confirm("Set the policy");
    await operator.sees("HOLD DELIVERIES 5 STREAM policy:dead", ".where");
    assert.equal((await server.info("policy")).policy.dest, "policy:dead");
  });

  test("43 reads who did what in the log", async () => {
    const { server, operator } = scene;
    await server.fill("audited", 3);
    await operator.openQueue(server, "audited");
    await operator.mark("job:0", "job:2");
    await operator.act("run_now");
    await operator.confirm("Run 2 elements");
    await operator.seesNotice("2 elements due now.");
    await operator.open("#/log");
    await operator.sees("audited");
    const [first] = await operator.rows();
    assert.equal(first[3], "run now");
    assert.deepEqual(first.slice(4, 7), ["audited", "2 ids: job:0, job:2", "2"]);
    // A filter is named in the log, and in the list of batches.
    await operator.openQueue(server, "audited", "&id=job&text=work");
    await operator.seesIds(["job:0", "job:2", "job:1"]);
    await operator.act("all-match");
    await operator.act("postpone");
    await operator.confirm("Postpone 3 elements");
    await operator.seesNotice("Postpone: done, 3 done");
    const filter = "All elements whose id contains “job” and whose text contains “work”";
    await operator.open("#/batches");
    await operator.sees(filter);
    await operator.open("#/log");
    await operator.sees(filter);
    await operator.openQueue(server, "audited");
    await operator.mark("job:0", "job:2");
    await operator.act("run_now");
    await operator.confirm("Run 2 elements");
    await operator.seesNotice("2 elements due now.");
    const [[, fields]] = await server.call("XREVRANGE", "dehydrator:log", "+", "-", "COUNT", 1);
    assert.ok(fields.includes("run_now") && fields.includes("audited"));
  });

  test("54 sees what an action has done at once, not at the next refresh", async () => {
    const { server } = scene;
    const operator = await scene.another();
    // Nothing is read again by itself but the progress of batches, and no message goes by itself.
    await operator.page.evaluateOnNewDocument(() => {
      const wait = window.setTimeout;
      window.setTimeout = (run, ms, ...rest) => wait(run, ms > 1000 ? 3_600_000 : ms, ...rest);
    });
    await server.push("soon", 2000, "x", "1");
    await operator.openQueue(server, "soon");
    await until(async () => (await operator.figure("Next")) === "due", "it is due");

    await server.fill("fresh", 130, { ttl: (n) => HOUR + n * 1000 });
    await operator.openQueue(server, "fresh");
    await until(async () => (await operator.figure("Waiting")) === "130", "all wait");
    await operator.mark("job:3");
    await operator.act("run_now");
    await operator.seesNotice("1 element due now.");
    await until(async () => (await operator.ids())[0] === "job:3", "it is the first");
    await until(async () => (await operator.figure("Due")) === "1", "one is due");
    await operator.click("link", "Overview");
    const row = () =>
      operator.page.$$eval("section.overview tbody tr", (rows) => {
        const found = rows.find((each) => each.innerText.startsWith("fresh"));
        return found && [...found.cells].slice(2, 4).map((cell) => cell.innerText.trim());
      });
    const shown = await until(row, "the row of the queue");
    assert.deepEqual(shown, ["129", "1"]);

    await operator.click("link", "fresh");
    await operator.type("Text contains", "work");
    await operator.button("Filter");
    await operator.act("all-match");
    await operator.act("cancel");
    await operator.confirm(/^Cancel (all, at least )?\d+ elements/);
    await operator.seesNotice("Cancel: done, 130 done");
    assert.ok(!(await operator.text("#notices")).includes("started"));
    await operator.sees("No element matches the filter.");
    assert.equal(await operator.figure("Waiting"), "0");
    await operator.close();
  });

  test("44 works by the keyboard alone: filter, move, mark, ask, answer", async () => {
    const { server, operator } = scene;
    await server.fill("keys", 30, { prefix: "key:" });
    const { keyboard } = operator.page;
    const focused = () =>
      operator.page.evaluate(
        () => document.activeElement.innerText || document.activeElement.name || document.activeElement.localName,
      );
    await operator.open("#/");
    await keyboard.press("/");
    await keyboard.type("keys");
    await keyboard.press("Enter");
    await operator.seesIds(["keys"]);
    await keyboard.press("Escape");
    await keyboard.press("j");
    await until(async () => (await focused()) === "keys", "the queue has the focus");
    await keyboard.press("Enter");
    await until(async () => (await operator.ids()).length === 30, "its elements");
    await keyboard.press("j");
    await keyboard.press("j");
    await keyboard.press("x");
    await keyboard.press("j");
    await keyboard.press("x");
    await keyboard.press("k");
    await until(async () => (await focused()) === "key:1", "the second row has the focus");
    await operator.sees("2 marked");
    await keyboard.press("c");
    await operator.page.waitForSelector("dialog[open]");
    // Shift+Tab from the first place to the last, which confirms.
    await until(async () => {
      if ((await focused()) === "Cancel 2 elements") return true;
      await keyboard.press("Tab");
      return false;
    }, "the button that confirms");
    await keyboard.press("Enter");
    await operator.seesNotice("2 elements cancelled.");
    assert.equal(await server.len("keys"), 28);
    assert.equal(await server.pttl("keys", "key:1"), -2);
    assert.equal(await server.pttl("keys", "key:2"), -2);
    await keyboard.press("?");
    await operator.sees("Single-letter shortcuts are on", "dialog");
    await keyboard.press("Escape");
    await operator.page.waitForSelector("dialog[open]", { hidden: true });
    await keyboard.press("Escape");
    await operator.sees("Queues");
  });
});
