// Points as pixels: marks are stamped into an image, so that 100,000 of them are drawn within a frame.

// Distinguishable under the common color-vision deficiencies (after Okabe and Ito, and Tol).
const COLORS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#332288", "#56B4E9", "#882255"];
const SHAPES = ["circle", "triangle", "square", "diamond", "cap"];
const GRAY = "#aab4be", RIGHT = "#0072B2", WRONG = "#D55E00";
// From certain to doubtful; its lightness changes too.
const DOUBT_COLORS = ["#c9d0d7", "#9fb6c8", "#6a9fc4", "#3a7fb0", "#7a4f9a", "#b0308a"];
const SAMPLES = 4;

function inside(shape, x, y) {
  switch (shape) {
    case "square": return Math.abs(x) <= 0.84 && Math.abs(y) <= 0.84;
    case "triangle": return y <= 0.75 && y >= 2 * Math.abs(x) - 1.05;
    case "cap": return y >= -0.75 && -y >= 2 * Math.abs(x) - 1.05;
    case "diamond": return Math.abs(x) + Math.abs(y) <= 1.15;
    default: return x * x + y * y <= 1;
  }
}

// Covered pixels of a mark: offsets and how much of each pixel is covered, from 0 to 255.
function makeStamp(shape, radius, hollow) {
  const reach = Math.ceil(radius * 1.2), dx = [], dy = [], cover = [];
  const inner = hollow ? Math.max(0.2, 1 - Math.max(1.3, radius * 0.36) / radius) : 0;
  for (let y = -reach; y <= reach; y++) for (let x = -reach; x <= reach; x++) {
    let hits = 0;
    for (let a = 0; a < SAMPLES; a++) for (let b = 0; b < SAMPLES; b++) {
      const u = (x + (a + 0.5) / SAMPLES - 0.5) / radius, v = (y + (b + 0.5) / SAMPLES - 0.5) / radius;
      if (inside(shape, u, v) && !(hollow && inside(shape, u / inner, v / inner))) hits++;
    }
    if (hits) { dx.push(x); dy.push(y); cover.push(Math.round((255 * hits) / (SAMPLES * SAMPLES))); }
  }
  return { dx: Int16Array.from(dx), dy: Int16Array.from(dy), cover: Uint8Array.from(cover), reach };
}

function rgb(color) {
  const value = parseInt(color.slice(1), 16);
  return [(value >> 16) & 255, (value >> 8) & 255, value & 255];
}

const stamps = new Map();
function stampOf(style, radius, crisp) {
  const key = style.shape + radius + (style.hollow ? "o" : "") + (crisp ? "c" : "");
  if (!stamps.has(key)) {
    const made = makeStamp(style.shape, radius, style.hollow);
    stamps.set(key, crisp ? hardEdged(made) : made);
  }
  return stamps.get(key);
}

// The pixels that are covered by half or more, without soft edges: much faster to draw.
function hardEdged(stamp) {
  const kept = Array.from(stamp.cover.keys()).filter((s) => stamp.cover[s] >= 110);
  const pick = (values) => values.constructor.from(kept, (s) => values[s]);
  return { dx: pick(stamp.dx), dy: pick(stamp.dy), cover: new Uint8Array(kept.length).fill(255), reach: stamp.reach };
}

// Stamp items into pixels (RGBA, width x height). `px`, `py` are places in pixels.
function stampItems(pixels, width, height, items, px, py, styleOf, styles, radius, strength, crisp = false) {
  const words = new Uint32Array(pixels.buffer);
  const ready = styles.map((style) => {
    const [r, g, b] = rgb(style.color), stamp = stampOf(style, radius, crisp);
    const offsets = Int32Array.from(stamp.dx, (dx, s) => stamp.dy[s] * width + dx);
    return { stamp, offsets, color: [r, g, b], word: ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0 };
  });
  for (let k = 0; k < items.length; k++) {
    const i = items[k], x = Math.round(px[i]), y = Math.round(py[i]);
    if (!(x >= -20 && y >= -20 && x < width + 20 && y < height + 20)) continue;
    const one = ready[styleOf[i]], reach = one.stamp.reach;
    const whole = x >= reach && y >= reach && x < width - reach && y < height - reach;
    if (whole && crisp) {
      const offsets = one.offsets, word = one.word, base = y * width + x;
      for (let s = 0; s < offsets.length; s++) words[base + offsets[s]] = word;
    } else stampSoft(pixels, words, width, height, x, y, one, strength, whole);
  }
}

function stampSoft(pixels, words, width, height, x, y, one, strength, whole) {
  const { dx, dy, cover } = one.stamp, [r, g, b] = one.color;
  for (let s = 0; s < cover.length; s++) {
    const X = x + dx[s], Y = y + dy[s];
    if (!whole && (X < 0 || Y < 0 || X >= width || Y >= height)) continue;
    const place = Y * width + X, share = cover[s] * strength;
    if (share >= 250) { words[place] = one.word; continue; }
    const at = place * 4, before = pixels[at + 3], mix = before ? share / 255 : 1;
    pixels[at] += (r - pixels[at]) * mix;
    pixels[at + 1] += (g - pixels[at + 1]) * mix;
    pixels[at + 2] += (b - pixels[at + 2]) * mix;
    pixels[at + 3] = Math.max(before, share);
  }
}

// Items in the cells of a grid, to find those near a place without looking at all of them.
class Grid {
  constructor(x, y, items) {
    this.x = x; this.y = y;
    const cells = Math.max(1, Math.min(256, Math.round(Math.sqrt(items.length / 4))));
    this.cells = cells;
    this.box = limitsOf(x, y, items);
    const [x0, x1, y0, y1] = this.box;
    this.fx = cells / (x1 - x0 || 1); this.fy = cells / (y1 - y0 || 1);
    const count = new Uint32Array(cells * cells + 1), cellOf = new Uint32Array(items.length);
    for (let k = 0; k < items.length; k++) {
      const i = items[k];
      cellOf[k] = this.row(y[i]) * cells + this.column(x[i]);
      count[cellOf[k] + 1]++;
    }
    for (let c = 0; c < cells * cells; c++) count[c + 1] += count[c];
    this.first = count.slice();
    this.members = new Uint32Array(items.length);
    for (let k = 0; k < items.length; k++) this.members[count[cellOf[k]]++] = items[k];
  }
  column(x) { return this.clip(Math.floor((x - this.box[0]) * this.fx)); }
  row(y) { return this.clip(Math.floor((y - this.box[2]) * this.fy)); }
  clip(cell) { return cell < 0 ? 0 : cell >= this.cells ? this.cells - 1 : cell; }

  // Calls `use` with every item in the cells that a box touches.
  visit(x0, x1, y0, y1, use) {
    for (let r = this.row(y0); r <= this.row(y1); r++) {
      for (let c = this.column(x0); c <= this.column(x1); c++) {
        const cell = r * this.cells + c;
        for (let k = this.first[cell]; k < this.first[cell + 1]; k++) use(this.members[k]);
      }
    }
  }
}

function limitsOf(x, y, items) {
  let x0 = Infinity, x1 = -Infinity, y0 = Infinity, y1 = -Infinity;
  for (let k = 0; k < items.length; k++) {
    const i = items[k];
    if (x[i] < x0) x0 = x[i]; if (x[i] > x1) x1 = x[i];
    if (y[i] < y0) y0 = y[i]; if (y[i] > y1) y1 = y[i];
  }
  return x0 > x1 ? [0, 1, 0, 1] : [x0, x1, y0, y1];
}

// Limits that show nearly all values: a few far ones do not squeeze the others together.
function robustLimits(values, items) {
  const step = Math.max(1, Math.floor(items.length / 20000)), some = [];
  for (let k = 0; k < items.length; k += step) some.push(values[items[k]]);
  some.sort((a, b) => a - b);
  if (!some.length) return [0, 1];
  const low = some[Math.floor(0.02 * (some.length - 1))], high = some[Math.ceil(0.98 * (some.length - 1))];
  const margin = 0.5 * (high - low);
  const found = [Math.max(some[0], low - margin), Math.min(some[some.length - 1], high + margin)];
  return found[1] > found[0] ? found : [found[0] - 0.5, found[0] + 0.5];
}

function insidePolygon(polygon, x, y) {
  let odd = false;
  for (let a = 0, b = polygon.length - 1; a < polygon.length; b = a++) {
    const [ax, ay] = polygon[a], [bx, by] = polygon[b];
    if (ay > y !== by > y && x < ((bx - ax) * (y - ay)) / (by - ay) + ax) odd = !odd;
  }
  return odd;
}
