// Unit tests of what reads and writes text: envelopes, moments, byte strings. They need no browser.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { fromBase64, fromHex, lineOf, toBase64, utf8, visible } from "../../web/bytes.js";
import { envelopeOf, msgpackOf, summary } from "../../web/envelope.js";
import { duration, parseDuration, parseMoment, relative } from "../../web/figures.js";
import { parse, queueHref } from "../../web/route.js";

const MESSAGES = JSON.parse(readFileSync(new URL("messages.json", import.meta.url)));

test("a summary is the task with its arguments", () => {
  assert.deepEqual(summary(envelopeOf(utf8(MESSAGES.celery))), {
    task: "shop.tasks.send_mail",
    args: '("anna@example.org", 17, template="reminder", urgent=true)',
  });
});

test("a pickled body is not decoded, but its arguments are there as text", () => {
  const { note, task, fields } = envelopeOf(utf8(MESSAGES.celery_pickle));
  assert.equal(task, "shop.tasks.send_mail");
  assert.match(note, /pickled/);
  assert.deepEqual(fields[0], ["arguments (repr)", "('anna@example.org', 17)"]);
});

test("other JSON and other bytes are no envelope", () => {
  for (const text of ["{}", "[]", "17", '{"class":"x"}', '{"args":[]}', "capture payment 17", ""]) {
    assert.equal(envelopeOf(utf8(text)), null, text);
  }
  assert.equal(envelopeOf(Uint8Array.of(0xff, 0x00)), null);
});

test("no element breaks what reads it", () => {
  // A small generator of our own, so that a failure can be repeated.
  let seed = 7;
  const random = (below) => {
    seed = (Math.imul(seed, 1103515245) + 12345) >>> 0;
    return (seed >>> 8) % below;
  };
  const pieces = [
    '{"body":',
    '"headers":',
    '"properties":{}',
    '"args":',
    "[",
    "]",
    "{",
    "}",
    "null",
    '"x"',
    ",",
    ":",
    "1",
  ];
  for (let n = 0; n < 3000; n += 1) {
    const text = Array.from({ length: random(12) }, () => pieces[random(pieces.length)]).join("");
    const bytes = Uint8Array.from({ length: random(20) }, () => random(256));
    for (const each of [utf8(text), bytes]) {
      summary(envelopeOf(each));
      msgpackOf(each);
      lineOf(each);
    }
  }
  for (const properties of [null, 1, [], {}, { body_encoding: "base64" }]) {
    for (const body of [null, 1, "", "%%", [], {}]) {
      for (const headers of [null, [], 1, { task: 1 }, { task: "a" }]) {
        summary(envelopeOf(utf8(JSON.stringify({ body, headers, properties }))));
      }
    }
  }
});

test("MessagePack is read as its specification says", () => {
  const each = [
    ["c0", null],
    ["c2", false],
    ["c3", true],
    ["7f", 127],
    ["e0", -32],
    ["ccff", 255],
    ["cdffff", 65535],
    ["ceffffffff", 4294967295],
    ["cfffffffffffffffff", 18446744073709551615n],
    ["d080", -128],
    ["d18000", -32768],
    ["d280000000", -2147483648],
    ["d38000000000000000", -9223372036854775808n],
    ["ca3fc00000", 1.5],
    ["cb3ff8000000000000", 1.5],
    ["a3e282ac", "€"],
    ["d901", undefined],
    ["d90161", "a"],
    ["da000161", "a"],
    ["db0000000161", "a"],
    ["c40201ff", Uint8Array.of(1, 255)],
    ["c5000101", Uint8Array.of(1)],
    ["c60000000101", Uint8Array.of(1)],
    ["9101", [1]],
    ["dc0002c0c3", [null, true]],
    ["dd00000001c3", [true]],
    ["81a16101", { a: 1 }],
    ["de0001a16190", { a: [] }],
    ["df0000000101c0", { 1: null }],
    ["81c001", undefined],
    ["d405ff", { type: 5, data: Uint8Array.of(255) }],
    ["c70305010203", { type: 5, data: Uint8Array.of(1, 2, 3) }],
    ["d6ff00000001", new Date(1000)],
    ["d7ff0774c28000000001", new Date(1031.25)],
    ["c70cff07735940ffffffffffffffff", new Date(-875)],
    ["c1", undefined],
  ];
  for (const [digits, value] of each) {
    const bytes = Uint8Array.from(`91${digits}`.match(/../g), (pair) => Number.parseInt(pair, 16));
    assert.deepEqual(msgpackOf(bytes), value === undefined ? undefined : [value], digits);
  }
});

test("MessagePack must take all bytes", () => {
  assert.deepEqual(msgpackOf(Uint8Array.of(0x91, 0x01)), [1]);
  assert.equal(msgpackOf(Uint8Array.of(0x91, 0x01, 0x01)), undefined);
  assert.equal(msgpackOf(Uint8Array.of(0x92, 0x01)), undefined);
});

test("moments are read as people write them", () => {
  const now = new Date(2026, 10, 24, 13, 0, 0).getTime();
  const at = (...parts) => new Date(...parts).getTime();
  for (const text of ["+10m", "10m", " 10 min ", "+ 10m"]) assert.equal(parseMoment(text, now), now + 600_000, text);
  assert.equal(parseMoment("1h 30m", now), now + 5_400_000);
  assert.equal(parseMoment("-1h 30m", now), now - 5_400_000);
  assert.equal(parseMoment("14:05", now), at(2026, 10, 24, 14, 5));
  assert.equal(parseMoment("12:00", now), at(2026, 10, 25, 12));
  assert.equal(parseMoment("12:00", now, true), at(2026, 10, 24, 12));
  assert.equal(parseMoment("tomorrow 9:00", now), at(2026, 10, 25, 9));
  assert.equal(parseMoment("2026-12-24 18:00", now), at(2026, 11, 24, 18));
  assert.equal(parseMoment("2026-12-24", now), at(2026, 11, 24));
  assert.equal(parseMoment("1764000000000", now), 1764000000000);
  // A number alone could be seconds or minutes.
  for (const text of ["", "soon", "25:00", "14:75", "+", "+10 parsecs", "10 parsecs", "10", "+10", "1h 30"])
    assert.equal(parseMoment(text, now), null, text);
});

test("durations are read and written", () => {
  assert.equal(parseDuration("1d 2h"), 93_600_000);
  assert.equal(parseDuration("90", "s"), 90_000);
  assert.equal(parseDuration("90"), null);
  assert.equal(parseDuration("1.5h"), 5_400_000);
  assert.equal(parseDuration("+10m", "ms"), 600_000);
  for (const text of ["1x", "", "+", "-1m", "1m x"]) assert.equal(parseDuration(text, "ms"), null, text);
  assert.deepEqual([0, 0.383, 15, 1000, 3250, 80_000, 3_600_000, 90_061_000].map(duration), [
    "0 ms",
    "0.38 ms",
    "15 ms",
    "1 s",
    "3.2 s",
    "1 min 20 s",
    "1 h",
    "1 d 1 h",
  ]);
  assert.deepEqual(
    [500, -3000, 90_000].map((ms) => relative(ms, 0)),
    ["now", "3 s ago", "in 1 min 30 s"],
  );
});

test("byte strings come back as they were", () => {
  const all = Uint8Array.from({ length: 256 }, (_, byte) => byte);
  assert.deepEqual(fromBase64(toBase64(all)), all);
  assert.deepEqual(fromHex("00 ff\n0a"), Uint8Array.of(0, 255, 10));
  assert.equal(fromHex("0"), null);
  assert.equal(fromHex("zz"), null);
  assert.equal(lineOf(Uint8Array.of(0xff, 0x41, 0x0a)), "\\xffA\\x0a");
  assert.equal(visible("a\u202eb\u0000c\ud800"), "a\\u202eb\\x00c\ud800");
});

test("the address of a queue is read back", () => {
  const queue = { node: "[::1]:6379", db: 3, key: toBase64(utf8("a b&c?d#e")) };
  const { page, node, db, key, text } = parse(queueHref(queue, { view: "dead", text: "a=b&c%d #" }));
  assert.deepEqual([page, node, db, key, text], ["queue", "[::1]:6379", "3", queue.key, "a=b&c%d #"]);
});
