// Converts payloads to bytes and back.

/** Converts payloads to bytes and back. If `decode` throws, the element becomes a dead letter. */
export interface Codec<T> {
  /** Returns a text, which is sent in UTF-8, or bytes. */
  encode(payload: T): string | Uint8Array;
  /** Returns the payload of bytes that `encode` made. */
  decode(element: Buffer): T;
}

const UTF_8 = new TextDecoder("utf-8", { fatal: true });

/** JSON in UTF-8: the default codec of a queue. */
export function json<T>(): Codec<T> {
  return {
    encode(payload) {
      const text = JSON.stringify(payload);
      if (text === undefined) throw new TypeError(`JSON has no word for ${typeof payload}`);
      return text;
    },
    decode: (element) => JSON.parse(UTF_8.decode(element)) as T,
  };
}

/** The bytes, unchanged. */
export function raw(): Codec<Uint8Array> {
  return { encode: (payload) => payload, decode: (element) => element };
}
