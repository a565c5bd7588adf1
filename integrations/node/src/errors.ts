// The errors of this package, and errors that the work can throw.

/** The base class of all errors of this package. */
export class DehydratorError extends Error {
  override name = "DehydratorError";
}

/** The server has not loaded the module. */
export class ModuleMissingError extends DehydratorError {
  override name = "ModuleMissingError";

  constructor(options?: ErrorOptions) {
    super(
      "The server has not loaded the module dehydrator. Start it with `--loadmodule /path/to/libdehydrator.so`, " +
        "or send `MODULE LOAD`. docs/operations.md, section Install, says how to get it.",
      options,
    );
  }
}

/** The server's module lacks a command that this package needs. */
export class ModuleTooOldError extends DehydratorError {
  override name = "ModuleTooOldError";

  constructor(command: string, options?: ErrorOptions) {
    super(
      `The server's module dehydrator has no command ${command}: it is older than this package needs. ` +
        "docs/operations.md, section Upgrade, says how to replace it.",
      options,
    );
  }
}

/** No reply came in time. */
export class NoReplyError extends DehydratorError {
  override name = "NoReplyError";
}

/** Fewer replicas than asked for have a write so far. */
export class NotReplicatedError extends DehydratorError {
  override name = "NotReplicatedError";
}

/** Thrown by the work: the job becomes a dead letter now, with this reason. */
export class Reject extends Error {
  override name = "Reject";
}

/** Thrown by the work: the job is delivered again after `delay` milliseconds, if it has attempts left. */
export class Retry extends Error {
  override name = "Retry";

  constructor(
    readonly delay: number,
    reason = "the work asked to be tried again",
  ) {
    super(reason);
  }
}
