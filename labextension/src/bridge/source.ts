import { sha256 } from "./sha256";

/** Eight hex digits that stand for exactly this source. */
export function hashOf(source: string): string {
  return sha256(source).slice(0, 8);
}

/** The smallest replacement that turns one text into the other, so that carets elsewhere in it stay. */
export function difference(from: string, to: string): { start: number; end: number; text: string } {
  const shorter = Math.min(from.length, to.length);
  let start = 0;
  while (start < shorter && from[start] === to[start]) {
    start++;
  }
  start -= splitsPair(from, start) || splitsPair(to, start) ? 1 : 0;
  let tail = 0;
  while (tail < shorter - start && from[from.length - 1 - tail] === to[to.length - 1 - tail]) {
    tail++;
  }
  tail -= splitsPair(from, from.length - tail) || splitsPair(to, to.length - tail) ? 1 : 0;
  return { start, end: from.length - tail, text: to.slice(start, to.length - tail) };
}

/** Whether this place lies inside a surrogate pair. */
export function splitsPair(text: string, place: number): boolean {
  return isIn(text.charCodeAt(place - 1), 0xd800) && isIn(text.charCodeAt(place), 0xdc00);
}

function isIn(unit: number, half: number): boolean {
  return unit >= half && unit < half + 0x400;
}
