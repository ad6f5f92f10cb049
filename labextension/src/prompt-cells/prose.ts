import { type Extension, Prec, type Range, type Text } from "@codemirror/state";
import { Decoration, type DecorationSet, EditorView, ViewPlugin, type ViewUpdate } from "@codemirror/view";

import { isPrompt, MAGIC } from "../cell-actions/prompts";
import { mentionsIn } from "./mentions";

const FENCE = /^\s*(?:```|~~~)/;
const MAGIC_LINE = Decoration.line({ class: "vibe-prompt-magic" });
const PROSE_LINE = Decoration.line({ class: "vibe-prompt-prose" });
const CODE_LINE = Decoration.line({ class: "vibe-prompt-code", attributes: { spellcheck: "false" } });
const MAGIC_WORD = Decoration.mark({ class: "vibe-prompt-word" });
const CODE_FONT = { spellcheck: "false" };

/** Shows a `%%vibe` cell as prose: code font for its first line and its fenced code, chips for what it names. */
export const prose: Extension = [
  Prec.high(EditorView.contentAttributes.of((view) =>
    isPromptText(view.state.doc) ? { spellcheck: "true", autocorrect: "on", class: "cm-lineWrapping" } : null)),
  ViewPlugin.fromClass(
    class {
      shown: DecorationSet;

      constructor(view: EditorView) {
        this.shown = decorate(view.state.doc);
      }

      update({ docChanged, state }: ViewUpdate): void {
        if (docChanged) {
          this.shown = decorate(state.doc);
        }
      }
    },
    { decorations: ({ shown }) => shown },
  ),
];

/** Whether the text of an editor asks the agent. */
export function isPromptText(doc: Text): boolean {
  return isPrompt(doc.sliceString(0, doc.line(1).to)) || (doc.line(1).text.trim() === "" && isPrompt(doc.toString()));
}

/** A prompt is short: all of it is decorated, also what is out of sight. */
function decorate(doc: Text): DecorationSet {
  if (!isPromptText(doc)) {
    return Decoration.none;
  }
  const made: Range<Decoration>[] = [];
  let isPastMagic = false;
  let isInFence = false;
  for (let number = 1; number <= doc.lines; number++) {
    const { from, text } = doc.line(number);
    const fences = FENCE.test(text);
    if (!isPastMagic) {
      made.push(MAGIC_LINE.range(from));
      const start = text.indexOf(MAGIC);
      isPastMagic = start >= 0;
      if (isPastMagic) {
        made.push(MAGIC_WORD.range(from + start, from + start + MAGIC.length));
      }
    } else {
      made.push((fences || isInFence ? CODE_LINE : PROSE_LINE).range(from));
      if (!fences && !isInFence) {
        made.push(...chips(text, from));
      }
      isInFence = isInFence !== fences;
    }
  }
  return Decoration.set(made, true);
}

function chips(line: string, start: number): Range<Decoration>[] {
  return mentionsIn(line).map(({ from, to, kind }) =>
    Decoration.mark({ class: `vibe-mention vibe-mention-${kind}`, attributes: CODE_FONT }).range(start + from, start + to));
}
