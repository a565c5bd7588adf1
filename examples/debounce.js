/*
 * Debounce: however often a document changes, it is saved once, when it has not changed for a while.
 *
 * Each change is pushed under the id of the document with REPLACE, which drops the previous change and restarts the timer.
 * So the last change comes due. There can be any number of writers and savers, on any number of machines.
 *
 * The saver uses POLL without LEASE. If it dies between taking a change and saving it, that change is only saved with the next
 * one. A document that changes all the time is never saved. debounce_leases.js solves both.
 *
 * Prints:
 *
 *     saved minutes: version 1
 *     saved letter: version 4
 *     5 changes, saved 2 times
 */

import assert from "node:assert";
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";

const KEY = "demo:changes";
const QUIET_MS = 800;
const BLOCK_MS = 10_000;

const server = new Redis(process.env.REDIS_URL ?? "redis://127.0.0.1:6379");

// A blocked connection does nothing else, so the saver has its own. By default, ioredis waits for a reply
// without limit. A timeout must be longer than the block.
const saving = server.duplicate({ socketTimeout: BLOCK_MS + 5_000 });

async function changed(document, text) {
  await server.call("DEHYDRATOR.PUSH", KEY, QUIET_MS, text, document, "REPLACE");
}

async function saver(save) {
  for (;;) {
    // null if nothing came due within the block.
    const due = await saving.call("DEHYDRATOR.POLL", KEY, "BLOCK", BLOCK_MS, "WITHIDS");
    for (const [document, text] of due) {
      await save(document, text);
    }
  }
}

// The demonstration: the letter changes four times, each time before the quiet period ends.
await server.del(KEY);
let saved = 0;
const changedAt = {};
const bothSaved = new Promise((resolve, reject) => {
  saver(async (document, text) => {
    assert(Date.now() - changedAt[document] >= QUIET_MS, "saved too early");
    console.log(`saved ${document}: ${text}`);
    saved += 1;
    if (saved === 2) resolve();
  }).catch(reject);
});

changedAt.minutes = Date.now();
await changed("minutes", "version 1");
for (let version = 1; version <= 4; version += 1) {
  changedAt.letter = Date.now();
  await changed("letter", `version ${version}`);
  await sleep(100);
}
await bothSaved;
console.log(`5 changes, saved ${saved} times`);
process.exit();
