// Jobs: what clients put into a queue, and what workers and readers get.

import type { PutOptions } from "./verbs.js";

/** An id: any bytes. The package shows ids as text, and `idBytes` has the bytes. */
export type Id = string | Uint8Array;

/** An element that the server delivered with a lease. */
export interface Delivery {
  /** The key that it came from: one of those of its queue. */
  readonly key: string;
  /** The name of its queue. */
  readonly queue: string;
  readonly id: string;
  readonly idBytes: Buffer;
  readonly element: Buffer;
  readonly attempt: number;
  readonly token: string;
}

/** A delivery with its payload. While its work runs, its lease is renewed in the background. */
export interface Job<T = unknown> {
  /** As `put` returned it. */
  readonly id: string;
  /** The same as bytes. */
  readonly idBytes: Buffer;
  readonly payload: T;
  /** The number of the attempt that this is, from 1 on. */
  readonly attempt: number;
  /** The name of its queue. */
  readonly queue: string;
  /** The token of the lease, different for each attempt. It can fence the writes of the work. */
  readonly token: string;
  /**
   * Aborts when the job was cancelled, given back, took too long, or another worker has it: the work should stop. Its
   * reason is a JobLostError or a JobTimeoutError.
   */
  readonly signal: AbortSignal;
  /** What hooks put beside the payload, such as the context of a trace. If it changes, the next attempt gets it so. */
  readonly headers: Record<string, string>;
  /** Asks the server for the group that `put` named; null if there is none, or the job is gone. */
  group(): Promise<string | null>;
  /** Free for hooks. */
  context?: unknown;
}

/** One of several payloads that are put into a queue at once. */
export interface Item<T = unknown> extends PutOptions {
  payload: T;
}

/** What became of one of several payloads. */
export interface Put {
  readonly id: string;
  /** `exists`: an element with that id stays as it is. `full`: `limit({ length })`, or the server's, leaves no room. */
  readonly outcome: "stored" | "exists" | "full";
}

/** What a reader sees of an element. */
export interface Seen<T = unknown> {
  readonly id: string;
  readonly idBytes: Buffer;
  /** Undefined, with an `error`, if the codec cannot decode it. */
  readonly payload: T;
  readonly error?: unknown;
  /** What the codec made of the payload. */
  readonly element: Buffer;
  /** What hooks and `timeout` put beside it. */
  readonly headers: Record<string, string>;
  /** How long an attempt may take, in milliseconds, if `put` said so. */
  readonly timeout?: number;
  /** The number of the last attempt; 0 if there was none. */
  readonly attempt: number;
}

/** An element of the queue, as a reader sees it. */
export interface Waiting<T = unknown> extends Seen<T> {
  /** Its deadline, or the end of its lease, by the server's clock. */
  readonly due: Date;
  /** Whether a worker has it, with a running lease. */
  readonly leased: boolean;
  /** What `put` said, and why the last attempt failed, if a worker told: only `look` reads these four. */
  readonly group?: string;
  readonly attempts?: number;
  /** After this moment no worker begins it, for `within` has passed. */
  readonly expires?: Date;
  readonly reason?: string;
}

/** An entry of the stream of dead letters. */
export interface DeadLetter<T = unknown> extends Seen<T> {
  /** The key that it came from, and its id in the stream. */
  readonly key: string;
  readonly entry: string;
  readonly group?: string;
  /** The reason, with the stack; empty if it reached its delivery limit without a reason from its last worker. */
  readonly reason: string;
}
