// Jobs: what clients put into a queue, and what workers and readers get.

/** An id: any bytes. The package shows ids as text, and `idBytes` has the bytes. */
export type Id = string | Uint8Array;

/** An element that the server delivered with a lease. */
export interface Delivery {
  /** The key that it came from: one of those of its queue. */
  readonly key: string;
  /** The name of its queue. */
  readonly queue: string;
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
  /** How often it was delivered, including this time. */
  readonly attempt: number;
  /** The name of its queue. */
  readonly queue: string;
  /** The token of the lease, different for each attempt. It can fence the writes of the work. */
  readonly token: string;
  /** Aborts when the job was cancelled, given back, or another worker has it: the work should stop. */
  readonly lost: AbortSignal;
  /** What hooks put beside the payload, such as the context of a trace. If it changes, the next attempt gets it so. */
  readonly headers: Record<string, string>;
  /** Free for hooks. */
  context?: unknown;
}

/** One of several payloads that are put into a queue at once. */
export interface Item<T = unknown> {
  payload: T;
  id?: Id;
  /** In milliseconds. */
  delay?: number;
  /** A Date, or milliseconds since 1970, instead of `delay`. */
  at?: Date | number;
}

/** An element of the queue, as a reader sees it. */
export interface Waiting<T = unknown> {
  readonly id: string;
  readonly idBytes: Buffer;
  readonly payload: T;
  /** Its deadline, or the end of its lease, by the server's clock. */
  readonly due: Date;
  /** How often it was delivered. */
  readonly attempts: number;
  /** Whether a worker has it, with a running lease. */
  readonly leased: boolean;
}

/** An entry of the stream of dead letters. */
export interface DeadLetter {
  readonly entry: string;
  readonly id: string;
  readonly idBytes: Buffer;
  readonly element: Buffer;
  readonly attempts: number;
  /** The reason; empty if it reached its delivery limit without a reason from its last worker. */
  readonly reason: string;
}
