// One contender in one scenario.

import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Contender } from "./contenders.js";
import { busySeconds, CORES } from "./machine.js";
import { Notes, type Outcome } from "./notes.js";
import { Process, Server } from "./processes.js";

export interface Load {
  jobs: number;
  /** Seconds from the beginning until the first and the last is due; between them all moments are as likely. */
  first: number;
  last: number;
  /** Seconds. */
  work: number;
  /** How many jobs at a time in each worker. */
  concurrency: number;
}

export interface Scenario {
  name: string;
  load: Load;
  workers: number;
  /** Seconds between two kills of a worker. */
  kills?: number;
  /** Whether workers are started when all was sent, and not before. */
  after?: boolean;
  /** Whether to wait for the jobs at all. */
  idle?: boolean;
}

/** As integrations/bench has it: bytes and seconds. */
export interface Result {
  contender: string;
  scenario: string;
  versions: string;
  server: string;
  load: Load;
  date: string;
  outcome: Outcome;
  sending: number;
  sent_late: boolean;
  killed: number;
  rest_greatest: number;
  peak_greatest: number;
  server_bytes: number;
  /** CPU time: in total, and until all jobs were sent. */
  server_seconds: number;
  server_seconds_sending: number;
  worker_seconds: number;
  /** Seconds from the first job's beginning to the last one's. */
  working: number;
  /** The share of all cores that other programs used. */
  others: number;
}

const WARM = 10;
const VISIBILITY = 10;

/** Seconds after the last deadline until which jobs are waited for. */
const PATIENCE = 60;

export interface Place {
  binary: string;
  module: string;
  folder: string;
}

export async function trial(contender: Contender, scenario: Scenario, place: Place): Promise<Result> {
  const folder = join(place.folder, `${contender.name}-${scenario.name}`.replaceAll(/\W+/g, "-"));
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(join(folder, "notes"), { recursive: true });
  const server = await Server.start(
    place.binary,
    contender.needsModule ? place.module : undefined,
    join(folder, "server"),
  );
  const running = new Trial(contender, scenario, folder, server);
  try {
    return await running.run();
  } finally {
    await running.close();
  }
}

class Trial {
  readonly #notes: Notes;
  readonly #workers: Process[] = [];
  readonly #environment: Record<string, string>;
  #senderSeconds = 0;
  #killed = 0;

  constructor(
    private readonly contender: Contender,
    private readonly scenario: Scenario,
    private readonly folder: string,
    private readonly server: Server,
  ) {
    this.#notes = new Notes(join(folder, "notes"));
    this.#environment = {
      BENCH_URL: server.url,
      BENCH_NOTES: join(folder, "notes"),
      BENCH_PLAN: join(folder, "plan"),
      BENCH_WORK: `${scenario.load.work}`,
      BENCH_VISIBILITY: `${VISIBILITY}`,
      BENCH_CONCURRENCY: `${scenario.load.concurrency}`,
    };
  }

  async run(): Promise<Result> {
    const { scenario, server } = this;
    const { load } = scenario;
    if (!scenario.after) {
      this.#startWorkers();
      await this.#warmUp();
    }
    const [busy, own, seconds, worked] = [busySeconds(), this.#ownSeconds(), server.process.seconds, this.#worked()];
    const rest = Math.max(0, ...this.#workers.map(({ memory }) => memory.now));
    const memory = await server.memory();
    const began = Date.now() / 1000;
    const span = load.last - load.first;
    const sending = await this.#send(
      Array.from({ length: load.jobs }, (_, n) => `${n} ${(began + load.first + Math.random() * span).toFixed(6)}`),
    );
    const bytes = (await server.memory()) - memory;
    const sendingSeconds = server.process.seconds - seconds;
    if (scenario.after) this.#startWorkers();
    if (scenario.idle) await sleep(10_000);
    else await this.#wait(began + load.last);
    const others = busySeconds() - busy - (this.#ownSeconds() - own);
    return {
      contender: this.contender.name,
      scenario: scenario.name,
      versions: this.contender.versions,
      server: await server.version(),
      load,
      date: new Date().toISOString().slice(0, 10),
      outcome: this.#notes.outcome(load.jobs),
      sending,
      sent_late: !scenario.after && sending > load.first,
      killed: this.#killed,
      rest_greatest: rest,
      peak_greatest: Math.max(0, ...this.#workers.map(({ memory }) => memory.peak)),
      server_bytes: bytes / load.jobs,
      server_seconds: server.process.seconds - seconds,
      server_seconds_sending: sendingSeconds,
      worker_seconds: this.#worked() - worked,
      working: this.#notes.last - this.#notes.first,
      others: others / (Date.now() / 1000 - began) / CORES,
    };
  }

  #startWorkers(): void {
    for (let n = 0; n < this.scenario.workers; n += 1) {
      const words = [process.execPath, this.contender.program, "worker"];
      this.#workers.push(new Process(words, this.#environment, join(this.folder, `worker-${n}.log`)));
    }
  }

  #worked(): number {
    return this.#workers.reduce((sum, { seconds }) => sum + seconds, 0);
  }

  #ownSeconds(): number {
    const { user, system } = process.cpuUsage();
    return this.server.process.seconds + this.#worked() + this.#senderSeconds + (user + system) / 1e6;
  }

  /** Returns how many seconds it took. */
  async #send(plan: string[]): Promise<number> {
    writeFileSync(join(this.folder, "plan"), `${plan.join("\n")}\n`);
    const words = [process.execPath, this.contender.program, "sender"];
    const began = performance.now();
    const sender = new Process(words, this.#environment, join(this.folder, "sender.log"));
    const watching = setInterval(() => {
      seconds = Math.max(seconds, sender.seconds);
    }, 50);
    let seconds = 0;
    await sender.end();
    clearInterval(watching);
    this.#senderSeconds += seconds;
    return (performance.now() - began) / 1000;
  }

  /** Runs some jobs before the measured ones, to check that everything works, and to load lazily loaded code. */
  async #warmUp(): Promise<void> {
    await this.#send(Array.from({ length: WARM }, (_, n) => `warm-${n} ${Date.now() / 1000 + 1}`));
    for (const end = performance.now() + 60_000; this.#notes.counts.size < WARM; await sleep(50)) {
      this.#notes.read();
      if (performance.now() > end) throw new Error(`the first jobs did not run: see ${this.folder}`);
    }
    this.#notes.forget();
  }

  /** Kills workers at the given moments, and returns when all is done, or no more executions are expected. */
  async #wait(last: number): Promise<void> {
    const { kills, load } = this.scenario;
    let next = kills === undefined ? Number.POSITIVE_INFINITY : Date.now() / 1000 + load.first + kills / 2;
    for (let changed = Date.now() / 1000; ; await sleep(100)) {
      const now = Date.now() / 1000;
      if (now >= next && now < last) {
        await this.#workers[Math.floor(Math.random() * this.#workers.length)]!.restart();
        this.#killed += 1;
        next += kills!;
      }
      if (this.#notes.read() > 0) changed = now;
      const areDone = this.#notes.counts.size >= load.jobs;
      // The jobs of a killed worker may be repeated, even after all were done.
      const calm = kills === undefined ? 1 : VISIBILITY + 2;
      if (now > last && ((areDone && now > changed + calm) || now > Math.max(last, changed) + PATIENCE)) return;
    }
  }

  async close(): Promise<void> {
    for (const worker of this.#workers) await worker.kill();
    await this.server.close();
  }
}
