import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { gunzipSync } from "node:zlib";
import { Cron, cronLibrary } from "../src/cron.js";

const croner = await cronLibrary();
const MINUTE = 60_000;
/** Of tests/data/occurrences.py. 100,000 were compared by hand, half of them in years to come. */
const FILE = process.env.DEHYDRATOR_OCCURRENCES ?? new URL("../../tests/data/occurrences.tsv.gz", import.meta.url);

function nextOf(text: string, zone: string, from: number, count: number): number[] {
  const cron = new Cron(croner, text, zone);
  const found: number[] = [];
  for (let next = cron.after(from); next !== null && found.length < count; next = cron.after(next)) found.push(next);
  return found;
}

/** Returns occurrences as the clocks show them: `02:30+2`. */
function shown(text: string, zone: string, from: string, count: number): string[] {
  const options = { timeZone: zone, hour: "2-digit", minute: "2-digit", hourCycle: "h23", timeZoneName: "shortOffset" };
  const format = new Intl.DateTimeFormat("en", options as Intl.DateTimeFormatOptions);
  return nextOf(text, zone, Date.parse(from), count).map((one) => format.format(one).replace(" GMT", ""));
}

test("the occurrences are those of another implementation, in all zones", () => {
  const bytes = readFileSync(FILE);
  // Else one that was written by hand.
  const isPacked = bytes[0] === 0x1f;
  const lines = `${isPacked ? gunzipSync(bytes) : bytes}`.trimEnd().split("\n");
  const wrong: string[] = [];
  for (const line of lines) {
    const [text = "", zone = "", seconds, minutes = ""] = line.split("\t");
    const from = Number(seconds) * 1000;
    const count = minutes === "" ? 0 : minutes.split(" ").length;
    const found = nextOf(text, zone, from, Math.max(count, 1)).map((one) => Math.ceil((one - from) / MINUTE));
    if (found.join(" ") !== minutes) wrong.push(`${line} but ${found.join(" ")}`);
  }
  assert.deepEqual(wrong, []);
  assert.ok(lines.length >= 2000);
});

test("a time of day that is skipped comes after the gap, once", () => {
  const night = "2027-03-27T23:00:00Z";
  assert.deepEqual(shown("30 2 * * *", "Europe/Berlin", night, 2), ["03:00+2", "02:30+2"]);
  assert.deepEqual(shown("0,30 2,3 * * *", "Europe/Berlin", night, 3), ["03:00+2", "03:30+2", "02:00+2"]);
  assert.deepEqual(shown("0 0 * * *", "Asia/Beirut", "2029-03-24T12:00:00Z", 2), ["01:00+3", "00:00+3"]);
  // The day does not exist.
  assert.deepEqual(nextOf("0 12 30 12 *", "Pacific/Apia", Date.parse("2011-12-01"), 1), [
    Date.parse("2011-12-30T10:00Z"),
  ]);
});

test("a time of day that there is twice comes once, the first time", () => {
  assert.deepEqual(shown("30 2 * * *", "Europe/Berlin", "2027-10-30T23:00:00Z", 2), ["02:30+2", "02:30+1"]);
  // In the second of the two hours, that day's is over.
  assert.deepEqual(nextOf("30 2 * * *", "Europe/Berlin", Date.parse("2027-10-31T01:15:00Z"), 1), [
    Date.parse("2027-11-01T01:30:00Z"),
  ]);
  assert.deepEqual(shown("45 1 * * *", "Australia/Lord_Howe", "2027-04-03T12:00:00Z", 2), ["01:45+11", "01:45+10:30"]);
});

test("each hour and each minute follow real time", () => {
  const spring = shown("0 * * * *", "Europe/Berlin", "2027-03-27T23:30:00Z", 3);
  assert.deepEqual(spring, ["01:00+1", "03:00+2", "04:00+2"]);
  const autumn = shown("0 * * * *", "Europe/Berlin", "2027-10-30T23:30:00Z", 3);
  assert.deepEqual(autumn, ["02:00+2", "02:00+1", "03:00+1"]);
  // No hour at which the clocks of that day are even.
  assert.deepEqual(shown("0 */2 * * *", "Asia/Beirut", "2029-03-24T21:30:00Z", 1), ["02:00+3"]);
  const half = shown("41 * * * *", "Australia/Lord_Howe", "2020-10-03T14:30:00Z", 2);
  assert.deepEqual(half, ["01:41+10:30", "02:41+11"]);
});

test("the days are as in Debian: one of the two fields, or both if either begins with a star", () => {
  const from = Date.parse("2027-01-01T00:00Z");
  const days = (text: string) => nextOf(text, "UTC", from, 3).map((one) => new Date(one).toISOString().slice(5, 10));
  assert.deepEqual(days("0 9 13 * FRI"), ["01-01", "01-08", "01-13"]);
  assert.deepEqual(days("0 9 */2 * fri"), ["01-01", "01-15", "01-29"]);
  assert.deepEqual(days("0 9 * * 1#2"), ["01-11", "02-08", "03-08"]);
  assert.deepEqual(days("0 9 LW * *"), ["01-29", "02-26", "03-31"]);
  assert.deepEqual(days("0 9 31 2 *"), []);
  assert.deepEqual(days("0 9 5-5/9 * *"), ["01-05", "02-05", "03-05"]);
  assert.deepEqual(days("0 9 20/9 * *"), ["01-20", "01-29", "02-20"]);
  assert.deepEqual(days("0 9 */45 * *"), ["01-01", "02-01", "03-01"]);
});

test("what is no cron text, and no zone, is refused", () => {
  for (const text of [
    ...["", "* * * *", "* * * * * *", "@daily", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 8"],
    ...["5-3 * * * *", "*/0 * * * *", "/5 * * * *", "1,,2 * * * *", "* * * JANUARY *", "* * * * FOO", "*-5 * * * *"],
    ...[
      "? * * * *",
      "* * 15W * *",
      "* * * * +MON",
      "* * * * FRI#L",
      "L * * * *",
      "* * * * L",
      "* * 5L * *",
      "* * 1#1 * *",
    ],
    ...["* * * * 1#6", "-1 * * * *", "1.5 * * * *", "* * * MON *"],
  ]) {
    assert.throws(() => new Cron(croner, text, "UTC"), /^RangeError: no cron text/, text);
  }
  assert.throws(() => new Cron(croner, "* * * * *", "Europe/Berlino"), RangeError);
});
