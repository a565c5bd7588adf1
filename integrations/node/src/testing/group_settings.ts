// LIMIT and INFO of groups.

import { LIMIT_OPTIONS, Options, refused } from "./arguments.js";
import type { Entry } from "./dehydrator.js";
import type { Groups } from "./groups.js";
import { OK, type Reply } from "./reply.js";

/** Limits a group, or if `words` name none, each that has no limits of its own. */
export function limitGroups(groups: Groups<Entry>, words: string[], scope: Record<string, boolean>): Reply {
  const options = new Options(words, { ...scope, ...LIMIT_OPTIONS });
  const group = options.group();
  const before = group === undefined ? groups.each : groups.settings(group);
  const [length, held, rate] = [options.number("LENGTH"), options.number("HELD"), options.rate()];
  const isLimited = (length ?? held ?? rate) !== undefined;
  if (group === "" && isLimited) throw refused("ERR", "elements without a group can have a SHARE, but no limit");
  const share = options.number("SHARE", 1);
  if ((share ?? 0) > 65_535) throw refused("ERR", "SHARE is from 1 to 65535");
  if (!isLimited && share === undefined) throw refused("ERR", "LIMIT needs a limit");
  const changed = { share: share ?? before.share, length: length ?? before.length, held: held ?? before.held, ...rate };
  groups.set(group, { ...before, ...changed });
  return OK;
}

export function infoOfGroup(groups: Groups<Entry>, group: string, now: number): Reply {
  const [entries, { share, length, held, rate, per, pause }] = [groups.of(group), groups.limits(group)];
  const isPaused = pause > now;
  return Object.entries({
    length: entries.length,
    "next-deadline": entries[0]?.deadline ?? null,
    paused: isPaused ? 1 : 0,
    "paused-until": isPaused && Number.isFinite(pause) ? pause : null,
    share,
    "length-limit": length,
    "held-limit": held,
    "rate-limit": rate,
    "rate-per": per,
  }).flat();
}
