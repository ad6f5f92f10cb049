/**
 * The live view of one run, as an anywidget front end.
 *
 * It shows the parts the kernel sends and says what the person decides; it holds no state of the run, so a second
 * view, or one drawn anew, is whole after the kernel's next snapshot.
 */
import type { RenderProps } from "@anywidget/types";

import { Clock } from "./clock";
import { Controls } from "./controls";
import { FocusKeeper } from "./focus";
import { showLost } from "./lost";
import type { Command, FromKernel, ToKernel } from "./messages";
import { Questions } from "./questions";
import { View } from "./view";

function render({ model, el }: Pick<RenderProps, "model" | "el">): () => void {
  const root = document.createElement("div");
  root.className = "vibe-run";
  root.setAttribute("role", "group");
  root.setAttribute("aria-label", "Agent run");
  el.append(root);

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

  let whole = false; // patches before the first snapshot belong to a view that others already show
  const receive = (message: FromKernel): void => {
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
    root.remove();
    focus.release();
  };
}

export default { render };
