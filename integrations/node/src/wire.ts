// A connection to the server that is made when it is needed, and made anew when it broke.

import { DehydratorError, NoReplyError } from "./errors.js";
import type { Word } from "./verbs.js";

/** A client of a library, connected. It sends nothing again by itself, and does not connect again. */
export interface Opened {
  readonly alive: boolean;
  /** Replies with Buffers where the server replies with bulk strings. */
  send(words: (string | Buffer)[]): Promise<unknown>;
  close(): void;
}

/** What the server says that passes by itself: the same command, sent again in a while, may succeed. */
const PASSING = /^-?(BUSY|UNBLOCKED|READONLY|NOREPLICAS|MISCONF|LOADING|TRYAGAIN|CLUSTERDOWN|MASTERDOWN)\b/;

/** Said while a script runs for too long: by a server that is otherwise well, on a connection that is. */
const BUSY = /^-?BUSY\b/;

/** An error that the server replied. */
export type ErrorReply = Error & { readonly [REPLY]: true };
declare const REPLY: unique symbol;

/**
 * Returns whether an error is a reply of the server, which begins with a code: `ERR`, `WRONGTYPE`. The libraries' errors do not.
 *
 * Their classes do not tell: a bundler renames them, and a program may hold a library twice.
 */
export function isReply(error: unknown): error is ErrorReply {
  return error instanceof Error && /^-?[A-Z]{2,}( |$)/.test(error.message);
}

/** Returns whether the same command, sent again in a while, may succeed. */
export function passes(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if (isReply(error)) return PASSING.test(error.message);
  if (error instanceof NoReplyError) return true;
  // What is wrong in a program stays wrong. All else that a library throws is of its connection.
  const lasting = [TypeError, RangeError, ReferenceError, SyntaxError, DehydratorError];
  return !lasting.some((kind) => error instanceof kind);
}

/** One connection. When it breaks, or a reply does not come, it is closed, and the next command makes another one. */
export class Wire {
  #opening: Promise<Opened> | undefined;
  #closed = false;

  /** `timeout`: for how many milliseconds it waits for a reply, if nothing else is asked for. */
  constructor(
    private readonly open: () => Promise<Opened>,
    private readonly timeout: number,
  ) {}

  async send(words: readonly Word[], timeout = this.timeout): Promise<unknown> {
    if (this.#closed) throw new DehydratorError("the queue was closed");
    this.#opening ??= this.open();
    let opening = this.#opening;
    let opened: Opened | undefined;
    try {
      opened = await inTime(opening, timeout);
      if (!opened.alive) {
        this.#drop(opening);
        this.#opening ??= this.open();
        opening = this.#opening;
        opened = undefined;
        opened = await inTime(opening, timeout);
      }
      return await inTime(opened.send(words.map(sendable)), timeout);
    } catch (error) {
      const sound = opened !== undefined && isReply(error) && (!passes(error) || BUSY.test(error.message));
      if (!sound) this.#drop(opening);
      throw error;
    }
  }

  close(): void {
    this.#closed = true;
    if (this.#opening !== undefined) this.#drop(this.#opening);
  }

  /** Closes a connection, also one that is yet to be made. */
  #drop(opening: Promise<Opened>): void {
    if (this.#opening !== opening) return;
    this.#opening = undefined;
    // Neither that it was never made, nor that it is closed already, is of interest.
    opening.then((opened) => opened.close()).catch(() => {});
  }
}

function inTime<T>(promise: Promise<T>, timeout: number): Promise<T> {
  return new Promise((resolve, reject) => {
    const late = () => reject(new NoReplyError(`no reply in ${timeout} ms`));
    const timer = setTimeout(late, timeout);
    promise.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

function sendable(word: Word): string | Buffer {
  if (typeof word === "number") return String(word);
  return typeof word === "string" || Buffer.isBuffer(word) ? word : Buffer.from(word);
}
