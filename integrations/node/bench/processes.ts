// The server, the workers and the sender, as processes.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, openSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import { memoryOf, secondsOf } from "./machine.js";

export class Process {
  #process: ChildProcess;
  /** Of those that were killed. */
  #seconds = 0;
  #peak = 0;

  constructor(
    private readonly words: readonly string[],
    private readonly environment: Record<string, string>,
    private readonly log: string,
  ) {
    this.#process = this.#start();
  }

  #start(): ChildProcess {
    const log = openSync(this.log, "a");
    const [program = "", ...words] = this.words;
    const process_ = spawn(program, words, {
      env: { ...process.env, ...this.environment },
      stdio: ["ignore", log, log],
    });
    return process_;
  }

  get seconds(): number {
    return this.#seconds + secondsOf(this.#process.pid);
  }

  get memory(): { now: number; peak: number } {
    const { now, peak } = memoryOf(this.#process.pid);
    return { now, peak: Math.max(peak, this.#peak) };
  }

  get hasEnded(): boolean {
    return this.#process.exitCode !== null || this.#process.signalCode !== null;
  }

  async kill(): Promise<void> {
    if (this.hasEnded) return;
    this.#peak = this.memory.peak;
    this.#seconds = this.seconds;
    const ended = once(this.#process, "exit");
    this.#process.kill("SIGKILL");
    await ended;
  }

  async restart(): Promise<void> {
    await this.kill();
    this.#process = this.#start();
  }

  async end(): Promise<void> {
    if (!this.hasEnded) await once(this.#process, "exit");
    if (this.#process.exitCode !== 0) throw new Error(`${this.words.join(" ")} failed: see ${this.log}`);
  }
}

export class Server {
  private constructor(
    readonly process: Process,
    readonly url: string,
    readonly client: Redis,
  ) {}

  /** As in integrations/bench: with an append-only file, `everysec`. */
  static async start(binary: string, module: string | undefined, folder: string): Promise<Server> {
    const listening = createServer().listen(0, "127.0.0.1");
    await once(listening, "listening");
    const { port } = listening.address() as { port: number };
    listening.close();
    mkdirSync(folder, { recursive: true });
    const words = [binary, "--port", `${port}`, "--dir", folder, "--save", "", "--bind", "127.0.0.1"];
    words.push("--appendonly", "yes", "--appendfsync", "everysec");
    if (module !== undefined) words.push("--loadmodule", module);
    const client = new Redis(port, { retryStrategy: () => 50, maxRetriesPerRequest: null });
    client.on("error", () => {});
    const server = new Server(new Process(words, {}, join(folder, "log")), `redis://127.0.0.1:${port}`, client);
    await client.ping();
    return server;
  }

  async memory(): Promise<number> {
    // A rewrite of the append-only file may take some meanwhile.
    for (;;) {
      if (/aof_rewrite_in_progress:0/.test(await this.client.info("persistence"))) break;
      await sleep(200);
    }
    return Number(/used_memory:(\d+)/.exec(await this.client.info("memory"))?.[1]);
  }

  async version(): Promise<string> {
    return /redis_version:(\S+)/.exec(await this.client.info("server"))?.[1] ?? "";
  }

  async close(): Promise<void> {
    this.client.disconnect();
    await this.process.kill();
  }
}
