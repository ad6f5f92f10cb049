/**
 * SHA-256 (FIPS 180-4), synchronous: between comparing a source and changing it no key may be typed. The browser's own
 * is asynchronous, and missing on pages that come over plain http.
 */
export function sha256(text: string): string {
  const words = padded(new TextEncoder().encode(text));
  const state = fractions(2, 8);
  const schedule = new Uint32Array(64);
  for (let offset = 0; offset < words.length; offset += 16) {
    schedule.set(words.subarray(offset, offset + 16));
    compress(state, schedule);
  }
  return Array.from(state, (word) => word.toString(16).padStart(8, "0")).join("");
}

/** The bytes as big-endian words: a bit of one, zeros, and the length in bits. */
function padded(bytes: Uint8Array): Uint32Array {
  const length = ((bytes.length + 8) >> 6) * 16 + 16;
  const view = new DataView(new ArrayBuffer(length * 4));
  new Uint8Array(view.buffer).set(bytes);
  view.setUint8(bytes.length, 0x80);
  view.setUint32(length * 4 - 8, Math.floor(bytes.length / 0x20000000));
  view.setUint32(length * 4 - 4, bytes.length << 3);
  return Uint32Array.from({ length }, (_, at) => view.getUint32(at * 4));
}

function compress(state: Uint32Array, w: Uint32Array): void {
  for (let t = 16; t < 64; t++) {
    const [early, late] = [at(w, t - 15), at(w, t - 2)];
    const small0 = rotate(early, 7) ^ rotate(early, 18) ^ (early >>> 3);
    const small1 = rotate(late, 17) ^ rotate(late, 19) ^ (late >>> 10);
    w[t] = at(w, t - 16) + small0 + at(w, t - 7) + small1;
  }
  let [a, b, c, d, e, f, g, h] = Array.from(state) as [number, number, number, number, number, number, number, number];
  for (let t = 0; t < 64; t++) {
    const big1 = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25);
    const first = (h + big1 + ((e & f) ^ (~e & g)) + at(ROUNDS, t) + at(w, t)) | 0;
    const big0 = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22);
    const second = (big0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    [h, g, f, e, d, c, b, a] = [g, f, e, (d + first) | 0, c, b, a, (first + second) | 0];
  }
  [a, b, c, d, e, f, g, h].forEach((word, position) => {
    state[position] = at(state, position) + word;
  });
}

function rotate(word: number, by: number): number {
  return (word >>> by) | (word << (32 - by));
}

function at(words: Uint32Array, position: number): number {
  return words[position] ?? 0;
}

/** The first 32 bits of the fractional parts of the roots of the first primes: the constants of the standard. */
function fractions(root: 2 | 3, count: number): Uint32Array {
  const found: number[] = [];
  for (let candidate = 2; found.length < count; candidate++) {
    if (isPrime(candidate)) {
      const power = root === 2 ? Math.sqrt(candidate) : Math.cbrt(candidate);
      found.push(Math.floor((power % 1) * 2 ** 32));
    }
  }
  return Uint32Array.from(found);
}

function isPrime(candidate: number): boolean {
  for (let divisor = 2; divisor * divisor <= candidate; divisor++) {
    if (candidate % divisor === 0) {
      return false;
    }
  }
  return true;
}

const ROUNDS = fractions(3, 64);
