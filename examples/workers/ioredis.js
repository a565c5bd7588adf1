// A worker with ioredis 6. README.md describes it. Replace `work`.
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";

const { REDIS_URL = "redis://127.0.0.1:6379", QUEUE = "{jobs}" } = process.env;
const { BLOCK_MS = 5000, LEASE_MS = 60_000, RETRY_MS = 1000, DELIVERIES = 5 } = process.env;
const PASSING = /^(BUSY|LOADING|READONLY|UNBLOCKED|NOREPLICAS|MISCONF)\b/;

async function work(id, job, deliveries, lost) {
  const [word, number] = job.toString().split(" ");
  if (word === "slow") await sleep(Number(number), null, { signal: lost });
  if (word === "fail" && deliveries <= Number(number)) throw new Error("it was to fail");
  await ask(store, "SADD", `${QUEUE}:done`, `${id} ${deliveries} ${Date.now()}`);
}

function connect() {
  // With 0, ioredis resends nothing: it rejects commands without a reply, and `ask` resends them.
  const options = { socketTimeout: Number(BLOCK_MS) + 5000, maxRetriesPerRequest: 0 };
  return new Redis(REDIS_URL, options).on("error", (error) => console.log(String(error)));
}

async function ask(server, ...command) {
  for (let pause = 100; ; pause = Math.min(2 * pause, 2000)) {
    try {
      return await server.callBuffer(...command); // ids and elements are any bytes
    } catch (error) {
      if (error.name === "ReplyError" && !PASSING.test(error.message)) throw error;
      if (stopping && command[0] === "DEHYDRATOR.POLL") return [];
      console.log(`${command[0]} again: ${error}`);
      if (server.status === "ready") server.disconnect(true);
      await sleep(pause);
    }
  }
}

let stopping = false;
for (const name of ["SIGTERM", "SIGINT"]) process.on(name, () => (stopping = true));
const [server, store] = [connect(), connect()];
await ask(server, "DEHYDRATOR.ONDUE", QUEUE, "HOLD", "DELIVERIES", DELIVERIES, "STREAM", `${QUEUE}:dead`);
while (!stopping) {
  const lease = ["COUNT", 1, "BLOCK", BLOCK_MS, "LEASE", LEASE_MS, "TOKEN", randomUUID()];
  for (const [id, job, deliveries, token] of await ask(server, "DEHYDRATOR.POLL", QUEUE, ...lease)) {
    const [lost, ended] = [new AbortController(), new AbortController()];
    const working = work(id, job, deliveries, lost.signal).catch((error) => error);
    working.then(() => ended.abort());
    while (await sleep(LEASE_MS / 3, true, { signal: ended.signal }).catch(() => false)) {
      const [held] = await ask(server, "DEHYDRATOR.RENEW", QUEUE, LEASE_MS, token, id);
      if (!held) lost.abort();
    }
    const error = await working;
    if (error instanceof Error) {
      console.log(`${id} failed: ${error}`);
      await ask(server, "DEHYDRATOR.RELEASE", QUEUE, RETRY_MS * 2 ** (deliveries - 1), token, id);
    } else {
      await ask(server, "DEHYDRATOR.SETTLE", QUEUE, token, id);
    }
  }
}
process.exit();
