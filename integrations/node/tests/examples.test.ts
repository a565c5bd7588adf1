import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { RealServer, until } from "./servers.js";

const SOURCE = new URL("../../examples/priorities.ts", import.meta.url);
const PROGRAM = new URL("../examples/priorities.js", import.meta.url);

test("two priorities and a pause are as short as they are said to be", () => {
  const lines = readFileSync(SOURCE, "utf8").trimEnd().split("\n");
  assert.ok(lines.length <= 20, `${lines.length} lines`);
});

test("two priorities and a pause: nothing is done before it is resumed, then what is urgent first", async (t) => {
  const server = await RealServer.start();
  t.after(() => server.close());
  const program = spawn(process.execPath, [PROGRAM.pathname], {
    env: { ...process.env, REDIS_URL: server.url },
    stdio: ["ignore", "pipe", "inherit"],
  });
  t.after(() => program.kill("SIGKILL"));
  let printed = "";
  program.stdout.on("data", (text) => {
    printed += text;
  });
  await until(() => printed.includes("18"));
  const ended = once(program, "exit");
  program.kill("SIGTERM");
  assert.deepEqual(await ended, [0, null]);
  assert.deepEqual(printed.trimEnd().split("\n"), [
    "repaired",
    "{mail}:high: password of anna",
    "{mail}:low: newsletter 17",
    "{mail}:low: newsletter 18",
  ]);
});
