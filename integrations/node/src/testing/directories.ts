// The directories of queues of several keys in the server in memory, and the scripts that read and change them.

import type { Reply } from "./reply.js";

/** The strings of the server in memory: directories, and the generations beside their keys. */
export class Directories {
  readonly #strings = new Map<string, string>();

  /** `call` runs a command of the server in memory. */
  constructor(private readonly call: (name: string, ...words: string[]) => Reply) {}

  get(key: string): string | null {
    return this.#strings.get(key) ?? null;
  }

  /** Returns the keys of all lists of a directory. */
  keys(directory: string): string[] {
    const told = directory.endsWith(":keys") ? this.#strings.get(directory) : undefined;
    if (told === undefined) return [];
    const { lists } = JSON.parse(Buffer.from(told, "latin1").toString());
    return (lists as string[][]).flat().map((name) => Buffer.from(name).toString("latin1"));
  }

  change(key: string, before: string, after: string): Reply {
    if ((this.get(key) ?? "") !== before) return null;
    this.#strings.set(key, after);
    return "OK";
  }

  /** Returns whether a client with this generation is; or else notes the generation at the key `latest`. */
  isOutdated(latest: string, generation: string): boolean {
    if (Number(this.get(latest)) > Number(generation)) return true;
    this.#strings.set(latest, generation);
    return false;
  }

  routed(key: string, latest: string, [generation = "", when, id = "", command = "", ...words]: string[]): Reply {
    if (this.isOutdated(latest, generation)) return ["stale"];
    const isThere = this.call("DEHYDRATOR.PTTL", key, id) !== -2;
    if (when === "if there" && !isThere) return ["elsewhere"];
    if (when === "unless there" && isThere) return ["done", null];
    return ["done", this.call(command, key, ...words)];
  }
}
