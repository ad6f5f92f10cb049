/** Which card comes after the one that has the focus, or before it; around the end the first one again. */
export function neighbour(cards: readonly string[], current: string | null, step: 1 | -1): string | null {
  if (cards.length === 0) {
    return null;
  }
  const at = current === null ? -1 : cards.indexOf(current);
  if (at < 0) {
    return (step === 1 ? cards[0] : cards[cards.length - 1]) ?? null;
  }
  return cards[(at + step + cards.length) % cards.length] ?? null;
}

const MARK = /^● \(\d+\) /;

/** The title of the page while so many cards wait unseen; its own title for none. */
export function badged(title: string, waiting: number): string {
  const plain = title.replace(MARK, "");
  return waiting === 0 ? plain : `● (${String(waiting)}) ${plain}`;
}
