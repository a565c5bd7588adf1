// The scripts of this package, as the server in memory runs them.

import { LOOK, STORE } from "../schedule.js";
import { BURY, RETRY, REVIVE } from "../verbs.js";
import { CHANGE, GUARD, ROUTED, ROUTED_SHA } from "../wide/script.js";
import { needed, refused } from "./arguments.js";
import type { Directories } from "./directories.js";
import type { Reply } from "./reply.js";

/** Runs a command of the server in memory. */
type Call = (name: string, ...words: string[]) => Reply;

/** `words`: their number of keys, the keys, and what follows them. */
export function runScript(script: string, words: string[], call: Call, directories: Directories): Reply {
  if (script.startsWith(GUARD)) {
    const [keys, ...rest] = words;
    const generation = needed(rest.pop());
    const [latest] = rest.splice(Number(keys) - 1, 1);
    if (directories.isOutdated(needed(latest), generation)) return [-2];
    return runScript(script.slice(GUARD.length), ["", ...rest], call, directories);
  }
  const [, key = "", other = "", ...rest] = words;
  if (script === ROUTED || script === ROUTED_SHA) return directories.routed(key, other, rest);
  if (script === CHANGE) return directories.change(key, other, needed(rest[0]));
  if (script === BURY) return bury(key, other, rest, call);
  if (script === RETRY) return retry(key, [other, ...rest], call);
  if (script === REVIVE) return revive(key, other, needed(rest[0]), call);
  if (script === LOOK) return [call("TIME"), call("DEHYDRATOR.LOOK", key, other)];
  if (script === STORE) return store(key, other, rest, call);
  throw refused("ERR", "the server in memory runs the scripts of this package alone");
}

function bury(key: string, dead: string, words: string[], call: Call): Reply {
  const [token = "", id = "", element = "", deliveries = "", reason = ""] = words;
  // Is it a stream?
  call("XLEN", dead);
  const group = groupOf((call("DEHYDRATOR.LOOK", key, id, "FULL") ?? []) as Reply[]);
  const [settled] = call("DEHYDRATOR.SETTLE", key, token, id) as number[];
  if (settled === 0) return 0;
  const grouped = group === "" ? [] : ["group", group];
  call("XADD", dead, "*", "id", id, "element", element, "deliveries", deliveries, "reason", reason, ...grouped);
  return 1;
}

function retry(key: string, [ms = "", token = "", id = "", element = ""]: string[], call: Call): Reply {
  const released = call("DEHYDRATOR.RELEASE", key, ms, token, id) as number[];
  if (released[0] === 1) call("DEHYDRATOR.UPDATE", key, id, element);
  return released;
}

function revive(key: string, dead: string, count: string, call: Call): Reply {
  let revived = 0;
  for (const [entry, fields] of call("XRANGE", dead, "-", "+", "COUNT", count) as [string, string[]][]) {
    const [, id = "", , element = ""] = fields;
    if (call("DEHYDRATOR.LOOK", key, id) !== null) continue;
    call("DEHYDRATOR.PUSH", key, "0", element, id, "REPLACE", "GROUP", groupOf(fields));
    call("XDEL", dead, entry);
    revived += 1;
  }
  return revived;
}

/** Returns the value of the field `group`, or an empty one. */
function groupOf(fields: readonly Reply[]): string {
  const at = fields.findIndex((name, at) => at % 2 === 0 && name === "group");
  return at < 0 ? "" : String(fields[at + 1] ?? "");
}

function store(key: string, queue: string, words: string[], call: Call): Reply {
  const [name = "", token = "", before = "", after = "", deadline = "", ...jobs] = words;
  const release = (ms: string) =>
    token === "" || (call("DEHYDRATOR.RELEASE", key, ms, token, name, "UNCOUNTED") as number[])[0] === 1;
  if ((call("DEHYDRATOR.LOOK", key, name) ?? "") !== before) {
    release("0");
    return [0];
  }
  const pushed: string[] = [];
  const undo = () => {
    for (const id of pushed) call("DEHYDRATOR.REM", queue, id);
  };
  let fits = 0;
  try {
    for (let at = 0; at < jobs.length; at += 1 + Number(jobs[at])) {
      const job = jobs.slice(at + 1, at + 1 + Number(jobs[at]));
      if (call("DEHYDRATOR.PUSH", queue, ...job) !== null) pushed.push(needed(job[2]));
      fits += 1;
    }
    if (!release("1000")) {
      undo();
      return [0];
    }
    call("DEHYDRATOR.PUSH", key, "0", after, name, "REPLACE", "AT", deadline);
    return [1];
  } catch (error) {
    undo();
    if (token === "") throw error;
    if (fits === 0) release("1000");
    return [-1, fits, (error as Error).message];
  }
}
