// The arguments of a command, and the errors that refuse them.

import type { Word } from "../verbs.js";

/** Returns the error for a reply of the server. */
export function refused(code: string, text: string): Error {
  return new Error(`${code} ${text}`);
}

/** Returns the bytes of a word, as Latin-1. */
export function wordOf(word: Word): string {
  if (typeof word === "number") return String(word);
  return (typeof word === "string" ? Buffer.from(word) : Buffer.from(word)).toString("latin1");
}

export function numberOf(text: string | undefined, name: string, least = 0): number {
  const number = Number(text);
  // The server's own greatest is 2^63 - 1.
  const isWhole = text !== undefined && /^(0|[1-9]\d{0,18})$/.test(text) && BigInt(text) < 2n ** 63n;
  if (!isWhole || number < least) {
    throw refused("ERR", `${name} '${text}' is not a whole number of milliseconds from ${least} on`);
  }
  return number;
}

/** The options of a command, which come in any order, each at most once. */
export class Options {
  readonly #found = new Map<string, string | undefined>();

  /** `known`: the names of the options, and whether a value follows each. */
  constructor(words: readonly string[], known: Record<string, boolean>) {
    for (let at = 0; at < words.length; at += 1) {
      const name = words[at]!.toUpperCase();
      if (!(name in known) || this.#found.has(name)) throw refused("ERR", `unexpected option ${name}`);
      if (!known[name]) {
        this.#found.set(name, undefined);
        continue;
      }
      at += 1;
      if (at === words.length) throw refused("ERR", `${name} needs a value`);
      this.#found.set(name, words[at]);
    }
  }

  has(name: string): boolean {
    return this.#found.has(name);
  }

  onlyOne(one: string, other: string): void {
    if (this.has(one) && this.has(other)) throw refused("ERR", `${one} and ${other} exclude each other`);
  }

  number(name: string, least = 0): number | undefined {
    return this.has(name) ? numberOf(this.#found.get(name), name, least) : undefined;
  }

  /** Returns the numbers of RATE and PER. A RATE of 0, without a limit, needs no PER. */
  rate(): { rate: number; per: number } | undefined {
    const [rate, per] = [this.number("RATE"), this.number("PER", 1)];
    if (rate === undefined ? per !== undefined : rate > 0 && per === undefined) throw refused("ERR", "RATE needs PER");
    return rate === undefined ? undefined : { rate, per: rate > 0 ? per! : 0 };
  }

  /** Returns the name of a group, which is empty for the elements without one. */
  group(): string | undefined {
    const name = this.word("GROUP");
    if (name !== undefined && name.length > 1024) throw refused("ERR", "the name of a GROUP has at most 1024 bytes");
    return name;
  }

  /** Returns the name of a group that may be paused. */
  namedGroup(): string | undefined {
    const group = this.group();
    if (group === "") throw refused("ERR", "elements without a group have no pause of their own");
    return group;
  }

  word(name: string): string | undefined {
    return this.#found.get(name);
  }
}

export function needed(word: string | undefined): string {
  if (word === undefined) throw refused("ERR", "wrong number of arguments");
  return word;
}

/** Returns a number of deliveries, 0 if there is none. */
export function deliveriesOf(text: string | undefined): number {
  const count = text === undefined ? 0 : numberOf(text, "DELIVERIES", 1);
  if (count > 65_535) throw refused("ERR", "DELIVERIES is from 1 to 65535");
  return count;
}

/** The names of the options of PUSH and MPUSH, and whether a value follows each. */
export const PUSH_OPTIONS = {
  NX: false,
  REPLACE: false,
  SLACK: true,
  AT: true,
  DELIVERIES: true,
  WITHIN: true,
  GROUP: true,
};

/** The names of the options of LIMIT that hold for a key and for groups. */
export const LIMIT_OPTIONS = { LENGTH: true, HELD: true, RATE: true, PER: true };

export function pushOptions(words: string[]): Options {
  const options = new Options(words, PUSH_OPTIONS);
  options.onlyOne("NX", "REPLACE");
  options.onlyOne("SLACK", "AT");
  options.group();
  return options;
}

/** Returns a moment, or if `(` excludes it, the one beside it. */
export function boundOf(text: string, name: string, beside: number): number {
  return text.startsWith("(") ? numberOf(text.slice(1), name) + beside : numberOf(text, name);
}

/** Returns the name of the group that is changed. */
export function changedGroup(options: Options): string {
  const group = options.group();
  if (!group) throw refused("ERR", "GROUP needs a name here: elements without a group are no group");
  return group;
}
