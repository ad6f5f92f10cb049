/**
 * The live view of one run, as an anywidget front end.
 *
 * It shows the parts the kernel sends and says what the person decides; it holds no state of the run, so a second
 * view, or one drawn anew, is whole after the kernel's next snapshot.
 */
import type { RenderProps } from "@anywidget/types";

import { Announcer } from "./announcer";
import { Clock } from "./clock";
import { Controls } from "./controls";
import { FocusKeeper, focusFoot } from "./focus";
import { showLost } from "./lost";
import type { Command, FromKernel, ToKernel } from "./messages";
import { Place } from "./place";
import { Questions } from "./questions";
import { Scrollers } from "./scrollers";
import { View } from "./view";

function render({ model, el }: Pick<RenderProps, "model" | "el">): () => void {
  const root = makeRoot(el);
  const tell = (message: ToKernel): void => {
    model.send(message);
  };
  const view = new View(root);
  const focus = new FocusKeeper(root);
  const clock = new Clock(root);
  const decide = (command: Command): void => {
    tell({ type: "command", command });
  };
  const controls = new Controls(root, decide);
  const questions = new Questions(root, decide);
  const announcer = new Announcer(root);
  const place = new Place(root);
  const scrollers = new Scrollers(root);

  let whole = false; // patches before the first snapshot belong to a view that others already show
  const receive = (message: FromKernel): void => {
    if (message.type === "over") {
      place.hold();
      announcer.end(message.words);
      return;
    }
    const hadFocus = root.contains(document.activeElement);
    place.note();
    if (message.type === "snapshot") {
      whole = true;
      view.show(message.parts);
    } else if (whole) {
      message.patches.forEach((patch) => {
        view.apply(patch);
      });
    }
    controls.refresh();
    questions.refresh();
    clock.refresh();
    announcer.refresh();
    if (hadFocus && !root.contains(document.activeElement)) {
      focusFoot(root);
    }
    place.follow();
  };
  model.on("msg:custom", receive);
  // From the extension, which hears of a kernel that is restarted; no message comes from it any more.
  root.addEventListener("vibe-lost", () => {
    showLost(root);
  });
  tell({ type: "alive" });

  return () => {
    model.off("msg:custom", receive);
    clock.stop();
    controls.dispose();
    scrollers.dispose();
    root.remove();
    focus.release();
    place.release();
  };
}

function makeRoot(place: HTMLElement): HTMLElement {
  const root = document.createElement("div");
  root.className = "vibe-run";
  root.setAttribute("role", "group");
  root.setAttribute("aria-label", "Agent run");
  place.append(root);
  return root;
}

export default { render };
