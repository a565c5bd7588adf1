// Durations, moments and options, as the user gives them: what makes no sense is refused at once, with its name.

import { inspect } from "node:util";
import type { Id } from "./job.js";

/** The longest wait of Node's own timers: they take a longer one for a millisecond. */
const LONGEST = 2 ** 31 - 1;

/** Returns a duration in whole milliseconds, rounded up: never early. */
export function milliseconds(duration: number, name: string, least = 0): number {
  if (typeof duration === "number" && duration >= least && duration <= Number.MAX_SAFE_INTEGER) {
    return Math.ceil(duration);
  }
  throw new RangeError(`\`${name}\` is a number of milliseconds from ${least} on, and not ${inspect(duration)}`);
}

/** Returns a point in time, or a number of milliseconds since 1970, in whole milliseconds since 1970. */
export function unixMilliseconds(moment: Date | number, name: string): number {
  const at = moment instanceof Date || typeof moment === "number" ? Number(moment) : Number.NaN;
  if (Number.isFinite(at)) return Math.max(0, Math.ceil(at));
  throw new RangeError(`\`${name}\` is a Date, or milliseconds since 1970, and not ${inspect(moment)}`);
}

/** Returns a whole number within bounds. */
export function whole(value: number, name: string, least: number, most = Number.MAX_SAFE_INTEGER): number {
  if (Number.isInteger(value) && value >= least && value <= most) return value;
  const range = most < Number.MAX_SAFE_INTEGER ? `from ${least} to ${most}` : `from ${least} on`;
  throw new RangeError(`\`${name}\` is a whole number ${range}, and not ${inspect(value)}`);
}

/** Returns a text or bytes, which are not empty unless `least` is 0. */
export function named<W extends Id>(word: W, name: string, least = 1): W {
  if ((typeof word === "string" || word instanceof Uint8Array) && word.length >= least) return word;
  throw new TypeError(`\`${name}\` is a text or bytes${least > 0 ? ", not empty" : ""}, and not ${inspect(word)}`);
}

/** Returns a finite number within bounds. */
export function number(value: number, name: string, least: number, most = Number.MAX_VALUE): number {
  if (typeof value === "number" && value >= least && value <= most) return value;
  const range = most < Number.MAX_VALUE ? `from ${least} to ${most}` : `from ${least} on`;
  throw new RangeError(`\`${name}\` is a number ${range}, and not ${inspect(value)}`);
}

/** Returns one of some words, or of some other values. */
export function oneOf<W>(word: W, name: string, ...words: readonly unknown[]): W {
  if (words.includes(word)) return word;
  throw new TypeError(`\`${name}\` is ${words.map((one) => inspect(one)).join(" or ")}, and not ${inspect(word)}`);
}

/** Returns an object that has these methods. */
export function having<O>(object: O, name: string, ...methods: string[]): O {
  const all = object as Record<string, unknown> | null | undefined;
  if (methods.every((method) => typeof all?.[method] === "function")) return object;
  throw new TypeError(`\`${name}\` is an object with ${methods.join(", ")}, and not ${inspect(object)}`);
}

/** Refuses options that nobody knows, such as misspelled ones. */
export function known(options: object, names: string, name = "options"): void {
  if (typeof options !== "object" || options === null) {
    throw new TypeError(`\`${name}\` is an object, and not ${inspect(options)}`);
  }
  const all = names.split(" ");
  const other = Object.keys(options).find((name) => !all.includes(name));
  if (other !== undefined) throw new TypeError(`there is no option \`${other}\`: known are ${all.join(", ")}`);
}

/** Calls after any number of milliseconds; returns what cancels that. It keeps no process. */
export function after(ms: number, call: () => void): () => void {
  let timer: NodeJS.Timeout;
  const wait = (left: number) => {
    const next = () => (left > LONGEST ? wait(left - LONGEST) : call());
    timer = setTimeout(next, Math.min(left, LONGEST)).unref();
  };
  wait(ms);
  return () => clearTimeout(timer);
}

/** Returns a duration as Node's own timers can wait, shorter if need be. */
export function timed(ms: number): number {
  return Math.min(ms, LONGEST);
}
