import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";

import { Presses } from "../src/run-view/presses";

/** An event as a browser makes it, of the fields that count here. */
class PageEvent {
  constructor(readonly type: string, fields: object) {
    Object.assign(this, { isTrusted: true }, fields);
  }
}

class KeyPress extends PageEvent {}

/** A window whose events may be those of a person: a real event that a script dispatches never is trusted. */
class PageWindow {
  readonly #heard: [string, (event: PageEvent) => void, AbortSignal][] = [];

  addEventListener(type: string, told: (event: PageEvent) => void, { signal }: { signal: AbortSignal }): void {
    this.#heard.push([type, told, signal]);
  }

  happens(event: PageEvent): void {
    this.#heard.filter(([type, , { aborted }]) => type === event.type && !aborted).forEach(([, told]) => { told(event); });
  }
}

const globals = globalThis as unknown as Record<string, unknown>;
let page: PageWindow;
let frees: number[];
let gone: AbortController;
let presses: Presses;

beforeEach(() => {
  page = globals["window"] = new PageWindow();
  globals["KeyboardEvent"] = KeyPress;
  frees = [];
  gone = new AbortController();
  presses = new Presses((now) => frees.push(now), gone.signal);
});
afterEach(() => { gone.abort(); });

const happens = (type: string, timeStamp: number, fields: object = {}): void =>
  page.happens(new PageEvent(type, { timeStamp, ...fields }));
const click = (timeStamp: number, detail: number): MouseEvent =>
  new PageEvent("click", { timeStamp, detail }) as unknown as MouseEvent;
const box = { getBoundingClientRect: () => ({ left: 0, right: 10, top: 0, bottom: 10 }) } as Element;

test("a click began when its button went down", () => {
  happens("pointerdown", 100, { screenX: 1, screenY: 1 });
  assert.deepEqual(presses.of(click(900, 1)), { began: 100, byKey: false });
});

test("the click of a key began when the key went down; its repeats begin nothing", () => {
  happens("keydown", 100, { key: "Enter", repeat: false });
  happens("keydown", 600, { key: "Enter", repeat: true });
  assert.deepEqual(presses.of(click(900, 0)), { began: 100, byKey: true });
});

test("a key that was released begins no later click", async () => {
  happens("keydown", 100, { key: " ", repeat: false });
  happens("keyup", 200, { key: " " });
  await new Promise((resolve) => setTimeout(resolve));
  assert.deepEqual(presses.of(click(900, 0)), { began: 900, byKey: true });
});

test("a repeat of a key that nobody heard go down began long ago", () => {
  happens("keydown", 600, { key: "Enter", repeat: true });
  assert.deepEqual(presses.of(click(900, 0)), { began: -Infinity, byKey: true });
});

test("what a script makes is no press: it neither lifts a key that is held nor frees the pointer", async () => {
  happens("keydown", 100, { key: "Enter", repeat: false });
  happens("keyup", 200, { key: "Enter", isTrusted: false });
  happens("pointerup", 200, { pointerType: "mouse", isTrusted: false });
  await new Promise((resolve) => setTimeout(resolve));
  assert.deepEqual(presses.of(click(900, 0)), { began: 100, byKey: true });
  assert.deepEqual(frees, []);
});

test("a key that presses no button begins none", () => {
  happens("keydown", 100, { key: "a", repeat: false });
  assert.deepEqual(presses.of(click(900, 0)), { began: 900, byKey: true });
});

test("a page that moves under a resting pointer makes no move of the pointer", () => {
  happens("pointermove", 100, { screenX: 5, screenY: 5, clientX: 5, clientY: 5 });
  happens("pointermove", 200, { screenX: 5, screenY: 5, clientX: 5, clientY: 90 });
  assert.deepEqual(frees, []);
  happens("pointermove", 300, { screenX: 6, screenY: 5, clientX: 6, clientY: 90 });
  assert.deepEqual(frees, [300]);
});

test("a pointer is over what lies under its last place; a lifted finger is over nothing", () => {
  happens("pointermove", 100, { screenX: 5, screenY: 5, clientX: 5, clientY: 5 });
  assert.equal(presses.isOver(box), true);
  happens("pointermove", 200, { screenX: 50, screenY: 5, clientX: 50, clientY: 5 });
  assert.equal(presses.isOver(box), false);
  happens("pointermove", 300, { screenX: 5, screenY: 5, clientX: 5, clientY: 5 });
  happens("pointerup", 400, { pointerType: "touch" });
  assert.equal(presses.isOver(box), false);
});

test("when the view is gone the page is heard no more", () => {
  gone.abort();
  happens("pointerup", 100, { pointerType: "mouse" });
  assert.deepEqual(frees, []);
});
