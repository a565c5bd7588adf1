// Why an element waits: what the server looks at before it gives an element out, in that order.

import { get } from "./api.js";
import { line } from "./bytes.js";
import { isMoment, moment } from "./figures.js";
import { ofGroup } from "./limits.js";

/** Returns who has paused a queue, if that was done by this page: " by anna at 14:05", or the empty string. */
export async function pausedBy(queue, signal) {
  const { rows } = await get("log", { node: queue.node }, signal).catch((error) => {
    if (error.name === "AbortError") throw error;
    return { rows: [] };
  });
  const of = rows.filter((row) => row.queue.key_b64 === queue.key && String(row.queue.db) === String(queue.db ?? 0));
  const last = of.find((row) => ["pause", "resume"].includes(row.action) && !/"(group|schedule)":/.test(row.args));
  return last?.action === "pause" ? ` by ${last.who} at ${moment(last.moment)}` : "";
}

/** Returns sentences. `about`: the answer about the queue and the element's group; `by`: who has paused it. */
export function why(found, { queue, group }, now, by = "") {
  const held = found.token_b64 !== null && found.token_b64 !== undefined;
  if (held && found.leased) return ["A worker holds it."];
  if (!isMoment(found.deadline))
    return ["It is a dead letter that could not be moved: see On due… and the last failure."];
  const said = [];
  if (found.deadline > now) said.push(found.deliveries > 0 ? "It waits for its next attempt." : "It is not due yet.");
  if (held) said.push("The lease of its last worker has expired.");
  if (queue.paused) said.push(`The queue is paused${by}.`);
  if (group?.paused) said.push("Its group is paused.");
  if (found.deadline > now) return said;
  const { held: most, rate } = queue.limits;
  if (most && queue.running >= most)
    said.push(`As many leases run as the limit Held allows, ${most}: one has to end first.`);
  if (rate && queue.rate_room === 0) said.push("The limit Rate is reached.");
  if (group && !group.paused && isMoment(group.next_deadline) && group.next_deadline > now)
    said.push(`Its group is held back by its limits (${ofGroup(group)}) until ${moment(group.next_deadline, now)}.`);
  if (queue.failures > 0 && queue.last_failure_b64) said.push(`Deliveries fail: ${line(queue.last_failure_b64)}.`);
  if (said.length) return said;
  if (queue.ondue.action !== "HOLD") return ["The server delivers it now."];
  const turn = queue.groups > 0 ? ", as soon as it is the turn of its group" : "";
  return [`Nothing holds it back: the next worker that asks gets it after those due before it${turn}.`];
}
