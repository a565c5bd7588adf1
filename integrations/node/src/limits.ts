// What DEHYDRATOR.LIMIT sets for a queue or one of its groups.

import type { Id } from "./job.js";
import { known, milliseconds, named, whole } from "./moment.js";

export type Word = string | number | Uint8Array;

/** So many jobs in so many milliseconds. */
export type Rate = readonly [jobs: number, milliseconds: number];

/** Limits; null removes one. Those that are not named stay as they are: by default there is none. */
export interface LimitOptions {
  /** How many jobs there may be: `put` throws QueueFullError beyond. */
  length?: number | null;
  /** How many jobs workers may do at a time, all together. */
  held?: number | null;
  /** `[10, 1000]`: how many jobs begin in any second, of all workers together. */
  rate?: Rate | null;
  /** For how many milliseconds the id of a job that is done is refused. Of the queue alone. */
  remember?: number | null;
  /** `length` of each group that has none of its own. */
  eachLength?: number | null;
  /** `held` of each group that has none of its own: 1 does the jobs of each customer one after the other. */
  eachHeld?: number | null;
  /** `rate` of each group that has none of its own. */
  eachRate?: Rate | null;
  /** Limits this group instead, or gives it a share. */
  group?: Id;
  /** How many jobs the group gives out in its turn, from 1 to 65,535; by default 1. */
  share?: number;
}

/** The limits of a queue or a group; null where there is none. */
export type Limits = Readonly<
  Required<Pick<LimitOptions, "length" | "held" | "rate">> &
    Pick<LimitOptions, "remember" | "eachLength" | "eachHeld" | "eachRate" | "share">
>;

/** Returns the words of the commands that set these limits. */
export function limitWords(options: LimitOptions): Word[][] {
  known(options, "length held rate remember eachLength eachHeld eachRate group share");
  const { group, share, remember, length, held, rate, eachLength, eachHeld, eachRate } = options;
  const own = capWords(length, held, rate);
  if (remember !== undefined) own.push("REMEMBER", milliseconds(remember ?? 0, "remember"));
  if (share !== undefined) own.push("SHARE", whole(share, "share", 1, 65_535));
  // The jobs without a group have a share.
  const scope: Word[] = group === undefined ? [] : ["GROUP", named(group, "group", share === undefined ? 1 : 0)];
  const each = capWords(eachLength, eachHeld, eachRate);
  if (own.length + each.length === 0) throw new TypeError("name a limit: length, held, rate …");
  if (group === undefined) {
    if (share !== undefined) throw new TypeError("a `share` is of a `group`");
  } else if (each.length > 0 || remember !== undefined) {
    throw new TypeError("`each…` and `remember` are of the queue, and not of a `group`");
  }
  return [...(own.length > 0 ? [[...scope, ...own]] : []), ...(each.length > 0 ? [["EACH", ...each]] : [])];
}

function capWords(length?: number | null, held?: number | null, rate?: Rate | null): Word[] {
  const words: Word[] = [];
  if (length !== undefined) words.push("LENGTH", whole(length ?? 0, "length", 0));
  if (held !== undefined) words.push("HELD", whole(held ?? 0, "held", 0));
  if (rate === null) words.push("RATE", 0);
  else if (rate !== undefined) {
    const [jobs, per, ...others] = Array.isArray(rate) ? rate : [];
    if (per === undefined || others.length > 0) throw new TypeError("a `rate` is [jobs, milliseconds]");
    words.push("RATE", whole(jobs!, "rate", 1), "PER", milliseconds(per, "rate", 1));
  }
  return words;
}

/** Reads the limits from what DEHYDRATOR.INFO tells of a queue or a group. */
export function limitsOf(info: Record<string, unknown>): Limits {
  const number = (name: string) => Number(info[name] ?? 0) || null;
  const caps = (scope: string) => {
    const [jobs, per] = [number(`${scope}rate-limit`), number(`${scope}rate-per`)];
    const rate: Rate | null = jobs === null || per === null ? null : [jobs, per];
    return [number(`${scope}length-limit`), number(`${scope}held-limit`), rate] as const;
  };
  const [[length, held, rate], [eachLength, eachHeld, eachRate]] = [caps(""), caps("each-")];
  if ("share" in info) return { length, held, rate, share: Number(info.share) };
  return { length, held, rate, remember: number("remember"), eachLength, eachHeld, eachRate };
}
