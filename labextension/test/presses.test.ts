import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";

import { Presses } from "../src/run-view/presses";

/** An event as a browser makes it, of the fields that count here. */
class PageEvent extends Event {
  constructor(type: string, fields: object) {
    super(type);
    for (const [name, value] of Object.entries(fields)) {
      Object.defineProperty(this, name, { value });
    }
  }
}

class KeyPress extends PageEvent {}

const globals = globalThis as unknown as Record<string, unknown>;
let page: EventTarget;
let frees: number[];
let gone: AbortController;
let presses: Presses;

beforeEach(() => {
  page = globals["window"] = new EventTarget();
  globals["KeyboardEvent"] = KeyPress;
  frees = [];
  gone = new AbortController();
  presses = new Presses((now) => frees.push(now), gone.signal);
});
afterEach(() => { gone.abort(); });

const happens = (type: string, timeStamp: number, fields: object = {}): boolean =>
  page.dispatchEvent(new PageEvent(type, { timeStamp, ...fields }));
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
