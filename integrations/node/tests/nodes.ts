// The nodes of a cluster, for tests.

import { freePort, RealServer, until } from "./servers.js";

export const SLOTS = 16_384;

/**
 * A cluster of three primaries, and perhaps a replica of each after them. On a busy machine, a node takes seconds to
 * answer: its timeout is short only where replicas are to take over by themselves.
 */
export async function threeNodes({ replicas = 0, timeout = 15_000 } = {}): Promise<RealServer[]> {
  const nodes: RealServer[] = [];
  const buses: number[] = [];
  for (let n = 0; n < 3 + 3 * replicas; n += 1) {
    const { node, bus } = await startNode(timeout, replicas);
    nodes.push(node);
    buses.push(bus);
  }
  for (const [n, node] of nodes.entries()) {
    await node.client.call("CLUSTER", "SET-CONFIG-EPOCH", n + 1);
    if (n >= 3) continue;
    const [first, last] = [Math.floor((n * SLOTS) / 3), Math.floor(((n + 1) * SLOTS) / 3) - 1];
    await node.client.call("CLUSTER", "ADDSLOTSRANGE", first, last);
  }
  for (const [n, { port }] of nodes.entries()) {
    await nodes[0]!.client.call("CLUSTER", "MEET", "127.0.0.1", port, buses[n]!);
  }
  await until(async () => (await Promise.all(nodes.map(isOk))).every(Boolean));
  for (const [n, { client }] of nodes.entries()) {
    if (n < 3) continue;
    await replicate(client, nodes[n % 3]!);
    await until(() => isLinked(nodes[n]!));
  }
  return nodes;
}

async function startNode(timeout: number, replicas: number): Promise<{ node: RealServer; bus: number }> {
  const options = ["--cluster-enabled", "yes", "--cluster-node-timeout", `${timeout}`];
  if (replicas > 0) options.push("--cluster-require-full-coverage", "no", "--cluster-replica-validity-factor", "0");
  const bus = await freePort();
  return { node: await RealServer.start(...options, "--cluster-port", `${bus}`), bus };
}

async function isOk({ client }: RealServer): Promise<boolean> {
  return String(await client.cluster("INFO")).includes("cluster_state:ok");
}

async function replicate(client: RealServer["client"], primary: RealServer): Promise<void> {
  const id = String(await primary.client.cluster("MYID"));
  // The nodes learn of each other one after the other.
  await until(() => client.call("CLUSTER", "REPLICATE", id).catch(() => false));
}

/** Adds a primary, which has no slots yet, and its replica. */
export async function join(nodes: RealServer[], timeout: number): Promise<RealServer[]> {
  const added: RealServer[] = [];
  for (let n = 0; n < 2; n += 1) {
    const { node, bus } = await startNode(timeout, 1);
    await nodes[0]!.client.call("CLUSTER", "MEET", "127.0.0.1", node.port, bus);
    added.push(node);
  }
  const all = [...nodes, ...added];
  const rows = async ({ client }: RealServer) =>
    String(await client.call("CLUSTER", "NODES"))
      .trim()
      .split("\n");
  // A node that another one does not know cannot be forgotten there.
  await until(async () => (await Promise.all(all.map(rows))).every(({ length }) => length === all.length));
  const [primary, replica] = added as [RealServer, RealServer];
  await replicate(replica.client, primary);
  await until(async () => (await isLinked(replica)) && (await isOk(primary)) && (await isOk(replica)));
  nodes.push(...added);
  return added;
}

/** Removes nodes, which have no slots any more. */
export async function leave(nodes: RealServer[], gone: readonly RealServer[]): Promise<void> {
  const ids = await Promise.all(gone.map(async ({ client }) => String(await client.cluster("MYID"))));
  nodes.splice(0, nodes.length, ...nodes.filter((node) => !gone.includes(node)));
  // One that still knew them would tell the others. While it replicates the one that leaves, it cannot.
  const forgets = ({ client }: RealServer, id: string) =>
    client.call("CLUSTER", "FORGET", id).catch((error) => String(error).includes("Unknown node"));
  for (const id of ids) await Promise.all(nodes.map((node) => until(() => forgets(node, id))));
  for (const node of gone) await node.close();
}

/** Returns the slots of a primary, by its own word. */
export async function slotsAt({ client }: RealServer): Promise<number[]> {
  const me = await client.cluster("MYID");
  const ranges = (await client.call("CLUSTER", "SLOTS")) as [number, number, [string, number, string]][];
  const mine = ranges.filter(([, , [, , id]]) => id === me);
  return mine.flatMap(([first, last]) => Array.from({ length: last - first + 1 }, (_, n) => first + n));
}

/** Returns whether a replica has what its primary has, as far as it knows. */
export async function isLinked({ client }: RealServer): Promise<boolean> {
  return (await client.info("replication")).includes("master_link_status:up");
}

export async function owns({ client }: RealServer, slot: number): Promise<boolean> {
  const me = await client.cluster("MYID");
  const ranges = (await client.call("CLUSTER", "SLOTS")) as [number, number, [string, number, string]][];
  return ranges.some(([first, last, [, , id]]) => id === me && first <= slot && slot <= last);
}

export async function slotOf({ client }: RealServer, key: string): Promise<number> {
  return Number(await client.cluster("KEYSLOT", key));
}

export async function ownerOf(nodes: readonly RealServer[], slot: number): Promise<RealServer> {
  const owners = await Promise.all(nodes.map((node) => owns(node, slot)));
  return nodes[owners.indexOf(true)]!;
}

/** Moves a slot, with its keys, to the node after its owner; returns that node. */
export async function moveSlot(nodes: readonly RealServer[], slot: number): Promise<RealServer> {
  const from = await ownerOf(nodes, slot);
  const to = nodes[(nodes.indexOf(from) + 1) % nodes.length]!;
  const [fromId, toId] = (await Promise.all([from, to].map(({ client }) => client.cluster("MYID")))) as string[];
  await to.client.call("CLUSTER", "SETSLOT", slot, "IMPORTING", fromId!);
  await from.client.call("CLUSTER", "SETSLOT", slot, "MIGRATING", toId!);
  for (const key of (await from.client.call("CLUSTER", "GETKEYSINSLOT", slot, 100)) as string[]) {
    await from.client.call("MIGRATE", "127.0.0.1", to.port, key, 0, 5000);
  }
  const others = nodes.filter((node) => node !== to);
  for (const { client } of [to, ...others]) {
    await client.call("CLUSTER", "SETSLOT", slot, "NODE", toId!).catch((error) => {
      // One that gave its last slot away may already replicate the other.
      if (!String(error).includes("only with masters")) throw error;
    });
  }
  return to;
}
