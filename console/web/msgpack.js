// Reads MessagePack (https://github.com/msgpack/msgpack/blob/master/spec.md), as Celery's messages can be.

const TEXT = new TextDecoder("utf-8", { ignoreBOM: true });
/** The type of the extension for moments. */
const TIMESTAMP = -1;

/**
 * Returns the value that takes all bytes, or throws. Bytes are Uint8Arrays, integers of 64 bits BigInts, moments Dates, and
 * other extensions `{type, data}`.
 */
export function decode(bytes) {
  const reader = new Reader(bytes);
  const value = reader.value();
  if (reader.at !== bytes.length) throw new RangeError("bytes are left");
  return value;
}

class Reader {
  at = 0;
  #bytes;
  #view;

  constructor(bytes) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  value() {
    const first = this.#number("Uint8", 1);
    if (first < 0x80) return first;
    if (first < 0x90) return this.#map(first & 0x0f);
    if (first < 0xa0) return this.#array(first & 0x0f);
    if (first < 0xc0) return this.#text(first & 0x1f);
    if (first >= 0xe0) return first - 0x100;
    switch (first) {
      case 0xc0:
        return null;
      case 0xc2:
        return false;
      case 0xc3:
        return true;
      case 0xc4:
      case 0xc5:
      case 0xc6:
        return this.#taken(this.#length(first - 0xc4));
      case 0xc7:
      case 0xc8:
      case 0xc9:
        return this.#extension(this.#length(first - 0xc7));
      case 0xca:
        return this.#number("Float32", 4);
      case 0xcb:
        return this.#number("Float64", 8);
      case 0xcc:
      case 0xcd:
      case 0xce:
        return this.#length(first - 0xcc);
      case 0xcf:
        return this.#number("BigUint64", 8);
      case 0xd0:
        return this.#number("Int8", 1);
      case 0xd1:
        return this.#number("Int16", 2);
      case 0xd2:
        return this.#number("Int32", 4);
      case 0xd3:
        return this.#number("BigInt64", 8);
      case 0xd9:
      case 0xda:
      case 0xdb:
        return this.#text(this.#length(first - 0xd9));
      case 0xdc:
      case 0xdd:
        return this.#array(this.#length(first - 0xdc + 1));
      case 0xde:
      case 0xdf:
        return this.#map(this.#length(first - 0xde + 1));
      default:
        if (first >= 0xd4 && first <= 0xd8) return this.#extension(1 << (first - 0xd4));
        throw new TypeError("an unused first byte");
    }
  }

  /** Reads a whole number from 0 up of 1, 2 or 4 bytes, by the power of two. */
  #length(power) {
    return this.#number(["Uint8", "Uint16", "Uint32"][power], 1 << power);
  }

  #number(kind, size) {
    const number = this.#view[`get${kind}`](this.at);
    this.at += size;
    return number;
  }

  #taken(length) {
    const end = this.at + length;
    if (end > this.#bytes.length) throw new RangeError("too few bytes");
    const taken = this.#bytes.subarray(this.at, end);
    this.at = end;
    return taken;
  }

  #text(length) {
    return TEXT.decode(this.#taken(length));
  }

  #array(length) {
    const array = [];
    while (array.length < length) array.push(this.value());
    return array;
  }

  #map(length) {
    const map = {};
    for (let n = 0; n < length; n += 1) {
      const key = this.value();
      const isName = typeof key === "string" || typeof key === "number";
      if (!isName || key === "__proto__") throw new TypeError("a key that no object can have");
      map[key] = this.value();
    }
    return map;
  }

  #extension(length) {
    const type = this.#number("Int8", 1);
    const data = this.#taken(length);
    return (type === TIMESTAMP && moment(data)) || { type, data };
  }
}

/** Returns the moment of a timestamp of 32, 64 or 96 bits. */
function moment(data) {
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  switch (data.length) {
    case 4:
      return new Date(view.getUint32(0) * 1000);
    case 8: {
      const seconds = (view.getUint32(0) & 0x3) * 2 ** 32 + view.getUint32(4);
      return new Date(seconds * 1000 + (view.getUint32(0) >>> 2) / 1e6);
    }
    case 12:
      return new Date(Number(view.getBigInt64(4)) * 1000 + view.getUint32(0) / 1e6);
    default:
      return undefined;
  }
}
