// Shared by the tests of queues and workers: each runs with both libraries.

import { describe, type TestContext } from "node:test";
import {
  type Delivery,
  Hooks,
  type Job,
  type LibraryName,
  Queue,
  type QueueOptions,
  Reject,
  Worker,
  type WorkerOptions,
} from "dehydrator-queue";
import type { Part } from "../src/keys.js";
import { internals } from "../src/queue.js";
import type { Patience } from "../src/server.js";
import { until } from "./servers.js";

export const LIBRARIES: readonly LibraryName[] = ["ioredis", "redis"];

/** Describes the same with each library. */
export function withEach(name: string, tests: (library: LibraryName) => void): void {
  for (const library of LIBRARIES) describe(`${name}, by ${library}`, () => tests(library));
}

let names = 0;

/** Returns a queue with a unique name, which is closed after the test. */
export function queueOf<T = unknown>(
  t: TestContext,
  server: string | ConstructorParameters<typeof Queue>[0],
  { name, ...options }: QueueOptions<T> & { name?: string } = {},
): Queue<T> {
  names += 1;
  const queue = new Queue<T>(server, name ?? `jobs${names}`, options);
  t.after(() => queue.close());
  return queue;
}

/** Returns the keys of a queue. */
export function partsOf<T>(queue: Queue<T>, how?: Patience): Promise<readonly Part<T>[]> {
  return internals(queue).keys.parts(how);
}

/** Hooks that record events, and print nothing. */
export class Notes extends Hooks {
  readonly heard: string[] = [];

  override succeeded(job: Job): void {
    this.heard.push(`succeeded ${job.id}`);
  }

  override retried(job: Job, _ms: number, error: unknown): void {
    this.heard.push(`retried ${job.id} ${error}`);
  }

  override buried({ id }: Delivery, reason: string): void {
    this.heard.push(`buried ${id}: ${reason.split("\n")[0]}`);
  }

  override lost(job: Job): void {
    this.heard.push(`lost ${job.id}`);
  }

  override begun(): void {}

  override ended(): void {}

  override overruled(queue: string, attempts: number, asked: number): void {
    this.heard.push(`overruled ${queue} ${attempts} ${asked}`);
  }

  override interrupted(): void {
    this.heard.push("interrupted");
  }

  override crashed(error: unknown): void {
    this.heard.push(`crashed ${error}`);
  }
}

/** A running worker for tests, with short waits, which is stopped after the test. */
export function running<T>(
  t: TestContext,
  queues: Queue<T> | Queue<T>[],
  work: (job: Job<T>) => unknown,
  options: WorkerOptions = {},
): { worker: Worker<T>; ended: Promise<void>; notes: Notes } {
  const notes = new Notes();
  const worker = new Worker(queues, work, { block: 200, hooks: notes, ...options });
  const ended = worker.run({ signals: false });
  // An awaiting test gets the error; a test that fails before must not end the process.
  ended.catch(() => {});
  t.after(async () => {
    worker.stop();
    await ended.catch(() => {});
  });
  return { worker, ended, notes };
}

/** Work that throws this. */
export function failing(error: unknown): () => never {
  return () => {
    throw error;
  };
}

/** Makes dead letters of so many jobs, all that are due. */
export async function buryAll<T>(t: TestContext, jobs: Queue<T>, count: number, reason = "no"): Promise<void> {
  const { worker, ended } = running(t, jobs, failing(new Reject(reason)));
  await until(async () => (await jobs.deadLetters()).length === count);
  worker.stop();
  await ended;
}
