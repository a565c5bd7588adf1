// LIMIT and INFO of groups.

import { Options, refused } from "./arguments.js";
import type { Entry } from "./dehydrator.js";
import type { Groups } from "./groups.js";
import { OK, type Reply } from "./reply.js";

export function limitGroup(groups: Groups<Entry>, words: string[]): Reply {
  const options = new Options(words, { GROUP: true, SHARE: true, LENGTH: true, HELD: true });
  const [group, share] = [options.group() ?? "", options.number("SHARE", 1)];
  const [length, held] = [options.number("LENGTH"), options.number("HELD")];
  if (group === "" && (length ?? held) !== undefined) throw refused("ERR", "others than groups have a SHARE alone");
  if ((share ?? 0) > 65_535) throw refused("ERR", "SHARE is from 1 to 65535");
  const { pause, ...limits } = groups.settings(group);
  if ((share ?? length ?? held) === undefined) return Object.entries(limits).flat();
  const { share: ownShare, length: ownLength, held: ownHeld } = limits;
  const changed = { share: share ?? ownShare, length: length ?? ownLength, held: held ?? ownHeld, pause };
  groups.set(group, changed);
  return OK;
}

export function limitEach(groups: Groups<Entry>, words: string[]): Reply {
  const options = new Options(words, { LENGTH: true, HELD: true });
  const [length, held] = [options.number("LENGTH"), options.number("HELD")];
  const { each } = groups;
  if ((length ?? held) === undefined) return Object.entries(each).flat();
  groups.each = { length: length ?? each.length, held: held ?? each.held };
  return OK;
}

export function infoOfGroup(groups: Groups<Entry>, group: string, now: number): Reply {
  const [entries, { share, pause }] = [groups.of(group), groups.settings(group)];
  const isPaused = pause > now;
  return Object.entries({
    length: entries.length,
    "next-deadline": entries[0]?.deadline ?? null,
    paused: isPaused ? 1 : 0,
    "paused-until": isPaused && Number.isFinite(pause) ? pause : null,
    share,
    "length-limit": groups.limit("length", group),
    "held-limit": groups.limit("held", group),
  }).flat();
}
