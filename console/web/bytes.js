// Byte strings of the server: keys, ids, elements, reasons. The API sends them in base64url.

const UTF_8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

export function fromBase64(text) {
  const binary = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(binary, (character) => character.charCodeAt(0));
}

export function toBase64(bytes) {
  let binary = "";
  for (let i = 0; i < bytes.length; i += 8192) binary += String.fromCharCode(...bytes.subarray(i, i + 8192));
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

export const utf8 = (text) => new TextEncoder().encode(text);

/** Returns bytes as text, or null if they are not UTF-8. */
export function textOf(bytes) {
  try {
    return UTF_8.decode(bytes);
  } catch {
    return null;
  }
}

/** Control characters, and characters that are invisible or change the direction of text. */
const HIDDEN =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: it looks for control characters.
  /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

const NAMED = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

/** Returns text in which every hidden character is visible, as an escape. */
export function visible(text, keep = "") {
  return text.replace(HIDDEN, (character) => {
    if (keep.includes(character)) return character;
    const code = character.charCodeAt(0);
    return NAMED[character] ?? (code < 256 ? `\\x${hex(code)}` : `\\u${code.toString(16).padStart(4, "0")}`);
  });
}

const hex = (byte) => byte.toString(16).padStart(2, "0");

/** Returns bytes as one line of text, with escapes for everything that is not visible text. */
export function lineOf(bytes) {
  const text = textOf(bytes);
  if (text !== null) return visible(text);
  return Array.from(bytes, (byte) =>
    byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : `\\x${hex(byte)}`,
  ).join("");
}

/** Returns the line of a base64url string; "(empty)" for the empty one. */
export const line = (base64) => (base64 === "" ? "(empty)" : lineOf(fromBase64(base64)));

/** Returns a text of at most `length` characters. */
export const shortened = (text, length) => (text.length > length ? `${text.slice(0, length - 1)}…` : text);

/** Returns lines of offset, sixteen bytes in hex, and the characters, as `hexdump -C` prints them. */
export function dump(bytes) {
  const lines = [];
  for (let at = 0; at < bytes.length; at += 16) {
    const some = [...bytes.subarray(at, at + 16)];
    const digits = some.map(hex).join(" ").padEnd(47);
    const characters = some.map((byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : ".")).join("");
    lines.push(`${at.toString(16).padStart(8, "0")}  ${digits}  ${characters}`);
  }
  return lines.join("\n");
}

export const hexOf = (bytes) => Array.from(bytes, hex).join(" ");

/** Parses pairs of hex digits; returns null for anything else. */
export function fromHex(text) {
  const digits = text.replace(/\s+/g, "");
  if (digits.length % 2 || /[^0-9a-f]/i.test(digits)) return null;
  return Uint8Array.from(digits.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
}
