/** What a prompt names with `@`, as `vibe_jupyter/context/mention_syntax.py` reads it. */

export type MentionKind = "cell" | "variable" | "file" | "server";

export interface FoundMention {
  from: number;
  to: number;
  kind: MentionKind;
}

const BEFORE = String.raw`(?<=^|[\s(\[{*"'“„‘«])`;
const PLAIN = String.raw`[^\s@"'${"`"}()\[\]{}<>,;:!?|*’”“«»]+`;
const ADDRESS = String.raw`[A-Za-z0-9_-]{1,64}:[A-Za-z][A-Za-z0-9+.-]*:\S+`;
const MENTION = new RegExp(
  String.raw`${BEFORE}@(?:(?<server>${ADDRESS})|"(?<quoted>[^"\n]+)"|\[(?<cell>\d{1,9})\]|(?<plain>${PLAIN}))`, "gmu",
);
const SENTENCE_END = /[.…]+$/;
const VARIABLE = /^[\p{L}_][\p{L}\p{N}_]*$/u;

/** The mentions of one line. */
export function mentionsIn(line: string): FoundMention[] {
  return Array.from(line.matchAll(MENTION)).flatMap((found): FoundMention[] => {
    const groups = found.groups ?? {};
    const text = groups["plain"] === undefined ? found[0] : found[0].replace(SENTENCE_END, "");
    return text === "@" ? [] : [{ from: found.index, to: found.index + text.length, kind: kindOf(groups, text) }];
  });
}

/** As far as the words alone tell: whether a name is a variable's, only the kernel knows. */
function kindOf(groups: Record<string, string | undefined>, text: string): MentionKind {
  if (groups["server"] !== undefined) {
    return "server";
  }
  if (groups["cell"] !== undefined) {
    return "cell";
  }
  return VARIABLE.test(text.slice(1)) ? "variable" : "file";
}
