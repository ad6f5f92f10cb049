import { Dialog, MainAreaWidget, showDialog, ToolbarButton } from "@jupyterlab/apputils";
import { CodeEditor, CodeEditorWrapper, type IEditorServices } from "@jupyterlab/codeeditor";
import type { TranslationBundle } from "@jupyterlab/translation";
import type { Message } from "@lumino/messaging";

import type { EditedText } from "./edited-text";

const DIRTY = "jp-mod-dirty";

/** A tab with an editor for a text that belongs elsewhere: what is saved goes back there. */
export class FullEditor extends MainAreaWidget<CodeEditorWrapper> {
  readonly #edited: EditedText;
  readonly #words: TranslationBundle;

  constructor(edited: EditedText, services: IEditorServices, words: TranslationBundle) {
    const model = new CodeEditor.Model({ mimeType: edited.mimeType });
    model.sharedModel.setSource(edited.text);
    super({ content: new CodeEditorWrapper({ factory: services.factoryService.newDocumentEditor, model }) });
    this.#edited = edited;
    this.#words = words;
    this.title.label = edited.title;
    this.title.closable = true;
    this.addClass("vibe-full-editor");
    this.toolbar.addItem("save", new ToolbarButton({ label: words.__("Save"), onClick: () => { this.save(); } }));
    model.sharedModel.changed.connect(() => { this.title.className = DIRTY; });
  }

  /** Give the text back to where it belongs. */
  save(): void {
    if (this.#edited.save(this.content.model.sharedModel.getSource())) {
      this.title.className = "";
    } else {
      void showDialog({
        title: this.#words.__("There is no place for this text any more"),
        body: this.#words.__("The cell or the card was removed. Copy the text before you close this tab."),
        buttons: [Dialog.okButton()],
      });
    }
  }

  protected override onCloseRequest(message: Message): void {
    if (this.title.className === DIRTY) {
      void this.#closeIfSure(message);
    } else {
      super.onCloseRequest(message);
      this.dispose();
    }
  }

  async #closeIfSure(message: Message): Promise<void> {
    const { button } = await showDialog({
      title: this.#words.__("Close without saving?"),
      body: this.#words.__("What you changed in %1 is not saved.", this.#edited.title),
      buttons: [Dialog.cancelButton(), Dialog.warnButton({ label: this.#words.__("Discard") })],
    });
    if (button.accept) {
      super.onCloseRequest(message);
      this.dispose();
    }
  }
}
