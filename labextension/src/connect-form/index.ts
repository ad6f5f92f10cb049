/** The form that connects a model, as an anywidget front end. What is typed is kept in its fields alone. */
import type { RenderProps } from "@anywidget/types";

import styles from "../../style/connect-form.css";
import type { FromForm, ToForm } from "../contract";
import { FocusKeeper } from "../run-view/focus";
import { hearAnyway } from "../run-view/hearing";
import { ConnectForm } from "./form";

type Props = Pick<RenderProps, "model" | "el">;

const LOST_AFTER = 500; // ms in which a cell that was moved draws its form again

const sheet = new CSSStyleSheet();
sheet.replaceSync(styles);

/** One form. The prompt waits for it, so where the user cleared its output, or deleted its cell, it is cancelled. */
function widget(): { render: (props: Props) => () => void } {
  let shown = 0;
  return {
    render: (props) => {
      const end = render(props);
      shown++;
      return () => {
        end();
        shown--;
        setTimeout(() => {
          if (shown === 0) {
            props.model.send({ type: "cancel" } satisfies FromForm);
          }
        }, LOST_AFTER);
      };
    },
  };
}

function render({ model, el }: Props): () => void {
  const host = document.createElement("div");
  const root = document.createElement("div");
  const gone = new AbortController();
  host.className = "vibe-run-host";
  host.setAttribute("data-lm-suppress-shortcuts", "");
  root.className = "vibe-run vibe-connect";
  root.setAttribute("role", "group");
  root.setAttribute("aria-label", "Connect a model");
  root.dataset.vibeConnect = "form";
  const shadow = host.attachShadow({ mode: "open" });
  shadow.adoptedStyleSheets = [sheet];
  shadow.append(root);
  el.append(host);
  const focus = new FocusKeeper(host, root, gone.signal);
  const tellCards = (): void => { document.dispatchEvent(new CustomEvent("vibe-cards")); };
  const form = new ConnectForm(root, (message: FromForm) => { model.send(message); });
  let isAwaited = false; // keys are to go to it, as soon as there is something to fill in
  const lead = (): void => { isAwaited = !form.focus(); };
  const receive = (message: ToForm): void => {
    form.receive(message);
    if (isAwaited) {
      lead();
    }
    if (message.type === "form") {
      tellCards(); // not when it is rendered: then `el` may not be in the notebook yet
    }
  };
  model.on("msg:custom", receive);
  host.addEventListener("vibe-focus-card", lead, { signal: gone.signal });
  host.addEventListener("vibe-lost", () => {
    form.lose();
    root.dataset.sent = ""; // waits for nobody: no chip, no badge, no key leads to it
    tellCards();
  }, { signal: gone.signal });
  model.send({ type: "alive" });
  void hearAnyway(model, () => { model.send({ type: "alive" }); });
  return () => {
    model.off("msg:custom", receive);
    gone.abort();
    host.remove();
    focus.release();
    tellCards();
  };
}

export default widget;
