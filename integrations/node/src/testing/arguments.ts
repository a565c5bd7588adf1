// The arguments of a command, and the errors that refuse them. Bytes are strings of Latin-1, here and in the files beside.

import type { Word } from "../verbs.js";

/** Bulk strings are strings, and so is OK. */
export type Reply = string | number | null | Reply[];

/** Returns the error for a reply of the server. */
export function refused(code: string, text: string): Error {
  return new Error(`${code} ${text}`);
}

/** Returns the bytes of a word, as Latin-1. */
export function wordOf(word: Word): string {
  return typeof word === "number" ? String(word) : Buffer.from(word as string).toString("latin1");
}

export function numberOf(text: string | undefined, name: string, least = 0): number {
  const number = Number(text);
  // The server's own greatest is 2^63 - 1.
  const isWhole = text !== undefined && /^(0|[1-9]\d{0,18})$/.test(text) && BigInt(text) < 2n ** 63n;
  if (!isWhole || number < least) throw refused("ERR", `${name} '${text}' is not a whole number from ${least} on`);
  return number;
}

export function needed(word: string | undefined): string {
  if (word === undefined) throw refused("ERR", "wrong number of arguments");
  return word;
}

/** The options of a command, which come in any order, each at most once. */
export class Options {
  readonly #found = new Map<string, string | undefined>();

  /** `known`: the names of the options, with a `=` if a value follows. */
  constructor(words: readonly string[], known: string) {
    const names = known.split(" ");
    for (let at = 0; at < words.length; at += 1) {
      const name = words[at]!.toUpperCase();
      const isAlone = names.includes(name);
      if (!(isAlone || names.includes(`${name}=`)) || this.has(name)) throw refused("ERR", `unexpected option ${name}`);
      if (!isAlone) at += 1;
      this.#found.set(name, isAlone ? undefined : needed(words[at]));
    }
    if (this.has("NX") && this.has("REPLACE")) throw refused("ERR", "NX and REPLACE exclude each other");
    if ((this.word("GROUP") ?? "").length > 1024) throw refused("ERR", "the name of a GROUP has at most 1024 bytes");
    if ((this.word("REASON") ?? "").length > 4096) throw refused("ERR", "a REASON has at most 4096 bytes");
    if (this.#deliveries > 65_535) throw refused("ERR", "DELIVERIES is from 1 to 65535");
    for (const one of ["COUNT", "WITHIN", "FOR", "LEASE", "TIMES", "PER"]) this.number(one, 1);
  }

  has(name: string): boolean {
    return this.#found.has(name);
  }

  word(name: string): string | undefined {
    return this.#found.get(name);
  }

  number(name: string, least = 0): number | undefined {
    return this.has(name) ? numberOf(this.word(name), name, least) : undefined;
  }

  get #deliveries(): number {
    return this.number("DELIVERIES", 1) ?? 0;
  }

  /** The name of a group, which is empty for the elements without one. */
  get group(): string {
    return this.word("GROUP") ?? "";
  }

  /** What PUSH and EVERY say of each element; 0 is none. */
  get terms(): { within: number; most: number; group: string } {
    return { within: this.number("WITHIN") ?? 0, most: this.#deliveries, group: this.group };
  }
}
