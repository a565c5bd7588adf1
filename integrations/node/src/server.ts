// The server, with retries.

import { setTimeout as sleep } from "node:timers/promises";
import { ModuleMissingError, ModuleTooOldError } from "./errors.js";
import { bare, type Question } from "./verbs.js";
import { isReply, passes, type Wire } from "./wire.js";

/** The delay before a command is resent, in milliseconds: the first time, and at most. */
const FIRST_PAUSE = 50;
const LONGEST_PAUSE = 2000;

/** The newest command that this package needs: a server that knows it knows all of them. */
const NEWEST = "DEHYDRATOR.REJECT";

export interface Patience {
  /** For how many milliseconds to retry. */
  patience?: number;
  /** How many milliseconds to wait for a reply, before retrying on another connection. */
  reply?: number | undefined;
  giveUp?(): boolean;
  /** Called for each error except the last. */
  tell?(error: unknown): void;
}

/** Resends each command until there is a reply, or patience ends. All commands here are safe to repeat. */
export class Server {
  constructor(
    private readonly wire: Wire,
    private readonly patience: number,
    private readonly longestPause = LONGEST_PAUSE,
  ) {}

  async ask<T>(
    question: Question<T>,
    { patience = this.patience, reply: wait, giveUp, tell }: Patience = {},
  ): Promise<T> {
    const end = performance.now() + patience;
    for (let pause = FIRST_PAUSE; ; pause = Math.min(2 * pause, this.longestPause)) {
      let reply: unknown;
      try {
        reply = await this.wire.send(question.words, wait, question.replicas);
      } catch (error) {
        if (!passes(error) || giveUp?.() || performance.now() + pause > end) {
          throw clearer(error, String(question.words[0]));
        }
        tell?.(error);
        await sleep(pause);
        continue;
      }
      return question.read(reply);
    }
  }

  /** Throws an explanation if the module is missing or too old. */
  async check(how: Patience = {}): Promise<void> {
    for (const command of ["DEHYDRATOR.POLL", NEWEST]) {
      try {
        await this.ask(bare(command), how);
      } catch (error) {
        if (!knows(error)) throw error;
      }
    }
  }

  close(): void {
    this.wire.close();
  }
}

/** Returns a clearer error if the server does not know the command. */
function clearer(error: unknown, command: string): unknown {
  if (!isReply(error) || knows(error)) return error;
  const old = command === "DEHYDRATOR.RELEASE" || command === NEWEST;
  return old ? new ModuleTooOldError(command, { cause: error }) : new ModuleMissingError({ cause: error });
}

/** Returns whether a command was refused because its arguments are missing, so that the server knows it. */
function knows(error: unknown): boolean {
  return isReply(error) && !error.message.toLowerCase().includes("unknown command 'dehydrator");
}
