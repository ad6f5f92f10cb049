/** What a run view asks of the page around it: is there a full editor, and open it. Both are answered by `preventDefault`. */
export const HAS_EDITOR = "vibe-has-full-editor";
export const OPEN_EDITOR = "vibe-open-full-editor";

/** A text that is opened in a full editor. */
export interface EditedText {
  title: string;
  text: string;
  mimeType: string;
  /** Take the text back; false where its place is gone. */
  save: (text: string) => boolean;
}
