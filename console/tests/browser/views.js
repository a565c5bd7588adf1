// What must hold for every view: axe finds nothing, nothing is cut off on a phone, and nothing in a queue is ever run.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, describe, test } from "node:test";
import { b64, DESK, elementHash, PHONE, queueHash } from "./operator.js";
import { scene } from "./scene.js";
import { until } from "./until.js";

const HOUR = 3_600_000;
const KEY = "shop:mails";
const MESSAGES = JSON.parse(readFileSync(new URL("messages.json", import.meta.url)));

/** Names and elements that would do harm if they were read as HTML, or confuse the reader. */
const HOSTILE = [
  "<script>window.broken=1</script>",
  '"><img src=x onerror="window.broken=1">',
  "'`window.broken=1`",
  "\u202eevil\u202c \u0000 nul \u001b[31m",
  "javascript:window.broken=1",
  "</textarea></pre><svg onload=window.broken=1>",
];

async function stock(server) {
  await server.call("DEHYDRATOR.ONDUE", KEY, "HOLD", "DELIVERIES", 5, "STREAM", `${KEY}:dead`);
  await server.call("DEHYDRATOR.LIMIT", KEY, "LENGTH", 5000, "HELD", 10, "RATE", 100, "PER", 1000, "REMEMBER", 60000);
  await server.fill(KEY, 4, {
    prefix: "now:",
    ttl: () => 0,
    element: (n) => JSON.stringify({ to: `customer-${n}`, template: "reminder" }),
  });
  await server.poll(KEY, 2, "worker-1/7f3a", HOUR);
  await server.push(KEY, HOUR, MESSAGES.celery, "5b1d8c0e-7b0a-4b8e-9f5e-0c3a2f1d4e6b");
  await server.fill(KEY, 120, {
    prefix: "order:",
    ttl: (n) => HOUR + ((n * n) % 97) * 60_000,
    element: (n) => JSON.stringify({ to: `customer-${n}`, template: "reminder" }),
  });
  for (const [id, reason] of [
    ["order:900", "SMTPError: mailbox full"],
    ["order:901", "TimeoutError"],
  ]) {
    await server.call(
      "XADD",
      `${KEY}:dead`,
      "*",
      "id",
      id,
      "element",
      MESSAGES.celery,
      "deliveries",
      5,
      "reason",
      reason,
    );
  }
  await server.push("shop:reports", 60_000, "weekly", "report");
  await server.call("DEHYDRATOR.PAUSE", "shop:reports");
  for (const [plan, name, ...options] of [
    ["0 9 * * 1-5", "report", "ZONE", "America/Argentina/Buenos_Aires", "GROUP", "customer-17"],
    ["90000", "ping"],
  ])
    await server.call("DEHYDRATOR.EVERY", KEY, plan, '{"to":"anna@example.org"}', name, ...options);
  await server.call("DEHYDRATOR.PAUSE", KEY, "SCHEDULE", "ping");
  for (const [id, group] of [
    ["grouped:1", "customer-17"],
    ["grouped:2", "customer-18"],
  ])
    await server.push(KEY, HOUR, "work", id, "GROUP", group);
  await server.call("DEHYDRATOR.LIMIT", KEY, "GROUP", "customer-17", "HELD", 1, "RATE", 10, "PER", 1000);
}

const views = () => {
  const queue = `node=${encodeURIComponent(scene.server.name)}&db=0&key=${b64(KEY)}`;
  return {
    overview: ["#/?match=shop"],
    next: [`#/queue?${queue}`],
    due: [`#/queue?${queue}&view=due`],
    held: [`#/queue?${queue}&view=held`],
    dead: [`#/queue?${queue}&view=dead`],
    timeline: [`#/queue?${queue}&view=timeline`],
    history: [`#/queue?${queue}&view=history`],
    filtered: [`#/queue?${queue}&id=no-such-id`],
    schedules: [`#/queue?${queue}&view=schedules`],
    group: [`#/queue?${queue}&group=${b64("customer-17")}`],
    found: [`#/?match=shop&find=${encodeURIComponent("grouped:1")}`],
    element: [`#/element?${queue}&id=${b64("5b1d8c0e-7b0a-4b8e-9f5e-0c3a2f1d4e6b")}`],
    gone: [`#/element?${queue}&id=${b64("gone")}`],
    workers: ["#/workers"],
    batches: ["#/batches"],
    log: ["#/log"],
  };
};

/** Waits until a view shows what it asked for. */
async function settled(operator) {
  await until(() => operator.page.$eval("#link", (link) => link.textContent === "live"), "the page is live");
  await until(
    () =>
      operator.page.$eval(
        "main",
        (main) => main.querySelector("tbody tr, .empty:not([hidden]), .shown, .plot canvas") !== null,
      ),
    "the view has content",
  );
  await operator.page.evaluate(
    () => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))),
  );
}

describe("each view", () => {
  let operator;
  before(async () => {
    await stock(scene.server);
    operator = await scene.another();
  });
  after(() => operator.close());

  for (const [screen, size, dark] of [
    ["desk", DESK, false],
    ["desk", DESK, true],
    ["phone", PHONE, true],
  ]) {
    test(`is right for axe and wide enough: ${screen}, ${dark ? "dark" : "light"}`, async () => {
      await operator.page.setViewport(size);
      await operator.theme(dark);
      const found = [];
      await operator.open("#/");
      for (const [name, [hash]] of Object.entries(views())) {
        await operator.go(hash);
        await settled(operator);
        await operator.screenshot(`${name}-${screen}-${dark ? "dark" : "light"}`);
        for (const violation of await operator.axe()) found.push(`${name}: ${violation}`);
        const overflow = await operator.overflow();
        if (overflow > 0) found.push(`${name}: ${overflow} pixels too wide`);
        const untold = await operator.page.$$eval("th:not([title]), .stats > div:not([title]) dt", (all) =>
          all.map((each) => each.textContent),
        );
        for (const each of untold) found.push(`${name}: “${each}” has no tooltip`);
      }
      assert.deepEqual(found, []);
      assert.deepEqual(operator.faults, []);
    });
  }

  test("has dialogs that are right for axe, in both colours", async () => {
    const found = [];
    for (const [size, dark] of [
      [DESK, true],
      [PHONE, false],
    ]) {
      await operator.page.setViewport(size);
      await operator.theme(dark);
      const shows = async (name) => {
        await operator.page.waitForSelector("dialog[open]");
        await operator.screenshot(`dialog-${name}-${dark ? "dark" : "light"}`);
        for (const violation of await operator.axe()) found.push(`${name}: ${violation}`);
        if ((await operator.overflow()) > 0) found.push(`${name}: too wide`);
        await operator.page.keyboard.press("Escape");
        await operator.page.waitForSelector("dialog[open]", { hidden: true });
      };
      await operator.open(views().next[0]);
      await settled(operator);
      for (const action of ["push", "pause", "limit", "ondue"]) {
        await operator.act(action);
        await shows(action);
      }
      await operator.act("all");
      await operator.act("cancel");
      await operator.sees("This touches", "dialog");
      await shows("cancel-all");
      await operator.act("postpone");
      await shows("postpone");
      await operator.button("Keys");
      await shows("keys");
      await operator.open(views().dead[0]);
      await operator.click("link", "order:900");
      await shows("dead-letter");
      await operator.open(views().schedules[0]);
      await operator.act("unschedule");
      await shows("unschedule");
      await operator.open(views().element[0]);
      await operator.act("edit");
      await shows("edit");
    }
    assert.deepEqual(found, []);
    // The browser's Back leaves the view, and its dialog.
    await operator.act("cancel");
    await operator.page.waitForSelector("dialog[open]");
    await operator.page.evaluate(() => {
      location.hash = "#/batches";
    });
    await operator.page.waitForSelector("dialog[open]", { hidden: true });
    await operator.sees("Actions on many elements");
  });

  test("runs nothing that is in a queue, and shows hidden characters", async () => {
    const { server } = scene;
    await operator.page.setViewport(DESK);
    for (const [n, text] of HOSTILE.entries()) {
      const key = `hostile:${text}`;
      await server.call("DEHYDRATOR.ONDUE", key, "HOLD", "DELIVERIES", 1, "STREAM", `${key}:dead`);
      await server.push(key, 0, text, text);
      await server.push(key, HOUR, JSON.stringify({ class: text, args: [text], jid: text }), `${n}${text}`);
      await server.poll(key, 1, text, HOUR);
      await server.call(
        "XADD",
        `${key}:dead`,
        "*",
        "id",
        text,
        "element",
        text,
        "deliveries",
        1,
        "reason",
        text,
        text,
        text,
      );
    }
    await operator.open("#/?match=hostile");
    await until(async () => (await operator.ids()).length === HOSTILE.length, "the hostile queues");
    for (const text of HOSTILE) {
      const key = `hostile:${text}`;
      for (const view of ["next", "held", "dead"]) {
        await operator.go(queueHash(server, key, `&view=${view}`));
        await until(async () => (await operator.ids()).length > 0, `${view} of ${JSON.stringify(text)}`);
      }
      await operator.page.click("td.id a");
      await operator.page.waitForSelector("dialog[open]");
      await operator.page.keyboard.press("Escape");
      await operator.go(elementHash(server, key, text));
      await operator.page.waitForSelector("[data-form]");
      for (const form of await operator.page.$$("[data-form]")) await form.click();
      await operator.act("edit");
      await operator.page.waitForSelector("dialog[open]");
      await operator.page.keyboard.press("Escape");
    }
    await operator.openElement(server, `hostile:${HOSTILE[3]}`, HOSTILE[3]);
    await operator.sees("\\u202eevil\\u202c \\x00 nul \\x1b[31m", "h1");
    assert.equal(await operator.page.evaluate(() => window.broken), undefined);
    assert.equal(
      await operator.page.evaluate(() => document.querySelectorAll("main script, main svg, main img").length),
      0,
    );
    assert.deepEqual(operator.faults, []);
  });

  test("comes with a policy that lets nothing in from elsewhere", async () => {
    const response = await fetch(scene.top.url);
    const policy = response.headers.get("content-security-policy");
    assert.match(policy, /default-src 'none'/);
    assert.match(policy, /script-src 'self'/);
    assert.doesNotMatch(policy, /unsafe/);
    const foreign = [];
    operator.page.on("request", (request) => {
      const { origin, protocol } = new URL(request.url());
      if (protocol.startsWith("http") && origin !== new URL(scene.top.url).origin) foreign.push(request.url());
    });
    await operator.open("#/");
    await settled(operator);
    assert.deepEqual(foreign, []);
  });
});
