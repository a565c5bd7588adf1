/*
 * Debounce with a maximum delay, which loses no change: see debounce.js for the simple version.
 *
 * PUSH ... REPLACE restarts the timer at each change, so a document that changes all the time would never come due. Here it
 * comes due when it has been quiet for QUIET_MS, and at the latest LIMIT_MS after its first change. A second dehydrator
 * stores that limit, and drops it by itself (ONDUE ... DROP). The saver has a lease, so a change survives a saver that dies.
 * But REPLACE would end that lease, and a second saver would work on the same document. So while a document is being saved,
 * its next change waits in a hash, and the script that settles pushes it.
 *
 * In a cluster, the three keys share a hash tag.
 *
 * Prints:
 *
 *     the letter changed 30 times, and was never quiet
 *     it was saved before the last change, and at the end
 *     never by two at once, though one saver died
 */

import assert from "node:assert";
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";

// Changes; their latest deadlines; changes during a save.
const KEYS = ["demo:changes", "demo:changes:latest", "demo:changes:next"];
const QUIET_MS = 200;
const LIMIT_MS = 300;
const LEASE_MS = 1_000;
const BLOCK_MS = 10_000;

// Defines push(document, text): due after the quiet period, or at the limit, whichever is first.
const PUSH = `
  local quiet, limit = tonumber(ARGV[1]), ARGV[2]
  local function push(document, text)
    local left = redis.call('DEHYDRATOR.PTTL', KEYS[1], document)
    if left == -2 then redis.call('DEHYDRATOR.REM', KEYS[2], document) end
    if left ~= 0 then
      redis.call('DEHYDRATOR.PUSH', KEYS[2], limit, '', document, 'NX')
      left = redis.call('DEHYDRATOR.PTTL', KEYS[2], document)
    end
    redis.call('DEHYDRATOR.PUSH', KEYS[1], math.min(quiet, left), text, document, 'REPLACE')
  end
`;

// A document with deliveries is being saved. LOOK ... FULL replies name, value, ..., 'deliveries', n.
const CHANGED = `${PUSH}
  local document, text = ARGV[3], ARGV[4]
  local full = redis.call('DEHYDRATOR.LOOK', KEYS[1], document, 'FULL')
  if full and full[8] > 0 then
    redis.call('HSET', KEYS[3], document, text)
  else
    redis.call('HDEL', KEYS[3], document)
    push(document, text)
  end
`;

// Replies whether it was settled: 0 if another saver has the document by now.
const SETTLE = `${PUSH}
  local document, token = ARGV[3], ARGV[4]
  local settled = redis.call('DEHYDRATOR.SETTLE', KEYS[1], token, document)[1]
  local text = redis.call('HGET', KEYS[3], document)
  if settled == 1 and text then
    redis.call('HDEL', KEYS[3], document)
    push(document, text)
  end
  return settled
`;

const server = new Redis(process.env.REDIS_URL ?? "redis://127.0.0.1:6379");
const run = (script, document, word) =>
  server.eval(script, KEYS.length, ...KEYS, QUIET_MS, LIMIT_MS, document, word);

async function saver(save) {
  // Its own connection, with a timeout longer than the block.
  const saving = server.duplicate({ socketTimeout: BLOCK_MS + 5_000 });
  for (;;) {
    const words = ["COUNT", 1, "BLOCK", BLOCK_MS, "LEASE", LEASE_MS, "TOKEN", randomUUID()];
    const due = await saving.call("DEHYDRATOR.POLL", KEYS[0], ...words);
    for (const [document, text, , token] of due) {
      await save(document, text);
      await run(SETTLE, document, token);
    }
  }
}

// The demonstration: three savers, one of which dies at its first document, and a letter that changes all the time.
await server.del(...KEYS);
await server.call("DEHYDRATOR.ONDUE", KEYS[1], "DROP");
const CHANGES = 30;
const saved = [];
const busy = new Set();
let died = false;

async function save(document, text) {
  if (!died) {
    died = true;
    await new Promise(() => {}); // forever: it never settles
  }
  assert(!busy.has(document), "two savers at one document");
  busy.add(document);
  await sleep(500); // longer than the limit, so that changes come meanwhile
  busy.delete(document);
  saved.push(Number(text));
}
const savers = [saver(save), saver(save), saver(save)];

let savedBefore = 0;
for (let version = 1; version <= CHANGES; version += 1) {
  savedBefore = saved.length;
  await run(CHANGED, "letter", version);
  await sleep(100);
}
console.log(`the letter changed ${CHANGES} times, and was never quiet`);
while (saved.at(-1) !== CHANGES) {
  await Promise.race([sleep(10), ...savers]);
}
assert(savedBefore > 0, "it was never saved before");
console.log("it was saved before the last change, and at the end");
while ((await server.call("DEHYDRATOR.LEN", KEYS[0])) > 0) {
  await sleep(10);
}
assert(died && (await server.exists(KEYS[2])) === 0);
console.log("never by two at once, though one saver died");
await server.del(...KEYS);
process.exit();
