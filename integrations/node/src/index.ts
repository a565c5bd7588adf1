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
export { DehydratorError, ModuleMissingError, ModuleTooOldError, NoReplyError, Reject, Retry } from "./errors.js";
export { Hooks } from "./hooks.js";
export type { DeadLetter, Delivery, Id, Item, Job, Waiting } from "./job.js";
export type { Client, LibraryName } from "./library.js";
export type { ScheduleOptions } from "./plan.js";
export { Queue, type QueueOptions } from "./queue.js";
export type { Schedule, Schedules } from "./schedules.js";
export type { GroupOption, OwnTerms, PutOptions, Selection } from "./verbs.js";
export { Worker, type WorkerOptions } from "./worker.js";
