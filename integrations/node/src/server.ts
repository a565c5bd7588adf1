// The server, with retries.

import { setTimeout as sleep } from "node:timers/promises";
import {
  ConnectionError,
  DehydratorError,
  MODULE,
  ModuleMissingError,
  ModuleTooOldError,
  NoReplyError,
  typed,
} from "./errors.js";
import { text } from "./reply.js";
import { ask, type Question } from "./verbs.js";
import { isReply, passes, type Wire } from "./wire.js";

/** The delay before a command is resent, in milliseconds: the first time, and at most. */
const FIRST_PAUSE = 50;
const LONGEST_PAUSE = 2000;

/** For how many milliseconds a reply is waited for at most, where it has been waited for less. */
const LONGEST_SILENCE = 5000;

export interface Patience {
  /** For how many milliseconds to retry. */
  patience?: number;
  /** How many milliseconds to wait for a reply, before retrying on another connection, and waiting for twice as long. */
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
    for (let [pause, silence] = [FIRST_PAUSE, wait]; ; pause = Math.min(2 * pause, this.longestPause)) {
      let reply: unknown;
      try {
        reply = await this.wire.send(question.words, silence, question.replicas);
      } catch (error) {
        if (error instanceof NoReplyError && silence !== undefined) silence = Math.min(2 * silence, LONGEST_SILENCE);
        if (!passes(error) || giveUp?.() || performance.now() + pause > end) {
          throw clearer(error);
        }
        tell?.(error);
        // Clients that failed together do not come again together.
        await sleep(pause * (1 - Math.random() / 2));
        continue;
      }
      return question.read(reply);
    }
  }

  /** Throws an explanation if the module is missing or too old. Where the user may not read that, its commands tell. */
  async check(how: Patience = {}): Promise<void> {
    const told = await this.ask(ask(["INFO", "dehydrator"], text), how).catch(refused);
    if (told === undefined) return;
    const [, version] = /dehydrator_version:(\S+)/.exec(told) ?? [];
    if (version === undefined) throw new ModuleMissingError();
    if (isOlder(version, MODULE)) throw new ModuleTooOldError(version);
  }

  close(): void {
    this.wire.close();
  }
}

/** Throws an error that is no refusal. */
function refused(error: Error): undefined {
  if (!isReply(error) || passes(error)) throw error;
}

/** Returns whether a version, as `0.1.0`, comes before another. */
export function isOlder(version: string, other: string): boolean {
  const [one, two] = [version, other].map((all) => all.split(/[.-]/).map(Number));
  const at = [0, 1, 2].find((n) => one![n] !== two![n]);
  return at !== undefined && one![at]! < two![at]!;
}

/** Returns the error of this package for one of the server, or of the library: that is about its connection. */
export function clearer(error: unknown): unknown {
  if (isReply(error)) return typed(error);
  if (!passes(error) || error instanceof DehydratorError) return error;
  const { message, code } = error as NodeJS.ErrnoException;
  return new ConnectionError(`the server does not answer: ${message || code || error}`, { cause: error });
}
