// Counters of a worker's jobs, for Prometheus, by prom-client: `{ hooks: new PrometheusHooks() }`.

import { Counter, Histogram, type Registry, register } from "prom-client";
import type { JobLostError } from "./errors.js";
import { Hooks } from "./hooks.js";
import type { Delivery, Job } from "./job.js";

/** Logs and counts: `dehydrator_worker_jobs_total` by queue and outcome, and the duration of the work in seconds. */
export class PrometheusHooks extends Hooks {
  readonly #jobs: Counter;
  readonly #seconds: Histogram;
  readonly #interruptions: Counter;

  /** `registry`: by default the global one. */
  constructor(registry: Registry = register) {
    super();
    const registers = [registry];
    const [labelNames, queueAlone] = [["queue", "outcome"], ["queue"]];
    this.#jobs = new Counter({ name: "dehydrator_worker_jobs_total", help: "Jobs that ended", labelNames, registers });
    this.#seconds = new Histogram({
      name: "dehydrator_worker_seconds",
      help: "How long the work took",
      labelNames: queueAlone,
      registers,
    });
    const name = "dehydrator_worker_interruptions_total";
    this.#interruptions = new Counter({ name, help: "Commands that were sent again", registers });
  }

  override succeeded(job: Job, ms: number): void {
    super.succeeded(job, ms);
    this.#jobs.inc({ queue: job.queue, outcome: "succeeded" });
    this.#seconds.observe({ queue: job.queue }, ms / 1000);
  }

  override retried(job: Job, ms: number, error: unknown, delay: number): void {
    super.retried(job, ms, error, delay);
    this.#jobs.inc({ queue: job.queue, outcome: "retried" });
    this.#seconds.observe({ queue: job.queue }, ms / 1000);
  }

  override buried(delivery: Delivery, reason: string): void {
    super.buried(delivery, reason);
    this.#jobs.inc({ queue: delivery.queue, outcome: "buried" });
  }

  override lost(job: Job, why: JobLostError): void {
    super.lost(job, why);
    this.#jobs.inc({ queue: job.queue, outcome: "lost" });
  }

  override interrupted(error: unknown): void {
    super.interrupted(error);
    this.#interruptions.inc();
  }
}
