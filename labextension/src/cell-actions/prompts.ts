/** What is asked of the agent about a cell. The prompt's own cell stands right below that cell. */

export const MAGIC = "%%vibe";
const PROMPT = /^\s*%%vibe(?=\s|$)/;

export type Request = "fix" | "explain" | "test" | "document";

/** Whether a cell of this source asks the agent. */
export function isPrompt(source: string): boolean {
  return PROMPT.test(source);
}

/** The source of a cell that asks this. */
export function promptSource(prompt: string): string {
  return `${MAGIC}\n${prompt}`;
}

/** How a prompt names the cell above it: by its number, which a reader sees too, where it has one. */
export function nameOf(number: number | null): string {
  return number === null ? "the cell above" : `@[${number}], the cell above`;
}

/** The prompt behind a button or an entry of a menu. */
export function promptFor(request: Request, number: number | null): string {
  const cell = nameOf(number);
  switch (request) {
    case "fix":
      return `Fix ${cell}: find out why it fails, change it there, and run it again.`;
    case "explain":
      return `Explain ${cell}.`;
    case "test":
      return `Add a cell with tests of ${cell}, and run it.`;
    case "document":
      return `Document ${cell}: add docstrings and the comments that it needs, and leave what it does unchanged.`;
  }
}
