// A queue of several keys while primaries are killed in turn, slots move, and nodes join and leave: minutes of it, by
// DEHYDRATOR_MINUTES.

import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import type { Job, LibraryName } from "dehydrator-queue";
import { replicated, timedOf } from "../src/verbs.js";
import { home } from "../src/wide/directory.js";
import { partsOf, queueOf, running, withEach } from "./harness.js";
import { isLinked, join, leave, moveSlot, ownerOf, owns, slotOf, slotsAt, threeNodes } from "./nodes.js";
import { type RealServer, until } from "./servers.js";

const MINUTES = Number(process.env.DEHYDRATOR_MINUTES ?? 0.5);
/** Between two kills, in milliseconds. */
const INTERVAL = 10_000;
const WORKERS = 2;
/** After which the nodes replace one that does not reply, in milliseconds. */
const TIMEOUT = 1000;

interface Put {
  readonly due: number;
  /** Whether a replica has it, as far as its client knows. */
  isSure: boolean;
}

function quantile(sorted: readonly number[], part: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? Number.NaN;
}

async function connections(nodes: readonly RealServer[]): Promise<number> {
  const infos = await Promise.all(nodes.map(({ client }) => client.info("clients")));
  return infos.reduce((sum, info) => sum + Number(/connected_clients:(\d+)/.exec(info)?.[1]), 0);
}

async function primariesOf(nodes: readonly RealServer[]): Promise<RealServer[]> {
  const have = await Promise.all(
    nodes.map(async (node) => {
      return (await node.client.info("replication")).includes("role:master") && (await slotsAt(node)).length > 0;
    }),
  );
  return nodes.filter((_, n) => have[n]);
}

/** Waits until each primary has a replica, and all agree which these are. */
async function isWell(nodes: readonly RealServer[]): Promise<boolean> {
  const primaries = await primariesOf(nodes);
  const served = await Promise.all(
    primaries.map(async ({ client }) => (await client.info("replication")).includes("state=online")),
  );
  const tables = await Promise.all(
    nodes.map(async ({ client }) => {
      const rows = (await client.call("CLUSTER", "SLOTS")) as [number, number, [string, number, string]][];
      return JSON.stringify(rows.map(([first, last, [, , id]]) => [first, last, id]).sort());
    }),
  );
  return served.every(Boolean) && new Set(tables).size === 1;
}

const isQuick = process.env.DEHYDRATOR_QUICK !== undefined;

withEach("six nodes", (library: LibraryName) => {
  test("no job is lost, early or done twice while primaries die, slots move, and nodes join and leave", {
    skip: isQuick,
  }, async (t) => {
    const nodes = await threeNodes({ replicas: 1, timeout: TIMEOUT });
    const options = { library, name: `wide:${library}`, keys: "auto" as const, patience: 30_000 };
    const url = `redis+cluster://${nodes.map(({ port }) => `127.0.0.1:${port}`).join()}`;
    const jobs = queueOf<number>(t, url, options);
    const keys = (await partsOf(jobs)).map(({ verbs }) => verbs.key);
    const before = await connections(nodes);
    const begun = new Map<number, number[]>();
    const work = async ({ payload }: Job<number>) => {
      const moment = Date.now();
      begun.set(payload, [...(begun.get(payload) ?? []), moment]);
      await sleep(5);
    };
    const each: number[] = [];
    const workers = [];
    for (let n = 0; n < WORKERS; n += 1) {
      const queue = queueOf<number>(t, url, options);
      workers.push(running(t, queue, work, { concurrency: 20, waitReplicas: 1, lease: 30_000, block: 1000 }));
      await queue.size();
      await sleep(1500);
      each.push(await connections(nodes));
    }
    const puts: Put[] = [];
    const outages: [number, number][] = [];
    const end = Date.now() + MINUTES * 60_000;
    const put = async (n: number) => {
      const one: Put = { due: Date.now() + 200 + Math.random() * 2000, isSure: false };
      puts[n] = one;
      const key = home(`${n}`, keys);
      const { server, verbs } = (await partsOf(jobs, { patience: 0 })).find(({ verbs }) => verbs.key === key)!;
      const put = verbs.put({ ...timedOf({ id: `${n}`, at: one.due }), element: `${n}` });
      await server.ask(replicated(put, 1), { patience: 0 });
      one.isSure = true;
    };
    const putting = (async () => {
      const sent: Promise<void>[] = [];
      for (let n = 0; Date.now() < end; n += 1) {
        sent.push(put(n).catch(() => {}));
        await sleep(8);
      }
      await Promise.all(sent);
    })();
    let [kills, moves, joins, leaves] = [0, 0, 0, 0];
    let added: RealServer[] = [];
    while (Date.now() < end - INTERVAL) {
      const next = Date.now() + INTERVAL;
      const slot = await slotOf(nodes[0]!, keys[kills % keys.length]!);
      const victim = await ownerOf(nodes, slot);
      const others = nodes.filter((node) => node !== victim);
      const killed = Date.now();
      await victim.kill();
      await until(async () => (await Promise.all(others.map((node) => owns(node, slot)))).some(Boolean), 30);
      outages.push([killed - 50, Date.now() + 500]);
      await victim.up();
      await until(() => isLinked(victim));
      await until(() => isWell(nodes));
      kills += 1;
      const moving = await slotOf(nodes[0]!, keys[(kills + 1) % keys.length]!);
      if (kills % 6 === 2) {
        added = await join(nodes, TIMEOUT);
        joins += 1;
        await moveSlot([await ownerOf(nodes, moving), added[0]!], moving);
      } else if (kills % 6 === 5) {
        for (const node of added) {
          const old = (await primariesOf(nodes)).find((other) => !added.includes(other))!;
          for (const slot of await slotsAt(node)) await moveSlot([node, old], slot);
        }
        await leave(nodes, added);
        leaves += 1;
      } else await moveSlot(await primariesOf(nodes), moving);
      moves += 1;
      await until(() => isWell(nodes));
      // No WAIT is about what a slot brings along: its new node dies a second later at the earliest.
      await sleep(Math.max(1000, next - Date.now()));
    }
    await putting;
    await until(async () => (await jobs.size()) === 0);
    const heard = workers.flatMap(({ notes }) => notes.heard);
    const sure = puts.flatMap(({ isSure }, n) => (isSure ? [n] : []));
    const lost = sure.filter((n) => !begun.has(n));
    const twice = [...begun].filter(([, moments]) => moments.length > 1).map(([n]) => n);
    const early = [...begun].filter(([n, [first]]) => first! < Math.floor(puts[n]!.due));
    const late = [...begun].map(([n, [first]]) => first! - puts[n]!.due).sort((one, other) => one - other);
    const calm = [...begun]
      .filter(([n, [first]]) => !outages.some(([from, to]) => first! >= from && puts[n]!.due <= to))
      .map(([n, [first]]) => first! - puts[n]!.due)
      .sort((one, other) => one - other);
    const figures = {
      kills,
      moves,
      joins,
      leaves,
      puts: puts.length,
      sure: sure.length,
      done: begun.size,
      lost: lost.length,
      early: early.length,
      twice: twice.length,
      p50: quantile(late, 0.5),
      p99: quantile(late, 0.99),
      max: late.at(-1),
      calm: [calm.length, quantile(calm, 0.5), quantile(calm, 0.99), calm.at(-1)],
      outage: outages.map(([from, to]) => to - from - 550),
      connections: [before, ...each],
      heard: heard.length - heard.filter((what) => what.startsWith("succeeded")).length,
      moments: twice.map((n) => [n, ...begun.get(n)!.map((moment) => Math.round(moment - puts[n]!.due))]),
    };
    console.log(JSON.stringify({ library, ...figures }));
    assert.deepEqual([lost, twice, early], [[], [], []], JSON.stringify(figures));
    assert.ok(kills >= 1 && sure.length > puts.length / 3);
  });
});
