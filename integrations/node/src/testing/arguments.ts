// The arguments of a command. Bytes are strings of Latin-1, here and in the files beside. What only a mistake would send is not refused.

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

/** The options of a command, which come in any order. */
export class Options {
  readonly #found = new Map<string, string>();

  /** `flags`: the names of options without a value. */
  constructor(words: readonly string[], flags = "") {
    for (let at = 0; at < words.length; at += 1) {
      const name = words[at]!.toUpperCase();
      if (!flags.split(" ").includes(name)) at += 1;
      this.#found.set(name, words[at]!);
    }
  }

  has(name: string): boolean {
    return this.#found.has(name);
  }

  word(name: string): string | undefined {
    return this.#found.get(name);
  }

  number(name: string): number | undefined {
    return this.has(name) ? Number(this.word(name)) : undefined;
  }

  /** The name of a group, which is empty for the elements without one. */
  get group(): string {
    return this.word("GROUP") ?? "";
  }

  /** What PUSH and EVERY say of each element; 0 is none. */
  get terms(): { within: number; most: number; group: string } {
    return { within: this.number("WITHIN") ?? 0, most: this.number("DELIVERIES") ?? 0, group: this.group };
  }
}
