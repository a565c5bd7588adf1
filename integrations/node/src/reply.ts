// Normalizes replies of either library: bytes or text, maps or lists of names and values.

/** Returns a bulk string as bytes. */
export function bytes(reply: unknown): Buffer {
  if (Buffer.isBuffer(reply)) return reply;
  return reply instanceof Uint8Array ? Buffer.from(reply) : Buffer.from(String(reply));
}

/** Returns a bulk string as text. */
export function text(reply: unknown): string {
  return reply instanceof Uint8Array ? bytes(reply).toString() : String(reply);
}

/** Parses a map in RESP3, or an array of names and values in RESP2. */
export function pairs(reply: unknown): Map<string, unknown> {
  const found = new Map<string, unknown>();
  if (Array.isArray(reply)) {
    for (let i = 0; i + 1 < reply.length; i += 2) found.set(text(reply[i]), reply[i + 1]);
  } else {
    const entries = reply instanceof Map ? reply.entries() : Object.entries(reply as object);
    for (const [name, value] of entries) found.set(text(name), value);
  }
  return found;
}

/** Returns a reply with all bytes as text, and maps as objects. */
export function plain(reply: unknown): unknown {
  if (Buffer.isBuffer(reply)) return reply.toString();
  if (Array.isArray(reply)) return reply.map(plain);
  if (reply === null || typeof reply !== "object") return reply;
  return Object.fromEntries([...pairs(reply)].map(([name, value]) => [name, plain(value)]));
}
