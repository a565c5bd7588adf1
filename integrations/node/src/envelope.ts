// The headers of a job, which carry the context of a trace: a JSON text as in RFC 7464, before the element. Without
// headers, an element is what the codec made.

export type Headers = Record<string, string>;

export const NO_HEADERS: Readonly<Headers> = Object.freeze({});

/** An element that begins like this without headers gets empty ones. */
const MARK = Buffer.from("\x1e{");

function isMarked(element: Uint8Array): boolean {
  return MARK.every((byte, n) => element[n] === byte);
}

export function wrap(headers: Readonly<Headers>, element: string | Uint8Array): string | Uint8Array {
  const isPlain = typeof element === "string" ? !element.startsWith("\x1e{") : !isMarked(element);
  if (isPlain && Object.keys(headers).length === 0) return element;
  const before = `\x1e${JSON.stringify(headers)}\n`;
  return typeof element === "string" ? before + element : Buffer.concat([Buffer.from(before), element]);
}

/** Returns the headers, and what the codec made. */
export function unwrap(element: Buffer): { headers: Headers; element: Buffer } {
  const end = isMarked(element) ? element.indexOf("\n") : -1;
  // Otherwise another program pushed it.
  const headers = end < 0 ? undefined : headersOf(element.toString("utf8", 1, end));
  return headers === undefined ? { headers: {}, element } : { headers, element: element.subarray(end + 1) };
}

function headersOf(text: string): Headers | undefined {
  try {
    const headers = JSON.parse(text) as Headers;
    return Object.values(headers).every((value) => typeof value === "string") ? headers : undefined;
  } catch {
    return undefined;
  }
}
