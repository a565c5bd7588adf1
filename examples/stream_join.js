/*
 * Stream join: two streams whose entries belong together by id, if they arrive within a window.
 *
 * Advertisements are shown (one stream) and clicked (another). The first of the two events waits in a dehydrator; the second
 * pulls it out, and they are a pair. An event that is still alone at the end of the window comes due. Ads that were shown but
 * not clicked are of interest, so a program polls them. Clicks on ads that were never shown are not, so their dehydrator has
 * the policy DROP.
 *
 * One script looks for the partner and, if there is none, waits for it. So any number of joiners can share the work, for
 * example with a consumer group.
 *
 * Prints:
 *
 *     car: shown, clicked
 *     tea: clicked, shown
 *     hat: shown, not clicked
 *     a click on fog, never shown, is gone
 *     a click on hat, too late, is gone
 */

import assert from "node:assert";
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";

// One command reads two keys, and one script uses the other two: in a cluster, the braces put them on one node.
const STREAM = { shown: "{demo:ads}:shown", clicked: "{demo:ads}:clicked" };
const WAITING = { shown: "{demo:ads}:shown-alone", clicked: "{demo:ads}:clicked-alone" };
const WINDOW_MS = 500;
const BLOCK_MS = 10_000;

const server = new Redis(process.env.REDIS_URL ?? "redis://127.0.0.1:6379", {
  scripts: {
    // Replies the partner if it waits and its window is open. Otherwise this event waits, and the reply is nil.
    // A second entry of the same kind with the same id changes nothing (NX).
    join: {
      numberOfKeys: 2,
      lua: `
        if redis.call('DEHYDRATOR.PTTL', KEYS[1], ARGV[1]) > 0 then
            return redis.call('DEHYDRATOR.PULL', KEYS[1], ARGV[1])
        end
        redis.call('DEHYDRATOR.PUSH', KEYS[2], ARGV[3], ARGV[2], ARGV[1], 'NX')
        return false`,
    },
  },
});

// A blocked connection does nothing else, so each blocking loop has its own. By default, ioredis waits for a reply
// without limit. A timeout must be longer than the block: if only the client gives up, the command still waits in
// the server, and takes an element that no program receives.
const sleeper = () => server.duplicate({ commandTimeout: BLOCK_MS + 5_000 });

async function joiner(onPair) {
  const reading = sleeper();
  const last = { [STREAM.shown]: "0", [STREAM.clicked]: "0" };
  for (;;) {
    const streams = [...Object.keys(last), ...Object.values(last)];
    for (const [stream, entries] of (await reading.xread("BLOCK", BLOCK_MS, "STREAMS", ...streams)) ?? []) {
      const [kind, other] = stream === STREAM.shown ? ["shown", "clicked"] : ["clicked", "shown"];
      for (const [entry, [, id, , text]] of entries) {
        const partner = await server.join(WAITING[other], WAITING[kind], id, text, WINDOW_MS);
        if (partner !== null) onPair(id, partner, text);
        last[stream] = entry;
      }
    }
  }
}

async function leftovers(onAlone) {
  const polling = sleeper();
  for (;;) {
    const due = await polling.call("DEHYDRATOR.POLL", WAITING.shown, "BLOCK", BLOCK_MS, "WITHIDS");
    for (const [id, text] of due) onAlone(id, text);
  }
}

// The demonstration.
const seen = [];
const failed = (error) => {
  console.error(error);
  process.exit(1);
};
const add = (kind, id) => server.xadd(STREAM[kind], "*", "id", id, "text", kind);
const until = async (condition) => {
  while (!(await condition())) await sleep(5);
};
const say = (line) => {
  seen.push(line);
  console.log(line);
};

await server.del(...Object.values(STREAM), ...Object.values(WAITING));
await server.call("DEHYDRATOR.ONDUE", WAITING.clicked, "DROP");
joiner((id, first, second) => say(`${id}: ${first}, ${second}`)).catch(failed);
leftovers((id, text) => {
  assert(Date.now() - hatShown >= WINDOW_MS, "the window was too short");
  say(`${id}: ${text}, not clicked`);
}).catch(failed);

await add("shown", "car");
await add("clicked", "car");
await until(() => seen.length === 1);
await add("clicked", "tea");
await until(async () => (await server.call("DEHYDRATOR.LEN", WAITING.clicked)) === 1);
await add("shown", "tea");
await until(() => seen.length === 2);
const hatShown = Date.now();
await add("shown", "hat");
await add("clicked", "fog");
await until(() => seen.length === 3);
await until(async () => (await server.call("DEHYDRATOR.LEN", WAITING.clicked)) === 0);
say("a click on fog, never shown, is gone");
await add("clicked", "hat");
await until(async () => (await server.call("DEHYDRATOR.LEN", WAITING.clicked)) === 1);
await until(async () => (await server.call("DEHYDRATOR.LEN", WAITING.clicked)) === 0);
say("a click on hat, too late, is gone");
// A dehydrator with a policy remains when it is empty, so delete it.
await server.del(...Object.values(STREAM), WAITING.clicked);
process.exit();
