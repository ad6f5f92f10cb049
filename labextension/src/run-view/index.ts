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
import { Controls } from "./controls";
import styles from "../../style/run-view.css";
import { FocusKeeper, focusFoot, focusedIn, tellCards } from "./focus";
import { FullEditorOpener } from "./full-editor";
import { Gate } from "./gate";
import { showLost } from "./lost";
import type { Command, FromPage, ToPage } from "../contract";
import { Place } from "./place";
import { Questions } from "./questions";
import { Reviews } from "./review";
import { watchScrollers } from "./scrollers";
import { View } from "./view";

function render({ model, el }: Pick<RenderProps, "model" | "el">): () => void {
  const { host, root } = makeRoot(el);
  const gone = new AbortController(); // everything that listens, observes or waits for the view ends with it
  const { signal } = gone;
  const tell = (message: FromPage): void => { model.send(message); };
  const view = new View(root);
  const focus = new FocusKeeper(host, signal);
  const clock = new Clock(root, signal);
  const decide = (command: Command): void => { tell({ type: "command", command }); };
  const gate = new Gate(root, signal);
  const controls = new Controls(host, root, gate, decide, signal);
  const questions = new Questions(root, gate, decide, signal);
  new Reviews(root, gate, decide, signal);
  const links = new CellLinks(host, root, signal);
  const opener = new FullEditorOpener(host, root);
  const [announcer, place] = [new Announcer(root), new Place(host, root)];
  watchScrollers(root, signal);
  let whole = false; // patches before the first snapshot belong to a view that others already show
  const receive = (message: ToPage): void => {
    if (message.type === "over") {
      place.hold();
      announcer.end(message.words);
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
    [controls, opener, questions, clock, links, announcer].forEach((one) => { one.refresh(); });
    if (hadFocus && focusedIn(root) === null) {
      focusFoot(root);
    }
    place.follow();
    gate.refresh();
    tellCards();
  };
  model.on("msg:custom", receive);
  // From the extension, which hears of a kernel that is restarted; no message comes from it any more.
  host.addEventListener("vibe-focus-card", ({ detail }: CustomEventInit<string>) => { focusCard(root, detail); }, { signal });
  host.addEventListener("vibe-lost", () => { showLost(root); }, { signal });
  tell({ type: "alive" });

  return () => {
    model.off("msg:custom", receive);
    gone.abort();
    host.remove();
    focus.release();
    place.release();
    tellCards();
  };
}

/** Give the focus to a card, by the id of its approval, its questions or its review. */
function focusCard(root: HTMLElement, id = ""): void {
  const name = CSS.escape(id);
  const names = ["approval", "question", "review"].map((kind) => `[data-vibe-${kind}="${name}"]`);
  const element = root.querySelector<HTMLElement>(names.join(", "));
  if (element !== null) {
    new Card(element).focus();
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
function makeRoot(place: HTMLElement): { host: HTMLElement; root: HTMLElement } {
  const host = document.createElement("div");
  const root = document.createElement("div");
  root.className = "vibe-run";
  root.setAttribute("role", "group");
  root.setAttribute("aria-label", "Agent run");
  host.className = "vibe-run-host";
  const shadow = host.attachShadow({ mode: "open" });
  shadow.adoptedStyleSheets = [sheet];
  shadow.append(root);
  place.append(host);
  return { host, root };
}

export default { render };
