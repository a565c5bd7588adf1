// Durations, moments and options, as the user gives them: what makes no sense is refused at once.

/** The longest wait of Node's own timers: they take a longer one for a millisecond. */
const LONGEST = 2 ** 31 - 1;

/** Returns a duration in whole milliseconds, rounded up: never early. */
export function milliseconds(duration: number, name = "a duration", least = 0): number {
  if (typeof duration !== "number" || !(duration >= least && duration <= Number.MAX_SAFE_INTEGER)) {
    throw new RangeError(`${name} is a number of milliseconds from ${least} on, and not ${String(duration)}`);
  }
  return Math.ceil(duration);
}

/** Returns a point in time, or a number of milliseconds since 1970, in whole milliseconds since 1970. */
export function unixMilliseconds(moment: Date | number): number {
  const at = moment instanceof Date || typeof moment === "number" ? Number(moment) : Number.NaN;
  if (!Number.isFinite(at)) throw new RangeError(`a moment is a Date, or milliseconds since 1970, and not ${moment}`);
  return Math.max(0, Math.ceil(at));
}

/** Returns a whole number within bounds. */
export function whole(number: number, name: string, least: number, most = Number.MAX_SAFE_INTEGER): number {
  if (Number.isInteger(number) && number >= least && number <= most) return number;
  const range = most < Number.MAX_SAFE_INTEGER ? `from ${least} to ${most}` : `from ${least} on`;
  throw new RangeError(`\`${name}\` is a whole number ${range}, and not ${String(number)}`);
}

/** Refuses options that nobody knows, such as misspelled ones. */
export function known(options: object, names: string): void {
  if (typeof options !== "object" || options === null) throw new TypeError(`options are an object, and not ${options}`);
  const all = names.split(" ");
  const other = Object.keys(options).find((name) => !all.includes(name));
  if (other !== undefined) throw new TypeError(`there is no option \`${other}\`: known are ${all.join(", ")}`);
}

/** Calls after any number of milliseconds; returns what cancels that. It keeps no process. */
export function after(ms: number, call: () => void): () => void {
  let timer: NodeJS.Timeout;
  const wait = (left: number) => {
    const next = () => (left > LONGEST ? wait(left - LONGEST) : call());
    timer = setTimeout(next, Math.min(left, LONGEST)).unref();
  };
  wait(ms);
  return () => clearTimeout(timer);
}

/** Returns a duration as Node's own timers can wait, shorter if need be. */
export function timed(ms: number): number {
  return Math.min(ms, LONGEST);
}
