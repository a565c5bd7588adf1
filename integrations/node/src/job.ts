// What a queue is given, and what a worker and who looks are given of it.

/** An id: any bytes. Where the package shows one it is text, and `idBytes` are the bytes themselves. */
export type Id = string | Uint8Array;

/** An element that the server gave out under a lease. */
export interface Delivery {
  readonly key: string;
  readonly id: Buffer;
  readonly element: Buffer;
  readonly deliveries: number;
  readonly token: string;
}

/** A delivery with its payload. While its work runs, its lease is renewed in the background. */
export interface Job<T = unknown> {
  readonly id: string;
  readonly idBytes: Buffer;
  readonly payload: T;
  /** How often it was given out, this time included. */
  readonly attempt: number;
  /** The name of the queue that it is from. */
  readonly queue: string;
  /** The name of the lease: two attempts at one job never share it. Good for fencing what the work itself writes. */
  readonly token: string;
  /** Aborts when the job was cancelled, given back, or is another worker's: the work should stop, its end counts no more. */
  readonly lost: AbortSignal;
}

/** One of several payloads that are put away at once. */
export interface Item<T = unknown> {
  payload: T;
  id?: Id;
  /** In milliseconds. */
  delay?: number;
  /** A Date, or milliseconds since 1970, in place of `delay`. */
  at?: Date | number;
}

/** What the queue knows of an element that is in it. */
export interface Waiting<T = unknown> {
  readonly id: string;
  readonly idBytes: Buffer;
  readonly payload: T;
  /** When it is due, or when its lease ends, by the server's clock. */
  readonly due: Date;
  /** How often it was given out. */
  readonly attempts: number;
  /** Whether a worker has it, under a lease that runs. */
  readonly leased: boolean;
}

/** An entry of the stream of dead letters. */
export interface DeadLetter {
  readonly entry: string;
  readonly id: string;
  readonly idBytes: Buffer;
  readonly element: Buffer;
  readonly attempts: number;
  /** Why it is one; empty if it was given out as often as it may be, and its last worker said nothing. */
  readonly reason: string;
}
