/** Lines that were taken out in front of a line of the new text. */
export interface RemovedLines {
  /** Number of that line, from 1; one more than there are for the end. */
  before: number;
  lines: string[];
}

/** What makes one text out of another, by lines. */
export interface LineDiff {
  /** Numbers of the new lines, from 1. */
  added: number[];
  removed: RemovedLines[];
}

const MOST_PAIRS = 4_000_000; // lines of one text times lines of the other; more are shown as all replaced

export function diffLines(before: string, after: string): LineDiff {
  const [old, now] = [linesOf(before), linesOf(after)];
  const most = Math.min(old.length, now.length);
  let start = 0;
  while (start < most && old[start] === now[start]) {
    start++;
  }
  let tail = 0;
  while (tail < most - start && old.at(-1 - tail) === now.at(-1 - tail)) {
    tail++;
  }
  const [left, right] = [old.slice(start, old.length - tail), now.slice(start, now.length - tail)];
  const diff: LineDiff = { added: [], removed: [] };
  let [at, gone] = [0, [] as string[]];
  const keepUpTo = (oldEnd: number, newEnd: number, oldStart: number): void => {
    gone.push(...left.slice(oldStart, oldEnd));
    if (gone.length > 0) {
      diff.removed.push({ before: start + at + 1, lines: gone });
      gone = [];
    }
    for (; at < newEnd; at++) {
      diff.added.push(start + at + 1);
    }
  };
  let oldStart = 0;
  for (const [oldAt, newAt] of commonLines(left, right)) {
    keepUpTo(oldAt, newAt, oldStart);
    oldStart = oldAt + 1;
    at = newAt + 1;
  }
  keepUpTo(left.length, right.length, oldStart);
  return diff;
}

function linesOf(source: string): string[] {
  return source === "" ? [] : source.split("\n");
}

/** Places of the lines in the longest sequence that both have. */
function commonLines(left: readonly string[], right: readonly string[]): [number, number][] {
  if (left.length * right.length > MOST_PAIRS) {
    return [];
  }
  const width = right.length + 1;
  const longest = new Uint32Array((left.length + 1) * width); // of the rest of both, from these places on
  const rest = (one: number, other: number): number => longest[one * width + other] ?? 0;
  for (let one = left.length - 1; one >= 0; one--) {
    for (let other = right.length - 1; other >= 0; other--) {
      longest[one * width + other] = left[one] === right[other]
        ? rest(one + 1, other + 1) + 1
        : Math.max(rest(one + 1, other), rest(one, other + 1));
    }
  }
  const found: [number, number][] = [];
  for (let [one, other] = [0, 0]; one < left.length && other < right.length;) {
    if (left[one] === right[other]) {
      found.push([one++, other++]);
    } else if (rest(one + 1, other) >= rest(one, other + 1)) {
      one++;
    } else {
      other++;
    }
  }
  return found;
}
