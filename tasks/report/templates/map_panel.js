// One map: its view and axes, its camera, its drawing, and what the pointer and the keys do.

const EDGE = 26, NEAR = 14, TIP_PICTURE = 112, MOST_THUMBS = 260;
// From this many items on, marks have no soft edges.
const CRISP_FROM = 20000;

class Panel {
  constructor(page, view) {
    this.page = page;
    this.element = document.createElement("div");
    this.element.className = "panel";
    this.element.tabIndex = 0;
    this.element.setAttribute("role", "application");
    this.back = this.addCanvas();
    this.base = this.addCanvas();
    this.top = this.addCanvas();
    this.name = this.element.appendChild(document.createElement("p"));
    this.name.className = "name";
    this.tip = this.element.appendChild(document.createElement("div"));
    this.tip.className = "tip";
    this.tip.hidden = true;
    this.pointers = new Map();
    this.trail = null;
    this.px = new Float32Array(n);
    this.py = new Float32Array(n);
    this.setView(view, 0, Math.min(1, facts.views[view].axes - 1));
    this.listen();
  }

  addCanvas() { return this.element.appendChild(document.createElement("canvas")); }

  setView(view, a, b) {
    this.view = view; this.a = a; this.b = b;
    const about = facts.views[view];
    this.x = axisOf(view, a);
    this.y = about.axes > 1 ? axisOf(view, b) : jitter();
    this.placed = [];
    for (let i = 0; i < n; i++) if (isFinite(this.x[i]) && isFinite(this.y[i])) this.placed.push(i);
    this.grid = new Grid(this.x, this.y, this.placed);
    this.density = about.density && a === 0 && b === 1 ? makeDensity(view, about.density) : null;
    const axes = about.axes > 1 ? `, coordinates ${a + 1} and ${b + 1}` : ", one coordinate";
    this.name.textContent = about.title + axes + (about.remark ? ". " + about.remark : "");
    this.element.setAttribute("aria-label", "Map by " + this.name.textContent);
    this.camera = null;
  }

  resize() {
    const ratio = Math.min(window.devicePixelRatio || 1, 2), box = this.element.getBoundingClientRect();
    this.ratio = ratio;
    const width = Math.max(1, Math.round(box.width * ratio)), height = Math.max(1, Math.round(box.height * ratio));
    if (this.base.width !== width || this.base.height !== height) {
      for (const canvas of [this.back, this.base, this.top]) { canvas.width = width; canvas.height = height; }
      this.image = this.base.getContext("2d").createImageData(width, height);
      this.camera = null;
    }
    if (!this.camera) this.fit();
  }

  fit(everything = false) {
    const width = this.base.width, height = this.base.height, edge = EDGE * this.ratio;
    let [x0, x1] = robustLimits(this.x, this.placed), [y0, y1] = robustLimits(this.y, this.placed);
    if (everything) [x0, x1, y0, y1] = limitsOf(this.x, this.y, this.placed);
    const top = edge + this.name.offsetHeight * this.ratio;  // the name of the view covers no item
    const sx = (width - 2 * edge) / (x1 - x0 || 1), sy = (height - edge - top) / (y1 - y0 || 1);
    this.camera = { sx, sy: -sy, ox: edge - x0 * sx, oy: height - edge + y0 * sy };
    this.zoom = 1;
  }

  move(dx, dy) {
    this.camera.ox += dx; this.camera.oy += dy;
    this.page.request();
  }

  zoomAt(factor, x = this.base.width / 2, y = this.base.height / 2) {
    const wanted = Math.min(400, Math.max(0.02, this.zoom * factor)), real = wanted / this.zoom;
    this.zoom = wanted;
    const camera = this.camera;
    camera.sx *= real; camera.sy *= real;
    camera.ox = x - (x - camera.ox) * real;
    camera.oy = y - (y - camera.oy) * real;
    this.page.request();
  }

  radius() {
    const size = n <= 1000 ? 5 : n <= 5000 ? 3.6 : n <= 30000 ? 2.5 : 1.7;
    return Math.round(size * this.ratio * Math.min(2.2, Math.max(0.7, Math.pow(this.zoom, 0.25))) * 2) / 2;
  }

  project() {
    const { sx, sy, ox, oy } = this.camera, { x, y, px, py } = this;
    for (let i = 0; i < n; i++) { px[i] = x[i] * sx + ox; py[i] = y[i] * sy + oy; }
  }

  draw() {
    this.resize();
    this.project();
    const { width, height } = this.base, page = this.page, radius = this.radius(), crisp = n > CRISP_FROM;
    this.drawDensity();
    this.image.data.fill(0);
    const pixels = this.image.data;
    if (page.hidden.length) {
      stampItems(pixels, width, height, page.hidden, this.px, this.py, page.faint, [FAINT], radius * 0.6, 0.55, crisp);
    }
    stampItems(pixels, width, height, page.drawn, this.px, this.py, page.styleOf, page.styles, radius, 0.94, crisp);
    this.base.getContext("2d").putImageData(this.image, 0, 0);
    this.drawTop();
  }

  drawDensity() {
    const paper = this.back.getContext("2d");
    paper.clearRect(0, 0, this.back.width, this.back.height);
    if (!this.density) return;
    const { sx, sy, ox, oy } = this.camera, [x0, x1, y0, y1] = this.density.limits;
    paper.imageSmoothingEnabled = true;
    paper.drawImage(this.density.canvas, x0 * sx + ox, y1 * sy + oy, (x1 - x0) * sx, (y0 - y1) * sy);
  }

  // Pictures, the item in focus, the selection and the lasso.
  drawTop() {
    const paper = this.top.getContext("2d"), { px, py, page, ratio } = this;
    paper.clearRect(0, 0, this.top.width, this.top.height);
    if (hasPictures) this.drawPictures(paper);
    paper.lineWidth = 2 * ratio;
    paper.strokeStyle = "#1d2733";
    if (page.selection.size && page.selection.size <= 5000) {
      for (const i of page.selection) this.ring(paper, i, this.radius() + 2 * ratio);
    }
    if (page.focus >= 0) {
      for (const other of page.supporters(page.focus)) {
        paper.globalAlpha = 0.45;
        paper.beginPath(); paper.moveTo(px[page.focus], py[page.focus]); paper.lineTo(px[other], py[other]);
        paper.stroke();
        paper.globalAlpha = 1;
        this.ring(paper, other, this.radius() + 2 * ratio);
      }
      paper.lineWidth = 3 * ratio;
      this.ring(paper, page.focus, this.radius() + 4 * ratio);
    }
    if (this.trail && this.trail.length > 1) {
      paper.lineWidth = 2 * ratio;
      paper.setLineDash([6 * ratio, 4 * ratio]);
      paper.beginPath();
      this.trail.forEach(([x, y], k) => (k ? paper.lineTo(x, y) : paper.moveTo(x, y)));
      paper.closePath();
      paper.fillStyle = "#0072b222";
      paper.fill(); paper.stroke();
      paper.setLineDash([]);
    }
  }

  ring(paper, i, radius) {
    paper.beginPath();
    paper.arc(this.px[i], this.py[i], radius, 0, 2 * Math.PI);
    paper.stroke();
  }

  // Pictures that do not overlap; without the button only where few items are in sight.
  drawPictures(paper) {
    const { width, height } = this.top, everywhere = this.page.pictures;
    const sight = this.inSight();
    if (!everywhere && (sight.length > 60 || this.zoom < 1.5)) return;
    const edge = (everywhere ? 54 : 68) * this.ratio, taken = new Set(), { ratio, name } = this;
    const nameEnds = [(name.offsetLeft + name.offsetWidth) * ratio, (name.offsetTop + name.offsetHeight) * ratio];
    let count = 0;
    for (const i of sight) {
      const tile = tileOf(i), x = this.px[i], y = this.py[i];
      if (!tile || x < 0 || y < 0 || x > width || y > height || count > MOST_THUMBS) continue;
      const c = Math.floor(x / edge), r = Math.floor(y / edge);
      if (taken.has(r * 1e4 + c) || (c * edge < nameEnds[0] && r * edge < nameEnds[1])) continue;
      taken.add(r * 1e4 + c); count++;
      const scale = (0.86 * edge) / Math.max(tile.width, tile.height), w = tile.width * scale, h = tile.height * scale;
      const ready = sheets.get(tile.sheet);
      if (!ready || !ready.complete) { withSheet(tile.sheet, () => this.page.request()); continue; }
      const left = (c + 0.5) * edge - w / 2, up = (r + 0.5) * edge - h / 2, line = 2.5 * this.ratio;
      paper.fillStyle = this.page.styles[this.page.styleOf[i]].color;
      paper.fillRect(left - line, up - line, w + 2 * line, h + 2 * line);
      paper.drawImage(ready, tile.x, tile.y, tile.width, tile.height, left, up, w, h);
    }
  }

  inSight() {
    const { sx, sy, ox, oy } = this.camera, shown = this.page.shown, found = [];
    const ys = [(0 - oy) / sy, (this.top.height - oy) / sy].sort((a, b) => a - b);
    this.grid.visit((0 - ox) / sx, (this.top.width - ox) / sx, ys[0], ys[1], (i) => {
      if (shown[i] && this.px[i] >= 0 && this.py[i] >= 0 && this.px[i] <= this.top.width && this.py[i] <= this.top.height) found.push(i);
    });
    return found;
  }

  // The shown item nearest to a place in pixels, within reach; -1 for none.
  nearest(x, y, reach) {
    const { sx, sy, ox, oy } = this.camera, shown = this.page.shown;
    const far = reach * this.ratio;
    let best = -1, least = far * far;
    this.grid.visit((x - far - ox) / sx, (x + far - ox) / sx, (y + far - oy) / sy, (y - far - oy) / sy, (i) => {
      if (!shown[i]) return;
      const dx = this.x[i] * sx + ox - x, dy = this.y[i] * sy + oy - y, d = dx * dx + dy * dy;
      if (d < least) { least = d; best = i; }
    });
    return best;
  }

  at(event) {
    const box = this.element.getBoundingClientRect();
    return [(event.clientX - box.left - 1) * this.ratio, (event.clientY - box.top - 1) * this.ratio];
  }

  listen() {
    const on = (name, act) => this.element.addEventListener(name, act, { passive: false });
    on("wheel", (event) => {
      event.preventDefault();
      this.zoomAt(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0016)), ...this.at(event));
    });
    on("pointerdown", (event) => this.press(event));
    on("pointermove", (event) => this.drag(event));
    on("pointerup", (event) => this.release(event));
    on("pointercancel", (event) => this.release(event));
    on("pointerleave", (event) => {  // a finger leaves with every tap: what it showed stays
      if (!this.pointers.size && event.pointerType !== "touch") { this.hideTip(); this.page.hover(-1); }
    });
    on("dblclick", (event) => this.zoomAt(2, ...this.at(event)));
    on("keydown", (event) => this.press_key(event));
  }

  press(event) {
    if (event.button > 0) return;
    this.element.focus({ preventScroll: true });
    this.element.setPointerCapture(event.pointerId);
    const place = this.at(event);
    this.pointers.set(event.pointerId, place);
    this.moved = 0;
    if (this.pointers.size === 1 && (this.page.lassoing || event.shiftKey)) this.trail = [place];
    else { this.trail = null; this.element.classList.add("dragging"); }
  }

  drag(event) {
    const place = this.at(event), before = this.pointers.get(event.pointerId);
    if (!before) { if (event.pointerType !== "touch") this.point(place); return; }
    const dx = place[0] - before[0], dy = place[1] - before[1];
    this.moved += Math.abs(dx) + Math.abs(dy);
    if (this.pointers.size === 2) this.pinch(event.pointerId, before, place);
    else if (this.trail) { this.trail.push(place); this.drawTop(); }
    else if (this.moved > 3) { this.hideTip(); this.move(dx, dy); }
    this.pointers.set(event.pointerId, place);
  }

  pinch(id, before, place) {
    const other = [...this.pointers].find(([one]) => one !== id)[1];
    const apart = (p) => Math.hypot(p[0] - other[0], p[1] - other[1]) || 1;
    this.zoomAt(apart(place) / apart(before), (place[0] + other[0]) / 2, (place[1] + other[1]) / 2);
    this.move((place[0] - before[0]) / 2, (place[1] - before[1]) / 2);
  }

  release(event) {
    const place = this.at(event), known = this.pointers.delete(event.pointerId);
    this.element.classList.remove("dragging");
    if (!known || this.pointers.size) return;
    if (this.trail) this.endLasso();
    else if (this.moved <= 6) {
      const i = this.nearest(...place, event.pointerType === "touch" ? 24 : NEAR);
      this.page.pin(i);
      if (event.pointerType === "touch") this.showTip(i);
    }
  }

  endLasso() {
    const trail = this.trail, found = [];
    this.trail = null;
    if (trail.length > 2) {
      for (const i of this.placed) {
        if (this.page.shown[i] && insidePolygon(trail, this.px[i], this.py[i])) found.push(i);
      }
      this.page.select(found);
    }
    this.page.setLasso(false);
    this.drawTop();
  }

  point(place) {
    const i = this.nearest(...place, NEAR);
    this.showTip(i);
    this.page.hover(i);
  }

  showTip(i) {
    if (i < 0) { this.hideTip(); return; }
    const tip = this.tip;
    if (tip.dataset.item !== String(i)) {
      tip.dataset.item = String(i);
      const picture = pictureCanvas(i, TIP_PICTURE), words = document.createElement("div");
      const given = labelNames(i, GIVEN), predicted = labelNames(i, PREDICTED);
      words.textContent = ids[i] + ": " + (labeled[i] ? given.join(", ") || "none of the labels"
        : predicted.length ? predicted.join(", ") + " (predicted)" : "unlabeled");
      tip.replaceChildren(...(picture ? [picture, words] : [words]));
    }
    tip.hidden = false;
    const x = this.px[i] / this.ratio, y = this.py[i] / this.ratio, box = this.element.getBoundingClientRect();
    tip.style.left = (x + 16 + tip.offsetWidth > box.width ? Math.max(2, x - 16 - tip.offsetWidth) : x + 16) + "px";
    tip.style.top = Math.max(2, Math.min(y - 10, box.height - tip.offsetHeight - 4)) + "px";
  }

  hideTip() { this.tip.hidden = true; }

  press_key(event) {
    const step = 60 * this.ratio;
    const act = {
      ArrowLeft: () => this.move(step, 0), ArrowRight: () => this.move(-step, 0),
      ArrowUp: () => this.move(0, step), ArrowDown: () => this.move(0, -step),
      "+": () => this.zoomAt(1.3), "=": () => this.zoomAt(1.3), "-": () => this.zoomAt(1 / 1.3),
      0: () => { this.fit(); this.page.request(); },
      n: () => this.step(1), p: () => this.step(-1),
      l: () => this.page.setLasso(!this.page.lassoing),
      Escape: () => { this.trail = null; this.page.setLasso(false); this.page.pin(-1); this.hideTip(); },
    }[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act();
  }

  // The next or previous shown item, brought into sight.
  step(direction) {
    const page = this.page;
    let i = page.focus < 0 && direction < 0 ? 0 : page.focus;
    for (let tries = 0; tries < n; tries++) {
      i = (i + direction + n) % n;
      if (page.shown[i] && isFinite(this.x[i]) && isFinite(this.y[i])) { page.pin(i); this.bring(i); return; }
    }
  }

  bring(i) {
    this.project();
    const { width, height } = this.top, x = this.px[i], y = this.py[i];
    if (x < 0 || y < 0 || x > width || y > height) this.move(width / 2 - x, height / 2 - y);
    this.project();
    this.showTip(i);
  }
}

let spread = null;
function jitter() {
  if (!spread) {
    spread = new Float32Array(n);
    let state = 1;
    for (let i = 0; i < n; i++) { state = (state * 48271) % 2147483647; spread[i] = state / 2147483647; }
  }
  return spread;
}

function makeDensity(view, limits) {
  const cells = columns["density_" + view], edge = Math.round(Math.sqrt(cells.length));
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = edge;
  const paper = canvas.getContext("2d"), image = paper.createImageData(edge, edge);
  for (let r = 0; r < edge; r++) for (let c = 0; c < edge; c++) {
    const at = 4 * ((edge - 1 - r) * edge + c);
    image.data[at] = 90; image.data[at + 1] = 110; image.data[at + 2] = 130;
    image.data[at + 3] = 0.62 * cells[r * edge + c];
  }
  paper.putImageData(image, 0, 0);
  return { canvas, limits };
}
