import assert from "node:assert/strict";
import { test } from "node:test";

import { Arming, LOOK_CLOSELY, PASSING, SETTLE } from "../src/run-view/arming";

const START = 1000; // ms
const key = (began: number) => ({ began, byKey: true });
const click = (began: number) => ({ began, byKey: false });

/** A card in clear sight since `START`, read to its end. */
function shown(isUnderPointer = false): Arming {
  const arming = new Arming(isUnderPointer);
  arming.see("clear", START);
  arming.read();
  return arming;
}

test("a card in sight arms after SETTLE, for keys and pointers", () => {
  const arming = shown();
  assert.equal(arming.readiness(START + SETTLE - 1), "settling");
  assert.equal(arming.readiness(START + SETTLE), "armed");
  assert.equal(arming.accepts(key(START + SETTLE - 1)), false);
  assert.equal(arming.accepts(key(START + SETTLE)), true);
  assert.equal(arming.accepts(click(START + SETTLE)), true);
});

test("what went down before it was armed never counts, however late it is released", () => {
  const arming = shown();
  arming.readiness(START + 10 * SETTLE);
  assert.equal(arming.accepts(key(START - 1)), false);
  assert.equal(arming.accepts(click(START + 1)), false);
});

test("under a pointer that rests, a click counts only after it moved; a key needs no pointer", () => {
  const arming = shown(true);
  assert.equal(arming.readiness(START + SETTLE), "resting");
  assert.equal(arming.accepts(click(START + 2 * SETTLE)), false);
  assert.equal(arming.accepts(key(START + SETTLE)), true);
  arming.free(START + 3 * SETTLE);
  assert.equal(arming.readiness(START + 3 * SETTLE), "armed");
  assert.equal(arming.accepts(click(START + 2 * SETTLE)), false);
  assert.equal(arming.accepts(click(START + 3 * SETTLE + 1)), true);
});

test("a card that was never in sight takes nothing", () => {
  const arming = new Arming(false);
  arming.read();
  assert.equal(arming.readiness(START), "hidden");
  assert.equal(arming.armedAt, Infinity);
  assert.equal(arming.accepts(key(1e9)), false);
});

test("out of sight and back, it settles again", () => {
  const arming = shown();
  arming.see("unseen", START + SETTLE);
  assert.equal(arming.readiness(START + SETTLE), "hidden");
  arming.see("clear", START + 2 * SETTLE);
  assert.equal(arming.accepts(key(START + 2 * SETTLE + 1)), false);
  assert.equal(arming.accepts(key(START + 3 * SETTLE)), true);
});

test("long code wants its end in sight once", () => {
  const arming = new Arming(false);
  arming.see("clear", START);
  assert.equal(arming.readiness(START + SETTLE), "unread");
  assert.equal(arming.accepts(key(START + SETTLE)), false);
  arming.read();
  assert.equal(arming.readiness(START + SETTLE), "armed");
});

test("what moves or changes settles again, and the pointer must move where it now lies over it", () => {
  const arming = shown();
  arming.disturb(true, START + SETTLE);
  assert.equal(arming.readiness(START + SETTLE), "settling");
  assert.equal(arming.readiness(START + 2 * SETTLE), "resting");
  assert.equal(arming.accepts(key(START + 2 * SETTLE)), true);
  arming.disturb(false, START + 2 * SETTLE);
  assert.equal(arming.accepts(click(START + 3 * SETTLE)), true);
});

test("a doubt makes it take longer, and locks nobody out", () => {
  const arming = new Arming(false);
  arming.read();
  arming.see("doubtful", START);
  assert.equal(arming.readiness(START + SETTLE), "doubtful");
  assert.equal(arming.accepts(key(START + LOOK_CLOSELY - 1)), false);
  assert.equal(arming.accepts(key(START + LOOK_CLOSELY)), true);
});

test("a doubt that comes and goes all the time takes no longer than one that stays", () => {
  const arming = new Arming(false);
  arming.read();
  for (let now = START; now < START + LOOK_CLOSELY; now += SETTLE / 5) {
    arming.see(now % SETTLE === 0 ? "doubtful" : "clear", now);
  }
  assert.equal(arming.readiness(START + LOOK_CLOSELY), "armed");
});

test("a doubt that ends leaves the usual time to settle", () => {
  const arming = new Arming(false);
  arming.read();
  arming.see("doubtful", START);
  arming.see("clear", START + SETTLE);
  assert.equal(arming.readiness(START + 2 * SETTLE - 1), "settling");
  assert.equal(arming.readiness(START + 2 * SETTLE), "armed");
});

test("a doubt that comes late and stays makes it take longer from then on", () => {
  const arming = shown();
  const late = START + 10 * LOOK_CLOSELY;
  arming.see("doubtful", late);
  arming.see("doubtful", late + PASSING);
  assert.equal(arming.readiness(late + PASSING), "doubtful");
  assert.equal(arming.accepts(key(late + PASSING)), false);
  assert.equal(arming.accepts(key(late + LOOK_CLOSELY)), true);
});

test("a doubt that passes takes nothing from a card that had settled", () => {
  const arming = shown();
  arming.see("doubtful", START + SETTLE);
  assert.equal(arming.accepts(key(START + SETTLE)), true);
  arming.see("clear", START + SETTLE + PASSING - 1);
  assert.equal(arming.readiness(START + SETTLE + PASSING - 1), "armed");
});

test("after a focus that nobody asked for, a key must begin once it has settled again; a pointer need not wait", () => {
  const arming = shown();
  const strayed = START + 10 * SETTLE;
  arming.leadAstray(strayed);
  assert.equal(arming.readiness(strayed), "settling");
  assert.equal(arming.accepts(key(strayed - 1)), false);
  assert.equal(arming.accepts(key(strayed + SETTLE - 1)), false);
  assert.equal(arming.accepts(click(strayed + 1)), true);
  assert.equal(arming.readiness(strayed + SETTLE), "armed");
  assert.equal(arming.accepts(key(strayed + SETTLE)), true);
});
