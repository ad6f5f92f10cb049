import { StateEffect, StateField, type Range, type Text } from "@codemirror/state";
import { Decoration, type DecorationSet, EditorView, WidgetType } from "@codemirror/view";
import type { Cell } from "@jupyterlab/cells";
import { CodeMirrorEditor } from "@jupyterlab/codemirror";
import type { TranslationBundle } from "@jupyterlab/translation";

import { diffLines } from "./line-diff";

const ADDED_LINE = Decoration.line({ class: "vibe-added-line" });

/** Against which text an editor shows what changed; null for none. */
const compare = StateEffect.define<Compared | null>();

/** A text from before, and what lines are called that are gone since. */
interface Compared {
  before: string;
  words: TranslationBundle;
}

interface Shown {
  before: string | null;
  lines: DecorationSet;
}

/** Marks the lines of an editor that are new, and shows those that are gone where they stood. */
export const changedLines = StateField.define<Shown>({
  create: () => ({ before: null, lines: Decoration.none }),
  update: ({ before, lines }, { changes, effects, state }) => {
    for (const effect of effects) {
      if (effect.is(compare)) {
        const { value } = effect;
        return { before: value?.before ?? null, lines: value === null ? Decoration.none : decorate(value, state.doc) };
      }
    }
    return { before, lines: lines.map(changes) };
  },
  provide: (field) => [
    EditorView.decorations.from(field, ({ lines }) => lines),
    EditorView.editorAttributes.from(field, ({ before }) => before === null ? {} : { class: "vibe-compared" }),
  ],
});

/** Show in a cell what changed since it had this source; null shows nothing any more. */
export function showChangedLines({ editor }: Cell, before: string | null, words: TranslationBundle): void {
  if (!(editor instanceof CodeMirrorEditor)) {
    return; // not drawn yet
  }
  const shown = editor.state.field(changedLines, false);
  if (shown !== undefined && shown.before !== before) {
    editor.editor.dispatch({ effects: compare.of(before === null ? null : { before, words }) });
  }
}

function decorate({ before, words }: Compared, doc: Text): DecorationSet {
  const { added, removed } = diffLines(before, doc.toString());
  const made: Range<Decoration>[] = added.map((number) => ADDED_LINE.range(doc.line(number).from));
  for (const { before: number, lines } of removed) {
    const isEnd = number > doc.lines;
    const place = isEnd ? doc.length : doc.line(number).from;
    made.push(Decoration.widget({ widget: new GhostLines(lines, words), block: true, side: isEnd ? 1 : -1 }).range(place));
  }
  return Decoration.set(made, true);
}

/** Lines that are not there any more: they can't be edited or selected. */
class GhostLines extends WidgetType {
  readonly #lines: readonly string[];
  readonly #words: TranslationBundle;

  constructor(lines: readonly string[], words: TranslationBundle) {
    super();
    this.#lines = lines;
    this.#words = words;
  }

  override toDOM(): HTMLElement {
    const box = document.createElement("div");
    box.className = "vibe-ghost-lines";
    box.setAttribute("role", "note");
    box.setAttribute("aria-label", this.#words.__("removed: %1", this.#lines.join("\n")));
    for (const text of this.#lines) {
      const line = document.createElement("div");
      line.textContent = text === "" ? "\u200b" : text; // an empty one has its height too
      box.append(line);
    }
    return box;
  }

  override ignoreEvent(): boolean {
    return true;
  }
}
