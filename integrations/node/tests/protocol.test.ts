// The examples that all packages agree on: integrations/protocol.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { raw } from "dehydrator-queue";
import { waitAfter } from "../src/backoff.js";
import { unwrap, wrap } from "../src/envelope.js";
import { ModuleMissingError } from "../src/errors.js";
import { deadOf } from "../src/queue.js";
import { clearer } from "../src/server.js";
import { channelOf } from "../src/told.js";
import { outcomeOf, reasonWords, Verbs } from "../src/verbs.js";
import { Directory, home } from "../src/wide/directory.js";
import { CHANGE, ROUTED } from "../src/wide/script.js";
import { passes } from "../src/wire.js";

const PLACE = new URL("../../../protocol/", import.meta.url);
const vectors = JSON.parse(readFileSync(new URL("vectors.json", PLACE), "utf8"));

const bytes = (text: string) => Buffer.from(text, "latin1");

test("the headers of an element", () => {
  for (const { headers, element, envelope } of vectors.wrap) {
    assert.deepEqual(Buffer.from(wrap(headers, bytes(element))), bytes(envelope));
    // A codec may make text.
    if (!/[^\0-\x7f]/.test(element)) assert.equal(wrap(headers, element), envelope);
  }
  for (const { envelope, ...told } of vectors.unwrap) {
    assert.deepEqual(unwrap(bytes(envelope)), { ...told, element: bytes(told.element) });
  }
});

test("the key of an id", () => {
  for (const { keys, ids } of vectors["key-of-id"]) {
    for (const [id, key] of Object.entries(ids)) assert.equal(home(bytes(id), keys), key, id);
  }
  for (const { directory, places } of vectors.directory) {
    const read = Directory.read("jobs:keys").read(directory);
    for (const [id, keys] of Object.entries(places)) assert.deepEqual(read.places(bytes(id)), keys);
  }
  for (const { key, cluster, dead } of vectors.beside) assert.equal(deadOf(key, cluster), dead);
});

test("the channel of cancelled jobs", () => {
  for (const { key, cluster, db, channel } of vectors.cancelled) assert.equal(channelOf(key, cluster, db), channel);
});

test("the errors that pass, and what the others are", () => {
  for (const text of vectors.passing) assert.equal(passes(new Error(text)), true, text);
  for (const text of vectors.final) assert.equal(passes(new Error(text)), false, text);
  for (const [text, kind] of Object.entries(vectors.errors)) {
    const error = clearer(new Error(text)) as Error;
    assert.equal(error.name, kind === null ? "ReplyError" : `${kind}Error`, text);
    assert.equal(error.message === text, !(error instanceof ModuleMissingError));
    assert.equal(passes(error), false);
  }
  const old = clearer(new Error("ERR unknown command 'DEHYDRATOR.EVERY', with args beginning with: 'a'")) as Error;
  assert.match(old.message, /has not loaded the module dehydrator, or one too old for DEHYDRATOR\.EVERY\. /);
});

test("the delays after attempts", () => {
  for (const { attempt, from, to, ...backoff } of vectors.backoff) {
    assert.equal(waitAfter(attempt, backoff, 0), to);
    assert.ok(Math.abs(waitAfter(attempt, backoff, 1) - from) < 1e-6);
  }
});

test("dead letters, reasons and what became of many", () => {
  const verbs = new Verbs("jobs", "jobs:dead", raw());
  for (const { entry, letter } of vectors.letters) {
    const [id, fields] = entry as [string, string[]];
    const [read] = verbs.deadLetters("jobs:dead", 1).read([[id, fields.map(bytes)]]);
    const { attempts, id: name, element, ...told } = letter;
    assert.deepEqual(
      {
        entry: read!.entry,
        id: read!.idBytes,
        element: read!.element,
        reason: read!.reason,
        group: read!.group ?? null,
      },
      { ...told, id: bytes(name), element: bytes(element) },
    );
    assert.equal(read!.attempt, attempts);
  }
  for (const { text, times, reason, cut } of vectors.reasons) {
    const words = reasonWords(text.repeat(times));
    assert.deepEqual(words, reason === "" ? [] : ["REASON", Buffer.from(reason.repeat(cut))]);
  }
  for (const { reply, drawn, outcome } of vectors["put-many"]) assert.equal(outcomeOf(reply, drawn), outcome);
});

test("the scripts are those of the protocol", () => {
  for (const [name, script] of Object.entries({ routed: ROUTED, change: CHANGE })) {
    assert.equal(script, readFileSync(new URL(`${name}.lua`, PLACE), "utf8"));
  }
});
