// A connection to the server that opens when needed, and reopens when it broke.

import type { Socket } from "node:net";
import { ConnectionError, DehydratorError, NoReplyError, NotReplicatedError } from "./errors.js";
import { timed } from "./moment.js";
import type { Word } from "./verbs.js";

/** A connected client of a library, which neither resends nor reconnects by itself. */
export interface Opened {
  readonly alive: boolean;
  /** Changes with each byte that comes or goes, if that is known. */
  readonly traffic?: number;
  /** Returns bulk strings as Buffers. */
  send(words: (string | Buffer)[]): Promise<unknown>;
  /** Subscribes to a channel, whose name may depend on the database: of a slot, if it is sharded. Then it sends nothing. */
  subscribe?(channel: (db: number) => string, sharded: boolean, hear: (message: Buffer) => void): Promise<unknown>;
  close(): void;
}

/** Temporary errors of the server: the same command may succeed later, on another connection. */
const PASSING =
  /^-?((BUSY|UNBLOCKED|READONLY|NOREPLICAS|MISCONF|LOADING|TRYAGAIN|CLUSTERDOWN|MASTERDOWN|MOVED|ASK|REDIRECT)( |$)|ERR max number of clients)/;

/** The error while a script runs for too long: server and connection are fine otherwise. */
const BUSY = /^-?BUSY( |$)/;

/** For how many milliseconds a server waits for its replicas. */
const WAIT = 500;

/** An error that the server replied. */
export type ErrorReply = Error & { readonly [REPLY]: true };
declare const REPLY: unique symbol;

/**
 * Returns whether an error is a reply of the server, which starts with a code (`ERR`, `WRONGTYPE`), unlike library
 * errors.
 *
 * Classes are unreliable: a bundler renames them, and a program may contain a library twice.
 */
export function isReply(error: unknown): error is ErrorReply {
  return error instanceof Error && /^-?[A-Z]{2,}( |$)/.test(error.message);
}

/** Returns whether the same command may succeed later. */
export function passes(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if (isReply(error)) return PASSING.test(error.message);
  if (error instanceof ConnectionError || error instanceof NotReplicatedError) return true;
  // Programming errors are permanent. All other errors of a library are about its connection.
  const lasting = [TypeError, RangeError, ReferenceError, SyntaxError, DehydratorError];
  return !lasting.some((kind) => error instanceof kind);
}

/** One connection. When it breaks, or a reply does not arrive, it is closed, and the next command opens another one. */
export class Wire {
  #opening: Promise<Opened> | undefined;
  #closed = false;

  /** `timeout`: how many milliseconds of silence are the end of a connection, by default. */
  constructor(
    private readonly open: () => Promise<Opened>,
    private readonly timeout: number,
  ) {}

  /** `replicas`: how many must have what this connection has written, or a NotReplicatedError is thrown. */
  async send(words: readonly Word[], timeout = this.timeout, replicas = 0): Promise<unknown> {
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
      const heard = opened;
      const reply = await inTime(opened.send(words.map(sendable)), timeout, () => heard.traffic);
      if (replicas === 0) return reply;
      // WAIT is about the writes of its connection, and an earlier one may have settled all of it. This adds nothing.
      const isWritten = Array.isArray(reply) && reply.every((one) => one === 1);
      if (!isWritten) await inTime(opened.send(["INCRBY", `${words[1]}:generation`, "0"]), timeout);
      const have = await inTime(opened.send(["WAIT", String(replicas), String(WAIT)]), timeout + WAIT);
      if (Number(have) < replicas) throw new NotReplicatedError(`only ${have} of ${replicas} replicas have it`);
      return reply;
    } catch (error) {
      // What it wrote is on its way, and the next WAIT is about that too.
      const isWritten = error instanceof NotReplicatedError;
      const sound =
        opened !== undefined && (isWritten || (isReply(error) && (!passes(error) || BUSY.test(error.message))));
      if (!sound) this.#drop(opening);
      throw error;
    }
  }

  close(): void {
    this.#closed = true;
    if (this.#opening !== undefined) this.#drop(this.#opening);
  }

  /** Closes a connection, even if it is still being opened. */
  #drop(opening: Promise<Opened>): void {
    if (this.#opening !== opening) return;
    this.#opening = undefined;
    // Ignore errors: it was never opened, or is closed already.
    opening.then((opened) => opened.close()).catch(() => {});
  }
}

/** Rejects with a NoReplyError if nothing comes within this many milliseconds, or since there was `traffic`. */
export function inTime<T>(promise: Promise<T>, timeout: number, traffic = (): number | undefined => 0): Promise<T> {
  return new Promise((resolve, reject) => {
    let timer: NodeJS.Timeout;
    const wait = (before: number | undefined) => {
      const late = () => {
        const now = traffic();
        if (now !== before) wait(now);
        else reject(new NoReplyError(`no reply in ${timeout} ms`));
      };
      timer = setTimeout(late, timed(timeout));
    };
    wait(traffic());
    promise.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

/** Returns a number that changes with each byte that a socket has read, and while it writes what is large. */
export function bytesOf({ bytesRead, writableLength }: Socket): number {
  // The few bytes of a command leave at once, whoever hears them.
  return bytesRead - Math.floor(writableLength / 65_536);
}

function sendable(word: Word): string | Buffer {
  if (typeof word === "number") return String(word);
  return typeof word === "string" || Buffer.isBuffer(word) ? word : Buffer.from(word);
}
