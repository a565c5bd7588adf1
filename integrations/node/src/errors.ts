// The errors of this package, and errors that the work can throw.

import { known, milliseconds, oneOf } from "./moment.js";

/** The base class of all errors of this package. */
export class DehydratorError extends Error {
  override name = "DehydratorError";
}

/** The server has not loaded the module. */
export class ModuleMissingError extends DehydratorError {
  override name = "ModuleMissingError";

  /** `command`: what the server does not know. */
  constructor(command?: string, options?: ErrorOptions) {
    const old = command === undefined ? "" : `, or one too old for ${command}`;
    super(
      `The server has not loaded the module dehydrator${old}. Start it with ` +
        "`--loadmodule /path/to/libdehydrator.so`, " +
        "or send `MODULE LOAD`. docs/operations.md, section Install, says how to get it.",
      options,
    );
  }
}

/** The oldest module that this package works with, as INFO tells it. */
export const MODULE = "0.1.0";

/** The server's module is older than this package needs. */
export class ModuleTooOldError extends DehydratorError {
  override name = "ModuleTooOldError";

  constructor(version: string) {
    super(
      `The server's module dehydrator ${version} is older than ${MODULE}, which this package needs. ` +
        "docs/operations.md, section Upgrade, says how to replace it.",
    );
  }
}

/** The server refused a command. */
export class ReplyError extends DehydratorError {
  override name = "ReplyError";

  /** The first word of the reply: `WRONGTYPE`, `NOPERM`, or `ERR` for what has no code of its own. */
  get code(): string {
    return /^-?(\w*)/.exec(this.message)![1]!;
  }
}

/** There is no room: the queue, its group or the server's memory is full. */
export class QueueFullError extends ReplyError {
  override name = "QueueFullError";
}

/** The id exists. (`put` returns null instead.) */
export class ExistsError extends ReplyError {
  override name = "ExistsError";
}

/** There is no job with that id. */
export class NotFoundError extends ReplyError {
  override name = "NotFoundError";
}

/** It is later than the operator allows: `dehydrator.max-ttl`. */
export class TooLateError extends ReplyError {
  override name = "TooLateError";
}

/** The server knows no such cron or zone, or the schedule never occurs. */
export class ScheduleError extends ReplyError {
  override name = "ScheduleError";
}

/** The server was not there, for as long as `patience`; `cause` is the error of the library. */
export class ConnectionError extends DehydratorError {
  override name = "ConnectionError";
}

/** No reply came in time. */
export class NoReplyError extends ConnectionError {
  override name = "NoReplyError";
}

/** Fewer replicas than asked for have a write so far. */
export class NotReplicatedError extends DehydratorError {
  override name = "NotReplicatedError";
}

const LOSSES = {
  cancelled: "it was cancelled, or replaced",
  lease: "its lease ran out",
  stopped: "the worker stopped before the work ended",
};

/** The reason of a job's signal: it was cancelled, its lease ran out, or the worker has stopped. */
export class JobLostError extends DehydratorError {
  override name = "JobLostError";

  constructor(
    /** `cancelled` (or replaced), `lease` (it was not renewed in time) or `stopped`, as far as the worker knows. */
    readonly why: keyof typeof LOSSES,
  ) {
    super(LOSSES[why]);
  }
}

/** The reason of a job's signal, and of its failure: the work took longer than its `timeout`. */
export class JobTimeoutError extends DehydratorError {
  override name = "JobTimeoutError";
}

const KINDS = {
  FULL: QueueFullError,
  OOM: QueueFullError,
  EXISTS: ExistsError,
  NOSUCHID: NotFoundError,
  LIMIT: TooLateError,
};

/** Returns the error of this package for an error reply. */
export function typed(error: Error): DehydratorError {
  const { message } = error;
  if (error instanceof DehydratorError) return error;
  const [, command] = /unknown command [`'"]?(dehydrator[.\w]*)/i.exec(message) ?? [];
  if (command !== undefined) return new ModuleMissingError(command, { cause: error });
  const kind = KINDS[/^-?(\w*)/.exec(message)![1] as keyof typeof KINDS] ?? ReplyError;
  return new kind(message, { cause: error });
}

/** Thrown by the work: the job becomes a dead letter now, with this reason. */
export class Reject extends Error {
  override name = "Reject";
}

/** Thrown by the work: the job is delivered again after `delay` milliseconds, if it has attempts left. */
export class Retry extends Error {
  override name = "Retry";
  /** In milliseconds. */
  readonly delay: number;
  /** Whether this was an attempt. */
  readonly counted: boolean;

  /** `counted: false`: this was no attempt, as when another service asks to come later. */
  constructor(delay: number, reason = "the work asked to be tried again", options: { counted?: boolean } = {}) {
    super(reason);
    known(options, "counted");
    const { counted = true } = options;
    this.delay = milliseconds(delay, "delay");
    this.counted = oneOf(counted, "counted", true, false);
  }
}
