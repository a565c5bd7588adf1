// Who may come in, and what they may do.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, test } from "node:test";
import { b64 } from "./operator.js";
import { scene, VIEWER } from "./scene.js";
import { Server, startCluster, Top } from "./servers.js";
import { until } from "./until.js";

const HOUR = 3_600_000;

/** Runs with a program of its own. */
async function withTop(words, run) {
  const top = await Top.start(...words);
  const operator = await scene.another(top.url);
  try {
    await run(operator, top);
    assert.deepEqual(operator.faults, []);
  } finally {
    await operator.close();
    await top.stop();
  }
}

describe("an operator comes in", () => {
  test("45 as a viewer, who sees all and can change nothing", async () => {
    const { server } = scene;
    const url = `redis://${VIEWER[0]}:${VIEWER[1]}@${server.name}`;
    await server.fill("museum", 2);
    await withTop([url], async (operator, top) => {
      await operator.openElement(server, "museum", "job:0");
      await operator.sees("work 0");
      await operator.page.waitForSelector("[data-action=cancel]");
      for (const action of ["run_now", "postpone", "edit", "cancel"]) {
        const button = await operator.page.$(`[data-action="${action}"]`);
        const told = await button.evaluate((each) => [
          each.getAttribute("aria-disabled"),
          document.getElementById(each.getAttribute("aria-describedby"))?.textContent,
        ]);
        assert.equal(told[0], "true", action);
        assert.match(told[1], /permission|may not/i, action);
        // It is in reach of the keyboard, and says why.
        await button.focus();
        await operator.page.keyboard.press("Enter");
      }
      await operator.seesNotice("Cancel:");
      // Also a request that the page would not send is refused.
      const forged = await operator.page.evaluate(
        async (queue, id) => {
          const body = JSON.stringify({ queue, action: "cancel", args: {}, on: { ids_b64: [id] } });
          const headers = { "content-type": "application/json", "x-dehydrator": "1" };
          return (await fetch("api/act", { method: "POST", headers, body })).status;
        },
        { node: server.name, db: 0, key_b64: b64("museum") },
        b64("job:0"),
      );
      assert.equal(forged, 403);
      assert.equal(await server.len("museum"), 2);
      assert.ok(top.url);
    });
  });

  test("46 as a Redis user of their own, after a wrong password, and goes out again", async () => {
    const { server } = scene;
    await server.call("ACL", "SETUSER", "anna", "on", ">secret", "~*", "&*", "+@all");
    await server.push("door", HOUR, "x", "1");
    await withTop(["--login", `redis://${server.name}`], async (operator) => {
      await operator.open("#/");
      await operator.type("Redis user", "anna");
      await operator.page.type("input[name=password]", "wrong");
      await operator.button("Log in");
      await until(async () => (await operator.text(".wrong")).length > 0, "the refusal");
      await operator.page.$eval("input[name=password]", (field) => {
        field.value = "";
      });
      await operator.page.type("input[name=password]", "secret");
      await operator.button("Log in");
      await operator.openQueue(server, "door");
      await operator.act("pause");
      await operator.confirm("Pause");
      await until(async () => (await server.info("door")).paused === 1, "it is paused");
      const [[, fields]] = await server.call("XREVRANGE", "dehydrator:log", "+", "-", "COUNT", 1);
      assert.equal(fields[fields.indexOf("user") + 1], "anna");
      const [cookie] = await operator.context.cookies();
      assert.deepEqual([cookie.httpOnly, cookie.sameSite], [true, "Strict"]);
      await operator.button("Log out");
      await operator.sees("Redis user");
    });
  });

  test("47 by a link with the token, which leaves the address", async () => {
    const { server } = scene;
    const folder = mkdtempSync(join(tmpdir(), "dehydrator-token-"));
    const file = join(folder, "token");
    const token = "a".repeat(20) + Math.random().toString(36).slice(2).padEnd(12, "b");
    writeFileSync(file, token, { mode: 0o600 });
    await server.push("letterbox", HOUR, "x", "1");
    await withTop(["--token-file", file, `redis://${server.name}`], async (operator) => {
      await operator.open("#/");
      await operator.sees("Token");
      await operator.page.goto("about:blank");
      await operator.page.goto(`${operator.url}#/?token=${token}`);
      await operator.sees("Queues");
      assert.ok(!operator.page.url().includes(token));
    });
    rmSync(folder, { recursive: true });
  });

  test("48 while a node is gone, and sees it come back, among the other nodes", async () => {
    const other = await Server.start();
    try {
      await other.push("of the other", HOUR, "x", "1");
      await withTop([`redis://${scene.server.name}`, `redis://${other.name}`], async (operator) => {
        await operator.open("#/");
        await operator.sees(scene.server.name);
        await operator.sees(other.name);
        await operator.sees("of the other");
        await other.kill();
        await operator.sees("Trying again", ".banner.bad");
        await operator.screenshot("node-gone");
        await other.restart();
        await until(async () => (await operator.page.$(".banner.bad")) === null, "all is well again");
      });
    } finally {
      await other.stop();
    }
  });

  test("49 after the program was gone: the page goes on by itself", async () => {
    const { server } = scene;
    await server.push("patient", HOUR, "x", "1");
    const first = await Top.start(`redis://${server.name}`);
    const operator = await scene.another(first.url);
    await operator.openQueue(server, "patient");
    await operator.seesIds(["1"]);
    await first.stop();
    await operator.sees("dehydrator-top does not answer. Trying again.", "#trouble");
    const second = await Top.start("--web", new URL(first.url).host, `redis://${server.name}`);
    await server.push("patient", HOUR, "x", "2");
    await operator.seesIds(["1", "2"]);
    assert.equal(await operator.text("#trouble"), "");
    await operator.close();
    await second.stop();
  });

  test("50 in the colours of their choice, which stay", async () => {
    const { server } = scene;
    const operator = await scene.another();
    await operator.theme(false);
    await operator.open("#/");
    await operator.button("Dark colours");
    const back = () => operator.page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
    const dark = await back();
    await operator.open("#/");
    assert.equal(await back(), dark);
    await operator.button("Light colours");
    assert.notEqual(await back(), dark);
    assert.ok(server);
    await operator.close();
  });

  test("51 to a cluster: all nodes in one table, and acts on the second", async () => {
    const nodes = await startCluster(2);
    const [first, second] = nodes;
    try {
      // "foo" is in the upper half of the slots, "bar" in the lower.
      await first.push("bar", HOUR, "x", "on the first");
      await second.push("foo", HOUR, "x", "on the second");
      await withTop([`redis://${first.name}`], async (operator) => {
        await operator.open("#/");
        for (const [node, queue] of [
          [first, "bar"],
          [second, "foo"],
        ]) {
          await operator.sees(`${queue} ${node.name}`, "table[aria-label=Queues]");
          await operator.sees(node.name, "table[aria-label=Nodes]");
        }
        await operator.click("link", "foo");
        await operator.seesIds(["on the second"]);
        await operator.screenshot("cluster");
        await operator.mark("on the second");
        await operator.act("run_now");
        await operator.seesNotice("1 element due now.");
        assert.equal(await second.pttl("foo", "on the second"), 0);
        // The log is one, whose node owns its slot.
        await operator.click("link", "Log");
        await operator.sees("run now");
        const [row] = await operator.rows();
        assert.deepEqual(row.slice(3, 6), ["run now", "foo", "on the second"]);
        await operator.click("link", "foo");
        await operator.seesIds(["on the second"]);
      });
    } finally {
      for (const node of nodes) await node.stop();
    }
  });

  test("52 to a replica, where they look, and read why nothing can be changed", async () => {
    const primary = await Server.start("--repl-diskless-sync-delay", "0");
    const replica = await Server.start("--replicaof", "127.0.0.1", String(primary.port));
    try {
      await primary.fill("copied", 2);
      await until(async () => (await replica.len("copied")) === 2, "the replica has it");
      await withTop([`redis://${replica.name}`], async (operator, top) => {
        await top.ready();
        await operator.open("#/");
        await operator.sees("replica", "table[aria-label=Nodes]");
        await operator.openQueue(replica, "copied");
        await operator.seesIds(["job:0", "job:1"]);
        const reason = "This node is a replica: changes are made on its primary.";
        await operator.sees(reason, ".banner");
        await operator.screenshot("replica");
        await operator.mark("job:0");
        for (const action of ["pause", "limit", "ondue", "run_now", "postpone", "cancel"]) {
          const button = await operator.page.$(`[data-action="${action}"]`);
          const told = await button.evaluate((each) => [
            each.getAttribute("aria-disabled"),
            document.getElementById(each.getAttribute("aria-describedby"))?.textContent,
          ]);
          assert.deepEqual(told, ["true", reason], action);
        }
        await operator.button("Pause…");
        await operator.seesNotice(`Pause: ${reason}`);
        assert.equal(await operator.page.$("dialog[open]"), null);
        assert.equal((await primary.info("copied")).paused, 0);
      });
    } finally {
      await replica.stop();
      await primary.stop();
    }
  });

  test("53 through a proxy, which tells who they are: so does the log", async () => {
    const { server } = scene;
    await server.push("proxied", HOUR, "x", "1");
    await withTop(["--user-header", "X-Remote-User", `redis://${server.name}`], async (operator) => {
      await operator.page.setExtraHTTPHeaders({ "X-Remote-User": "carla" });
      await operator.openQueue(server, "proxied");
      await operator.sees("carla", "#server");
      await operator.mark("1");
      await operator.act("run_now");
      await operator.seesNotice("1 element due now.");
      await operator.open("#/log");
      await operator.sees("proxied");
      const [row] = await operator.rows();
      assert.deepEqual(row.slice(1, 6), ["carla", "default", "run now", "proxied", "1"]);
      const [[, fields]] = await server.call("XREVRANGE", "dehydrator:log", "+", "-", "COUNT", 1);
      assert.equal(fields[fields.indexOf("who") + 1], "carla");
      // Whom the proxy does not name is nobody.
      await operator.page.setExtraHTTPHeaders({});
      const status = () => operator.page.evaluate(async () => (await fetch("api/overview")).status);
      assert.equal(await status(), 401);
    });
  });
});
