// The CPU time of processes, and the load by other programs: if they use the same cores, the results are meaningless.

import { readFileSync } from "node:fs";
import { cpus } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";

/** In a second, as Linux counts time in /proc. */
const TICKS = 100;

export const CORES = cpus().length;

/** Returns the busy time of all cores since the machine was started. */
export function busySeconds(): number {
  const [user = 0, nice = 0, system = 0, , , irq = 0, softirq = 0, steal = 0] = readFileSync("/proc/stat", "utf8")
    .split("\n", 1)[0]!
    .trim()
    .split(/ +/)
    .slice(1)
    .map(Number);
  return (user + nice + system + irq + softirq + steal) / TICKS;
}

/** How much of the processor's time a process took until now, with children that ended. 0 if there is none. */
export function secondsOf(pid: number | undefined): number {
  try {
    // Behind the name, which may have spaces in it.
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8")
      .replace(/^.*\) /s, "")
      .split(" ")
      .map(Number);
    return fields.slice(11, 15).reduce((sum, ticks) => sum + ticks, 0) / TICKS;
  } catch {
    return 0;
  }
}

/** Resident memory of a process in bytes: now, and at the most. */
export function memoryOf(pid: number | undefined): { now: number; peak: number } {
  try {
    const told = readFileSync(`/proc/${pid}/status`, "utf8");
    const of = (name: string) => Number(new RegExp(`${name}:\\s+(\\d+)`).exec(told)?.[1] ?? 0) * 1024;
    return { now: of("VmRSS"), peak: of("VmHWM") };
  } catch {
    return { now: 0, peak: 0 };
  }
}

/** Waits until the cores are nearly idle, or for a given number of seconds. */
export async function calm(seconds: number): Promise<void> {
  for (const end = performance.now() + seconds * 1000; performance.now() < end; ) {
    const [busy, began] = [busySeconds(), performance.now()];
    await sleep(2000);
    if ((busySeconds() - busy) / ((performance.now() - began) / 1000) / CORES < 0.1) return;
  }
}
