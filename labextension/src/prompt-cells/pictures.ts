import type { Contents } from "@jupyterlab/services";
import { EditorView } from "@codemirror/view";
import type { Extension } from "@codemirror/state";

import { isPromptText } from "./prose";

const PASTED = "pasted";
const SUFFIXES: ReadonlyMap<string, string> = new Map([
  ["image/png", ".png"], ["image/jpeg", ".jpg"], ["image/gif", ".gif"], ["image/webp", ".webp"],
]);

/** Puts a picture into the folder of the notebook; its name there. */
export type KeepPicture = (picture: File) => Promise<string>;

/** Pictures that are pasted into a prompt, or dropped on it, are kept beside the notebook and mentioned where the caret is. */
export function takesPictures(keep: KeepPicture): Extension {
  const take = (view: EditorView, data: DataTransfer | null, at: number): boolean => {
    const pictures = Array.from(data?.files ?? []).filter(({ type }) => SUFFIXES.has(type));
    if (pictures.length === 0 || !isPromptText(view.state.doc) || view.state.readOnly) {
      return false;
    }
    void mention(view, pictures, keep, at);
    return true;
  };
  return EditorView.domEventHandlers({
    paste: (event, view) => take(view, event.clipboardData, view.state.selection.main.head),
    drop: (event, view) => {
      const at = view.posAtCoords({ x: event.clientX, y: event.clientY }) ?? view.state.doc.length;
      const isTaken = take(view, event.dataTransfer, at);
      if (isTaken) {
        event.stopPropagation();
      }
      return isTaken;
    },
  });
}

async function mention(view: EditorView, pictures: readonly File[], keep: KeepPicture, at: number): Promise<void> {
  const names: string[] = [];
  for (const picture of pictures) {
    names.push(await keep(picture));
  }
  const place = Math.min(at, view.state.doc.length); // the user may have typed meanwhile
  const isBehindWord = place > 0 && /\S/.test(view.state.sliceDoc(place - 1, place));
  const text = `${isBehindWord ? " " : ""}${names.map((name) => `@${name} `).join("")}`;
  view.dispatch({ changes: { from: place, insert: text }, selection: { anchor: place + text.length } });
}

/** Keeps pictures in one folder; each gets a name that is free there, and that a mention can hold. */
export async function keepPicture(contents: Contents.IManager, folder: string, picture: File): Promise<string> {
  const listing = await contents.get(folder, { content: true });
  const taken = new Set((listing.content as Contents.IModel[]).map(({ name }) => name));
  const name = freeName(picture, taken);
  const bytes = new Uint8Array(await picture.arrayBuffer());
  let text = "";
  for (const byte of bytes) {
    text += String.fromCharCode(byte);
  }
  const path = folder === "" ? name : `${folder}/${name}`;
  await contents.save(path, { type: "file", format: "base64", name, path, content: btoa(text) });
  return name;
}

/** Browsers call each pasted picture image.png. */
export function freeName({ name, type }: { name: string; type: string }, taken: ReadonlySet<string>): string {
  const own = name.replace(/\.[^.]*$/, "").replace(/[^\p{L}\p{N}_-]+/gu, "-").replace(/^-+|-+$/g, "");
  const stem = own === "" || own === "image" ? PASTED : own;
  const suffix = SUFFIXES.get(type) ?? "";
  let free = `${stem}${suffix}`;
  for (let number = 2; taken.has(free); number++) {
    free = `${stem}-${number}${suffix}`;
  }
  return free;
}
