// Real servers with the module, for tests.

import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync, writeSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";

export const MODULE =
  process.env.DEHYDRATOR_MODULE ?? new URL("../../../../target/release/libdehydrator.so", import.meta.url).pathname;
const MACHINE = new URL("../../../../tests/preload/machine.c", import.meta.url).pathname;
const SERVER = process.env.DEHYDRATOR_SERVER ?? "redis-server";

/** Of clients of servers that come and go: for two seconds more each would keep the process. */
const BRIEF = { lazyConnect: true, disconnectTimeout: 20 };

const started = new Set<RealServer>();
after(async () => {
  for (const server of started) await server.close();
});

/** Below those that the system draws for clients: one of them would take the port of a server that is away for a moment. */
export async function freePort(): Promise<number> {
  const port = 12_000 + Math.floor(Math.random() * 20_000);
  const listening = createServer().listen(port, "127.0.0.1");
  try {
    await once(listening, "listening");
  } catch {
    return freePort();
  }
  listening.close();
  return port;
}

/** Waits until `holds` returns a true value, and returns it. */
export async function until<T>(
  holds: () => T | Promise<T>,
  seconds = 120,
): Promise<Exclude<T, false | null | undefined | 0>> {
  const end = performance.now() + seconds * 1000;
  for (;;) {
    const found = await holds();
    if (found) return found as never;
    if (performance.now() > end) throw new Error(`it did not come true within ${seconds} s: ${holds}`);
    await sleep(10);
  }
}

/** A server in a folder of its own, that can be killed and started again on its port. */
export class RealServer {
  readonly folder = mkdtempSync(join(tmpdir(), "dehydrator-"));
  readonly url: string;
  /** A client for checks and actions of tests. */
  readonly client: Redis;
  #process: ChildProcess | undefined;

  private constructor(
    readonly port: number,
    private readonly options: readonly string[],
    private readonly environment: Record<string, string> = {},
  ) {
    this.url = `redis://127.0.0.1:${port}`;
    this.client = new Redis({ ...BRIEF, port, retryStrategy: () => 20, maxRetriesPerRequest: null });
    this.client.on("error", () => {});
    started.add(this);
  }

  static async start(...options: string[]): Promise<RealServer> {
    const durable = ["--save", "", "--appendonly", "yes", "--appendfsync", "always", "--repl-diskless-sync-delay", "0"];
    return RealServer.bare("--loadmodule", MODULE, ...durable, ...options);
  }

  /** A server whose clock stands still, and is set by `setClock`, in milliseconds. See tests/preload/machine.c. */
  static async still(now: number): Promise<RealServer> {
    const folder = mkdtempSync(join(tmpdir(), "dehydrator-clock-"));
    process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
    const [library, machine] = [join(folder, "machine.so"), join(folder, "machine")];
    execFileSync("cc", ["-O1", "-shared", "-fPIC", "-o", library, MACHINE]);
    writeFileSync(machine, timeOf(now));
    // Its own timers look at the clock at each tick.
    const options = ["--loadmodule", MODULE, "--save", "", "--hz", "500"];
    const environment = { LD_PRELOAD: library, DEHYDRATOR_MACHINE: machine };
    const server = new RealServer(await freePort(), options, environment);
    await server.up();
    return server;
  }

  async setClock(now: number): Promise<void> {
    // In place: the server has mapped the file.
    const file = openSync(this.environment.DEHYDRATOR_MACHINE!, "r+");
    writeSync(file, timeOf(now), 0, 24, 0);
    closeSync(file);
    await until(async () => {
      const [seconds, us] = (await this.client.time()).map(Number);
      return seconds! * 1000 + us! / 1000 === now;
    });
  }

  /** Without the module. */
  static async bare(...options: string[]): Promise<RealServer> {
    const server = new RealServer(await freePort(), options);
    await server.up();
    return server;
  }

  /** A Sentinel that monitors the server at this address as `mymaster`, with a quorum of one. */
  static async sentinel(primary: string): Promise<RealServer> {
    const server = new RealServer(await freePort(), ["--sentinel"]);
    const lines = [`monitor mymaster ${primary} 1`, "down-after-milliseconds mymaster 1000"];
    // It writes to this file, which is the first thing that it is started with.
    writeFileSync(join(server.folder, "conf"), lines.map((line) => `sentinel ${line}\n`).join(""));
    await server.up();
    return server;
  }

  async up(): Promise<void> {
    const log = openSync(join(this.folder, "log"), "a");
    const words = ["--port", String(this.port), "--dir", this.folder, ...this.options];
    const file = this.options.includes("--sentinel") ? [join(this.folder, "conf")] : [];
    this.#process = spawn(SERVER, [...file, ...words], {
      stdio: ["ignore", log, log],
      env: { ...process.env, ...this.environment },
    });
    closeSync(log);
    await until(async () => {
      if (this.#process?.exitCode !== null)
        throw new Error(readFileSync(join(this.folder, "log"), "utf8").slice(-2000));
      return answers(this.port);
    });
  }

  async kill(): Promise<void> {
    const process = this.#process;
    if (process === undefined || process.exitCode !== null || process.signalCode !== null) return;
    const gone = once(process, "exit");
    process.kill("SIGKILL");
    await gone;
  }

  async restart(): Promise<void> {
    await this.kill();
    await this.up();
  }

  async close(): Promise<void> {
    started.delete(this);
    this.client.disconnect();
    await this.kill();
    // A fork of the server may still write to it.
    await until(() => this.#isRemoved());
  }

  #isRemoved(): boolean {
    try {
      rmSync(this.folder, { recursive: true, force: true });
      return true;
    } catch {
      return false;
    }
  }
}

/** Returns what stops the clock at this time. */
function timeOf(now: number): Buffer {
  const machine = Buffer.alloc(24);
  machine.writeBigInt64LE(BigInt(now) * 1000n, 16);
  return machine;
}

async function answers(port: number): Promise<boolean> {
  const client = new Redis({ ...BRIEF, port, retryStrategy: null, maxRetriesPerRequest: 0 });
  client.on("error", () => {});
  try {
    await client.connect();
    return (await client.ping()) === "PONG";
  } catch {
    return false;
  } finally {
    client.disconnect();
  }
}
