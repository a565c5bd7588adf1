// Jobs: what clients put into a queue, and what workers and readers get.

/** An id: any bytes. The package shows ids as text, and `idBytes` has the bytes. */
export type Id = string | Uint8Array;

/** What holds of a job alone. */
export interface OwnTerms {
  /**
   * In milliseconds, by default without limit. A job that no worker has begun within that time after it was due is too
   * late: it becomes a dead letter with the reason "expired", or is dropped if no worker of the queue has `attempts`.
   */
  within?: number;
  /** How often the job is delivered, from 1 to 65,535, before it becomes a dead letter; by default as the queue says. */
  attempts?: number;
  /** A tenant, or another part of the queue: groups with due jobs take turns. By default none. */
  group?: Id;
  /** How long an attempt may take, in milliseconds; by default as its worker says. */
  timeout?: number;
}

/** How `put` and `putMany` put a job. */
export interface PutOptions extends OwnTerms {
  /** By default it is drawn. */
  id?: Id;
  /** When the job is due, in milliseconds from now; by default at once. */
  delay?: number;
  /** When the job is due, as a Date, or milliseconds since 1970, instead of `delay`. */
  at?: Date | number;
  /** Whether it replaces an element with that id, and restarts its delay: a debounce. By default that one stays. */
  replace?: boolean;
}

/** An element that the server delivered with a lease. */
export interface Delivery {
  /** The key that it came from: one of those of its queue. */
  readonly key: string;
  /** The name of its queue. */
  readonly queue: string;
  /** As `put` returned it. */
  readonly id: string;
  /** The id as bytes. */
  readonly idBytes: Buffer;
  /** What was put, with its headers. */
  readonly element: Buffer;
  /** The number of the attempt that this is, from 1 on. */
  readonly attempt: number;
  /** The token of the lease, different for each attempt. It can fence the writes of the work. */
  readonly token: string;
}

/** A delivery with its payload. While its work runs, its lease is renewed in the background. */
export interface Job<T = unknown> extends Omit<Delivery, "key" | "element"> {
  /** What was put. */
  readonly payload: T;
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
  /** Anything that the codec of the queue encodes. */
  payload: T;
}

/** What became of one of several payloads. */
export interface Put {
  /** That of the item, or one that was drawn. */
  readonly id: string;
  /** `exists`: an element with that id stays as it is. `full`: `limit({ length })`, or the server's, leaves no room. */
  readonly outcome: "stored" | "exists" | "full";
}

/** What a reader sees of an element. */
export interface Seen<T = unknown> extends Pick<Delivery, "id" | "idBytes">, Pick<OwnTerms, "timeout"> {
  /** Undefined, with an `error`, if the codec cannot decode it. */
  readonly payload: T;
  /** What the codec threw. */
  readonly error?: unknown;
  /** What the codec made of the payload. */
  readonly element: Buffer;
  /** What hooks and `timeout` put beside it. */
  readonly headers: Record<string, string>;
  /** The number of the last attempt; 0 if there was none. */
  readonly attempt: number;
}

/** An element of the queue, as a reader sees it. */
export interface Waiting<T = unknown> extends Seen<T>, Pick<OwnTerms, "attempts"> {
  /** Its deadline, or the end of its lease, by the server's clock. */
  readonly due: Date;
  /** Whether a worker has it, with a running lease. */
  readonly leased: boolean;
  /** The group that `put` named. Only `look` reads this, `attempts`, and what follows. */
  readonly group?: string;
  /** After this moment no worker begins it, for `within` has passed. */
  readonly expires?: Date;
  /** Why the last attempt failed, if a worker told. */
  readonly reason?: string;
}

/** An entry of the stream of dead letters. */
export interface DeadLetter<T = unknown> extends Seen<T> {
  /** The key that it came from. */
  readonly key: string;
  /** Its id in the stream. */
  readonly entry: string;
  /** The group that `put` named. */
  readonly group?: string;
  /** The reason, with the stack; empty if it reached its delivery limit without a reason from its last worker. */
  readonly reason: string;
}
