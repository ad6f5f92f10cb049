type Drawing = HTMLCanvasElement | SVGSVGElement;

const SMALLEST = 40; // px of a side; what is smaller is an icon
const HEAVIEST = 8_000_000; // characters of one drawing's markup
const PREFIX = "data:image/png;base64,";

/**
 * A picture of what the canvases and drawings inside a node show, in base64; null where they show nothing, or where they
 * may not be read. Nothing is fetched for it: a drawing that is made an image reaches no other file.
 */
export async function pictureOf(node: HTMLElement, side: number): Promise<string | null> {
  const parts = drawingsIn(node).map((part) => ({ part, box: boxOf(part) })).filter(({ box }) => isShown(box));
  if (parts.length === 0) {
    return null;
  }
  const left = Math.min(...parts.map(({ box }) => box.left));
  const top = Math.min(...parts.map(({ box }) => box.top));
  const width = Math.max(...parts.map(({ box }) => box.right)) - left;
  const height = Math.max(...parts.map(({ box }) => box.bottom)) - top;
  const scale = Math.min(1, side / Math.max(width, height));
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, Math.round(width * scale));
  canvas.height = Math.max(1, Math.round(height * scale));
  const context = canvas.getContext("2d", { willReadFrequently: true });
  if (context === null) {
    return null;
  }
  context.fillStyle = backgroundOf(node);
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.scale(scale, scale);
  for (const { part, box } of parts) {
    const image = part instanceof HTMLCanvasElement ? part : await imageOf(part, box);
    if (image === null) {
      return null;
    }
    context.drawImage(image, box.left - left, box.top - top, box.width, box.height);
  }
  // Throws where a canvas holds an image of another site.
  return isPlain(context) ? null : canvas.toDataURL("image/png").slice(PREFIX.length);
}

/** Also those in shadow trees, in the order in which they cover each other. */
function drawingsIn(root: ParentNode): Drawing[] {
  const found: Drawing[] = [];
  for (const one of root.querySelectorAll("*")) {
    if (one instanceof HTMLCanvasElement || (one instanceof SVGSVGElement && one.ownerSVGElement === null)) {
      found.push(one);
    }
    if (one.shadowRoot !== null) {
      found.push(...drawingsIn(one.shadowRoot));
    }
  }
  return found;
}

/** Where a drawing stands; a cell that is not in the page has drawings of a size and no place. */
function boxOf(part: Drawing): DOMRect {
  if (part.isConnected) {
    return part.getBoundingClientRect();
  }
  return part instanceof HTMLCanvasElement
    ? new DOMRect(0, 0, part.width / devicePixelRatio, part.height / devicePixelRatio)
    : new DOMRect(0, 0, Number(part.getAttribute("width")), Number(part.getAttribute("height")));
}

function isShown({ width, height }: DOMRect): boolean {
  return width >= SMALLEST && height >= SMALLEST;
}

async function imageOf(drawing: SVGSVGElement, box: DOMRect): Promise<HTMLImageElement | null> {
  const copy = drawing.cloneNode(true) as SVGSVGElement;
  copy.setAttribute("width", `${box.width}`);
  copy.setAttribute("height", `${box.height}`);
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  const markup = new XMLSerializer().serializeToString(copy);
  if (markup.length > HEAVIEST) {
    return null;
  }
  const image = new Image();
  return new Promise((resolve) => {
    image.onload = () => { resolve(image); };
    image.onerror = () => { resolve(null); };
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(markup)}`;
  });
}

/** What is seen behind a drawing that has no background of its own. */
function backgroundOf(node: HTMLElement): string {
  for (let one: HTMLElement | null = node; one !== null; one = one.parentElement) {
    const color = getComputedStyle(one).backgroundColor;
    if (color !== "" && color !== "transparent" && !/, 0\)$/.test(color)) {
      return color;
    }
  }
  return "white";
}

/** Whether all of it has one color: nothing is drawn yet. */
function isPlain(context: CanvasRenderingContext2D): boolean {
  const { data } = context.getImageData(0, 0, context.canvas.width, context.canvas.height);
  const pixels = new Uint32Array(data.buffer);
  return pixels.every((pixel) => pixel === pixels[0]);
}
