// Numbers, sizes, durations and moments as text.

const COUNT = new Intl.NumberFormat("en");
const RATE = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });

const COMPACT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/** Returns a number in few characters: "200K". */
export const compact = (number) => COMPACT.format(number);

const NONE = "–";

export const count = (number) => (number === null || number === undefined ? NONE : COUNT.format(number));

/** Returns "1 element" or "3 elements". */
export const counted = (number, noun, plural = `${noun}s`) => `${count(number)} ${number === 1 ? noun : plural}`;

export const rate = (number) => (number === null || number === undefined ? NONE : `${RATE.format(number)}/s`);

export function size(bytes) {
  if (bytes === null || bytes === undefined) return NONE;
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  let value = bytes;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit === 0 ? value : RATE.format(value)} ${units[unit]}`;
}

const UNITS = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["min", 60_000],
  ["s", 1000],
];

/** Returns a duration in its two greatest units: "1 h 20 min", "3.2 s", "15 ms", "0.38 ms". */
export function duration(ms) {
  if (ms === null || ms === undefined) return NONE;
  if (ms < 1) return `${Number(ms.toPrecision(2))} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 10_000) return `${Math.floor(ms / 100) / 10} s`;
  const first = UNITS.findIndex(([, length]) => ms >= length);
  const [name, length] = UNITS[first];
  const whole = `${count(Math.floor(ms / length))} ${name}`;
  const next = UNITS[first + 1];
  const rest = next ? Math.floor((ms % length) / next[1]) : 0;
  return rest ? `${whole} ${rest} ${next[0]}` : whole;
}

/** Moments beyond this one are not dates: a stuck dead letter has no deadline. */
const LAST = 8.64e15;

export const isMoment = (ms) => ms !== null && ms !== undefined && ms < LAST;

const two = (number) => String(number).padStart(2, "0");

/** Returns the time of the day, with the date if that is not today's, in the reader's time zone. */
export function moment(ms, now = Date.now()) {
  if (!isMoment(ms)) return NONE;
  const at = new Date(ms);
  const time = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  return at.toDateString() === new Date(now).toDateString() ? time : `${day(at)} ${time}`;
}

const day = (at) => `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;

/** Returns the moment in full, with milliseconds and the reader's time zone. */
export function fullMoment(ms) {
  if (!isMoment(ms)) return "no deadline";
  const at = new Date(ms);
  const minutes = -at.getTimezoneOffset();
  const zone = `${minutes < 0 ? "-" : "+"}${two(Math.trunc(Math.abs(minutes) / 60))}:${two(Math.abs(minutes) % 60)}`;
  const time = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  return `${day(at)} ${time}.${String(at.getMilliseconds()).padStart(3, "0")} UTC${zone}`;
}

/** Returns "in 5 min" or "3 s ago". */
export function relative(ms, now) {
  if (!isMoment(ms)) return "stuck";
  const left = ms - now;
  if (Math.abs(left) < 1000) return "now";
  // Whole seconds: a countdown in tenths distracts.
  const text = duration(Math.floor(Math.abs(left) / 1000) * 1000);
  return left > 0 ? `in ${text}` : `${text} ago`;
}

const STEPS = { ms: 1, s: 1000, m: 60_000, min: 60_000, h: 3_600_000, d: 86_400_000 };

/** What the page accepts as a moment, for hints and errors. */
export const MOMENTS = "10m or 2h 30m from now, 14:05, tomorrow 9:00, 2026-12-24 18:00";

/**
 * Parses "10m", "1h 30m", "+500 ms" to milliseconds; a number alone is in `unit`, and refused without one. Returns null for
 * anything else.
 */
export function parseDuration(text, unit) {
  const words = text
    .trim()
    .toLowerCase()
    .replace(/^\+\s*/, "");
  const parts = [...words.matchAll(/(\d+(?:\.\d+)?)\s*(ms|min|s|m|h|d)?\s*/g)];
  if (!parts.length || parts.map(([all]) => all).join("") !== words) return null;
  const ms = parts.reduce((sum, [, number, each = unit]) => sum + Number(number) * (STEPS[each] ?? Number.NaN), 0);
  return Number.isNaN(ms) ? null : Math.round(ms);
}

/**
 * Parses "10m", "+10m" and "-5m" (from now), "14:05", "14:05:30", "tomorrow 9:00", "2026-11-25 09:00", or unix milliseconds.
 * A time of the day that has passed is tomorrow's, unless `past`. Returns null for anything else.
 */
export function parseMoment(text, now, past = false) {
  const words = text.trim().toLowerCase();
  if (words === "now") return now;
  const ago = words.startsWith("-");
  const ms = parseDuration(ago ? words.slice(1) : words);
  if (ms !== null) return ago ? now - ms : now + ms;
  if (/^\d{11,16}$/.test(words)) return Number(words);
  const time = /^(tomorrow )?(\d{1,2}):(\d\d)(?::(\d\d))?$/.exec(words);
  if (time) {
    const [, tomorrow, hours, minutes, seconds] = time;
    if (Number(hours) > 23 || Number(minutes) > 59 || Number(seconds ?? 0) > 59) return null;
    const at = new Date(now);
    at.setHours(Number(hours), Number(minutes), Number(seconds ?? 0), 0);
    if (tomorrow || (!past && at.getTime() < now)) at.setDate(at.getDate() + 1);
    return at.getTime();
  }
  if (!/^\d{4}-\d\d-\d\d/.test(words)) return null;
  const date = Date.parse(/^\d{4}-\d\d-\d\d$/.test(words) ? `${words} 00:00` : text.trim());
  return Number.isNaN(date) ? null : date;
}
