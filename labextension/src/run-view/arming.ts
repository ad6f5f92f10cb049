/**
 * When a card may be approved: a pure state machine, told what happens and when, in ms of one clock.
 *
 * A card that has just appeared, or moved, may be under a pointer that is about to click something else, or under a
 * finger that still holds a key. So it arms only after it was in sight for a while, and a press counts only if it began
 * after that. Nobody is locked out: where the page leaves a doubt, it takes longer. Denying needs none of this.
 */

/** Milliseconds that a card must be in sight. */
export const SETTLE = 500;
/** Milliseconds where something may cover it or change its look. */
export const LOOK_CLOSELY = 3000;
/** Milliseconds of doubt that change nothing once it has settled: a tooltip passes, and browsers err for a moment. */
export const PASSING = 1000;

export type Sight =
  /** Nothing of the page comes between. */
  | "clear"
  /** The button is there, but the page may cover or change part of the card. */
  | "doubtful"
  /** Out of view, covered, or made invisible. */
  | "unseen";

export type Readiness =
  /** A press approves. */
  | "armed"
  /** The button is unseen. */
  | "hidden"
  /** The end of what would run was never in sight. */
  | "unread"
  /** In clear sight, or with a focus that nobody asked for, for less than `SETTLE`. */
  | "settling"
  /** In doubtful sight for less than `LOOK_CLOSELY`. */
  | "doubtful"
  /** The pointer rests where it was before the card appeared. */
  | "resting";

export interface Press {
  /** When the button or key went down. */
  began: number;
  byKey: boolean;
}

export class Arming {
  #doubtSince: number | null = null; // until a clear sight has settled
  #clearSince: number | null = null;
  #isRead = false;
  #freedAt: number | null;
  #ledAstray = -Infinity;

  /** @param isUnderPointer whether the pointer is over the card as it appears. */
  constructor(isUnderPointer: boolean) {
    this.#freedAt = isUnderPointer ? null : -Infinity;
  }

  /** How well the card is seen from now on. A doubt that comes and goes never takes longer than one that stays. */
  see(sight: Sight, now: number): void {
    const hasSettled = this.#clearSince !== null && now >= this.#clearSince + SETTLE;
    if (sight === "unseen") {
      this.#doubtSince = this.#clearSince = null;
    } else if (sight === "clear") {
      this.#clearSince ??= now;
      this.#doubtSince = hasSettled ? null : this.#doubtSince;
    } else {
      this.#doubtSince ??= now;
      this.#clearSince = hasSettled && now < this.#doubtSince + PASSING ? this.#clearSince : null;
    }
  }

  /** It moved or changed: what is under the pointer is something else now. */
  disturb(isUnderPointer: boolean, now: number): void {
    this.#doubtSince = this.#doubtSince === null ? null : now;
    this.#clearSince = this.#clearSince === null ? null : now;
    this.#freedAt = isUnderPointer ? null : -Infinity;
  }

  /** The pointer moved, or a button of it was released. */
  free(now: number): void {
    this.#freedAt ??= now;
  }

  /** Something other than the user moved the focus to it: a key that is on its way was meant for something else. */
  leadAstray(now: number): void {
    this.#ledAstray = now;
  }

  /** The end of what would run was in sight. */
  read(): void {
    this.#isRead = true;
  }

  readiness(now: number): Readiness {
    if (this.armedAt === Infinity) {
      return "hidden";
    }
    if (!this.#isRead) {
      return "unread";
    }
    if (now < this.armedAt) {
      return this.#clearSince === null ? "doubtful" : "settling";
    }
    if (now < this.keysArmedAt) {
      return "settling";
    }
    return this.#freedAt === null ? "resting" : "armed";
  }

  /** Whether a press that ends now approves: all must have been well when it began. */
  accepts({ began, byKey }: Press): boolean {
    const wasFree = byKey || (this.#freedAt !== null && began > this.#freedAt);
    return this.#isRead && began >= (byKey ? this.keysArmedAt : this.armedAt) && wasFree;
  }

  /** When it has been in sight for long enough; never while it is not. */
  get armedAt(): number {
    return Math.min((this.#doubtSince ?? Infinity) + LOOK_CLOSELY, (this.#clearSince ?? Infinity) + SETTLE);
  }

  /** The same for keys, which go where the focus is. */
  get keysArmedAt(): number {
    return Math.max(this.armedAt, this.#ledAstray + SETTLE);
  }
}
