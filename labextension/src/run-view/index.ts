/**
 * The live view of one run, as an anywidget front end.
 *
 * It shows the parts the kernel sends and says what the user decides; it holds no state of the run, so a second
 * view, or one redrawn, is whole after the kernel's next snapshot.
 */
import type { RenderProps } from "@anywidget/types";

import { Announcer } from "./announcer";
import { Card } from "./card";
import { CellLinks } from "./cell-links";
import { Clock } from "./clock";
import { CodeKeeper } from "./code-keeper";
import { Controls } from "./controls";
import styles from "../../style/run-view.css";
import { FocusKeeper, focusFoot, focusedIn, tellCards } from "./focus";
import { FullEditorOpener } from "./full-editor";
import { Gate } from "./gate";
import { hearAnyway } from "./hearing";
import { showLost } from "./lost";
import type { Command, FromPage, ToPage, ViewSnapshot } from "../contract";
import { Place } from "./place";
import { Places } from "./places";
import { Questions } from "./questions";
import { Reviews } from "./review";
import { watchScrollers } from "./scrollers";
import { View } from "./view";

type Model = RenderProps["model"];

/** Where the page shows the static form of the run, the view is drawn over it, without any output of its own. */
function initialize({ model }: { model: Model }): () => void {
  const gone = new AbortController();
  let latest: ViewSnapshot | null = null;
  const places = new Places({
    id: model.get("view_id") as string,
    ask: () => { model.send({ type: "alive" } satisfies FromPage); },
    lost: () => { model.send({ type: "gone" } satisfies FromPage); },
    draw: (host, shadow, before) => draw(model, host, shadow, before, latest),
  }, gone);
  const listen = (message: ToPage): void => {
    if (message.type === "snapshot") {
      latest = message;
      places.cover();
    } else if (message.type === "patches" && message.patches.some(({ kind }) => kind === "step")) {
      queueMicrotask(() => { places.look(); }); // when the view shows it
    }
  };
  model.on("msg:custom", listen);
  gone.signal.addEventListener("abort", () => { model.off("msg:custom", listen); });
  model.send({ type: "loaded" } satisfies FromPage);
  places.look();
  void hearAnyway(model, () => { model.send({ type: "alive" } satisfies FromPage); });
  return () => { gone.abort(); };
}

/** A page that loads the view only to draw a widget. */
function render({ model, el }: { model: Model; el: HTMLElement }): () => void {
  const host = document.createElement("div");
  el.append(host);
  const end = draw(model, host, host.attachShadow({ mode: "open" }), null, null);
  return () => {
    host.remove();
    end();
  };
}

/**
 * Draw the run into a shadow tree, in front of one of its elements; gives what takes it away again.
 *
 * @param host what stands in the page for the view.
 * @param first what it shows at first; null to ask the kernel for it.
 */
function draw(
  model: Model, host: HTMLElement, shadow: ShadowRoot, before: Element | null, first: ViewSnapshot | null,
): () => void {
  const root = makeRoot(shadow, before);
  const gone = new AbortController(); // everything that listens, observes or waits for the view ends with it
  const { signal } = gone;
  host.classList.add("vibe-run-host");
  const view = new View(root);
  const focus = new FocusKeeper(host, root, signal);
  const decide = (command: Command): void => { model.send({ type: "command", command } satisfies FromPage); };
  const gate = new Gate(root, signal);
  new Reviews(root, gate, decide, signal);
  const controls = new Controls(host, root, gate, decide, signal), announcer = new Announcer(root), place = new Place(host, root);
  const refreshed = [
    controls, new FullEditorOpener(host, root), new CodeKeeper(host, root, signal),
    new Questions(root, gate, decide, signal), new Clock(root, signal), new CellLinks(host, root, signal), announcer,
  ];
  watchScrollers(root, signal);
  let whole = false; // patches before the first snapshot belong to a view that others already show
  const receive = (message: ToPage): void => {
    if (message.type === "over") {
      place.hold();
      announcer.end(message.words);
      controls.end();
      return;
    }
    const hadFocus = focusedIn(root) !== null;
    place.note();
    gate.note();
    if (message.type === "snapshot") {
      whole = true;
      view.show(message.parts);
    } else if (whole) {
      message.patches.forEach((patch) => { view.apply(patch); });
    }
    refreshed.forEach((one) => { one.refresh(); });
    if (hadFocus && focusedIn(root) === null) {
      focusFoot(root);
    }
    place.follow();
    gate.refresh();
    tellCards();
  };
  model.on("msg:custom", receive);
  heed(host, root, gate, signal);
  if (first === null) {
    model.send({ type: "alive" } satisfies FromPage);
  } else {
    receive(first);
  }
  return () => {
    model.off("msg:custom", receive);
    gone.abort();
    host.classList.remove("vibe-run-host");
    root.remove();
    focus.release();
    place.release();
    tellCards();
  };
}

/** Hear the extension: a card is to have the focus, or the kernel is gone. */
function heed(host: HTMLElement, root: HTMLElement, gate: Gate, signal: AbortSignal): void {
  host.addEventListener("vibe-focus-card", ({ detail }: CustomEventInit<string>) => { focusCard(root, detail); }, { signal });
  host.addEventListener("vibe-lost", ({ detail }: CustomEventInit<string>) => {
    showLost(root, detail !== "dead" && detail !== "terminating");
    gate.refresh();
  }, { signal });
}

/** Give the focus to a card, by the id of its approval, its questions or its review. */
function focusCard(root: HTMLElement, id = ""): void {
  const name = CSS.escape(id);
  const names = ["approval", "question", "review"].map((kind) => `[data-vibe-${kind}="${name}"]`);
  const element = root.querySelector<HTMLElement>(names.join(", "));
  if (element !== null) {
    new Card(element).start.focus(); // any script may ask for it: a press of the user's explains it, or nothing does
    element.scrollIntoView({ block: "nearest" });
  }
}

const sheet = new CSSStyleSheet();
sheet.replaceSync(styles);

/**
 * The whole view is in an open shadow root: no style of the page hides a line of it, moves a button or paints one that
 * looks like ours. Colours and fonts come through as custom properties, which are inherited; so do the words, for
 * screen readers and for tests. It is all of it, and not the cards alone, since a step or the foot that lies could lead
 * to a wrong answer as well, and one tree keeps focus and keys simple.
 */
function makeRoot(shadow: ShadowRoot, before: Element | null): HTMLElement {
  const root = document.createElement("div");
  root.className = "vibe-run";
  root.setAttribute("role", "region");
  root.setAttribute("aria-label", "Vibe run");
  shadow.adoptedStyleSheets = [sheet];
  shadow.insertBefore(root, before);
  return root;
}

export default { initialize, render };
