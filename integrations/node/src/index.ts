/**
 * Delayed jobs in Redis and Valkey, with the module Dehydrator.
 *
 *     const jobs = new Queue("redis://127.0.0.1:6379", "jobs");
 *     await jobs.put({ mail: "anna" }, { delay: 5000 });
 *
 *     await new Worker(jobs, send, { concurrency: 20 }).run();
 */

export type { Backoff } from "./backoff.js";
export { type Codec, json, raw } from "./codec.js";
export {
  ConnectionError,
  DehydratorError,
  ExistsError,
  JobLostError,
  JobTimeoutError,
  ModuleMissingError,
  ModuleTooOldError,
  NoReplyError,
  NotFoundError,
  QueueFullError,
  Reject,
  ReplyError,
  Retry,
  ScheduleError,
  TooLateError,
} from "./errors.js";
export { Hooks, type Logger } from "./hooks.js";
export type { DeadLetter, Delivery, Id, Item, Job, OwnTerms, Put, PutOptions, Waiting } from "./job.js";
export type { Client, LibraryName } from "./library.js";
export type { LimitOptions, Limits, Rate } from "./limits.js";
export { Queue, type QueueOptions } from "./queue.js";
export type { Schedule, ScheduleOptions, Schedules } from "./schedules.js";
export type { RunOptions, WorkerOptions } from "./terms.js";
export type { GroupOption, Policy, Selection } from "./verbs.js";
export { Worker } from "./worker.js";
