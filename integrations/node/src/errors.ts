// What can go wrong, and what the work of a worker may throw.

/** Stands above all errors of this package. */
export class DehydratorError extends Error {
  override name = "DehydratorError";
}

/** Says that the server has not loaded the module. */
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

/** Says that the server's module lacks a command that this package needs. */
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

/** Says that no reply came in time. */
export class NoReplyError extends DehydratorError {
  override name = "NoReplyError";
}

/** Thrown by the work: the job goes to the dead letters now, with this reason. */
export class Reject extends Error {
  override name = "Reject";
}

/** Thrown by the work: the job is given out again in so many milliseconds, if it has attempts left. */
export class Retry extends Error {
  override name = "Retry";

  constructor(
    readonly delay: number,
    reason = "the work asked to be tried again",
  ) {
    super(reason);
  }
}
