// The page around the maps: filters, colors, the item in focus, the selection and its export.

const FAINT = { color: "#dde2e7", shape: "circle", hollow: false };
const LISTED = 300, LEGEND_LABELS = 40;
const get = (id) => document.getElementById(id);

function make(tag, text, attributes = {}) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

function fill(select, options) {
  select.replaceChildren(...options.map(([value, text]) => make("option", text, { value })));
}

class Page {
  constructor() {
    this.focus = this.pinned = -1;
    this.selection = new Set();
    this.lassoing = this.pictures = this.waiting = false;
    this.shown = new Uint8Array(n);
    this.faint = new Uint8Array(n);
    this.ranked = Array.from({ length: K }, (_, k) => k).sort((a, b) => anyCount[b] - anyCount[a] || a - b);
    this.rank = new Uint16Array(K);
    this.ranked.forEach((k, r) => { this.rank[k] = r; });
    this.fillChoices();
    this.listen();
    this.setColor();
    this.setPanels([facts.first]);
    this.filter();
  }

  fillChoices() {
    fill(get("view"), facts.views.map((view, v) => [v, view.title]));
    const groups = [...new Set(facts.views.map((view) => view.group).filter(Boolean))];
    fill(get("beside"), [["", "nothing"], ...groups.map((group) => ["group:" + group, group]),
      ...facts.views.map((view, v) => [v, view.title])]);
    fill(get("color"), [["label", "labels"], ["result", "right or wrong"], ["doubt", "doubt"],
      ["kind", "given or predicted"], ...(facts.splits.length > 1 ? [["split", "split"]] : []),
      ...this.ranked.map((k) => ["one:" + k, "only: " + facts.labels[k]])]);
    fill(get("f-label"), [["", "any"], ...this.ranked.map((k) => [k, `${facts.labels[k]} (${anyCount[k]})`])]);
    fill(get("f-split"), [["", "any"], ...facts.splits.map((name, s) => [s, name || "none"])]);
    get("f-split-box").hidden = facts.splits.length < 2;
    get("thumbs").hidden = !hasPictures;
    get("explain").textContent = facts.predictor
      ? `Predictions are by ${facts.predictor}: out of fold for labeled items, that is, by a model that has not seen their labels.`
        + (facts.supporter ? ` Supporting items are the nearest labeled items with the label, by ${facts.supporter}.` : "")
      : "Nothing was predicted in this run.";
  }

  fillAxes() {
    const panel = this.panels[0], axes = facts.views[panel.view].axes;
    const all = Array.from({ length: axes }, (_, a) => [a, a + 1]);
    fill(get("axis-x"), all); fill(get("axis-y"), all);
    get("axis-x").value = panel.a; get("axis-y").value = panel.b;
    get("axes-box").hidden = axes < 3;
    get("view").value = panel.view;
  }

  setPanels(views) {
    this.panels = views.map((view) => new Panel(this, view));
    const box = get("panels");
    box.replaceChildren(...this.panels.map((panel) => panel.element));
    box.style.setProperty("--columns", Math.min(2, views.length));
    box.classList.toggle("many", views.length > 1);
    this.fillAxes();
    this.request();
  }

  listen() {
    const on = (id, name, act) => get(id).addEventListener(name, act);
    on("view", "change", () => this.changeView());
    on("beside", "change", () => this.changeBeside());
    for (const id of ["axis-x", "axis-y"]) on(id, "change", () => {
      this.panels[0].setView(this.panels[0].view, Number(get("axis-x").value), Number(get("axis-y").value));
      this.request();
    });
    on("color", "change", () => { this.setColor(); this.filter(); });
    on("zoom-in", "click", () => this.panels.forEach((panel) => panel.zoomAt(1.4)));
    on("zoom-out", "click", () => this.panels.forEach((panel) => panel.zoomAt(1 / 1.4)));
    on("fit", "click", () => { this.panels.forEach((panel) => panel.fit()); this.request(); });
    on("lasso", "click", () => this.setLasso(!this.lassoing));
    on("thumbs", "click", () => {
      this.pictures = !this.pictures;
      get("thumbs").setAttribute("aria-pressed", this.pictures);
      this.request();
    });
    for (const id of ["f-label", "f-how", "f-kind", "f-result", "f-split"]) on(id, "change", () => this.filter());
    for (const id of ["f-doubt", "search"]) on(id, "input", () => this.filter());
    on("search", "keydown", (event) => { if (event.key === "Enter") this.panels[0].step(1); });
    on("reset", "click", () => this.reset());
    on("select-shown", "click", () => this.select(this.drawn));
    on("clear", "click", () => this.select([]));
    on("export", "click", () => this.exportCsv());
    new ResizeObserver(() => this.request()).observe(get("panels"));
  }

  changeView() {
    const view = Number(get("view").value);
    this.panels[0].setView(view, 0, Math.min(1, facts.views[view].axes - 1));
    this.fillAxes();
    this.request();
  }

  changeBeside() {
    const chosen = get("beside").value, first = Number(get("view").value);
    if (!chosen) this.setPanels([first]);
    else if (chosen.startsWith("group:")) {
      const name = chosen.slice(6);
      this.setPanels(facts.views.map((view, v) => (view.group === name ? v : -1)).filter((v) => v >= 0));
    } else this.setPanels([first, Number(chosen)]);
  }

  reset() {
    for (const id of ["f-label", "f-kind", "f-result", "f-split", "search"]) get(id).value = "";
    get("f-how").value = "any"; get("f-doubt").value = 0;
    this.filter();
  }

  // Which items match all filters.
  filter() {
    const wanted = get("f-label").value, kind = get("f-kind").value, result = get("f-result").value;
    const split = get("f-split").value, least = Number(get("f-doubt").value);
    const words = get("search").value.trim().toLowerCase(), how = get("f-how").value;
    get("f-doubt-value").textContent = (least / 100).toFixed(2);
    get("f-how-box").hidden = wanted === "";
    const kindCode = { given: 0, predicted: 1, unlabeled: 2 }[kind], resultCode = { right: 1, wrong: 2 }[result];
    this.drawn = []; this.hidden = [];
    for (let i = 0; i < n; i++) {
      const fits = (kind === "" || kindOf[i] === kindCode) && (result === "" || resultOf[i] === resultCode)
        && (split === "" || columns.split[i] === Number(split))
        && (least === 0 || (doubt[i] !== NO_DOUBT && doubt[i] >= least))
        && (wanted === "" || this.carries(i, Number(wanted), how))
        && (words === "" || ids[i].toLowerCase().includes(words));
      this.shown[i] = fits ? 1 : 0;
      (fits ? this.drawn : this.hidden).push(i);
    }
    // Items without a color are drawn first, below the others.
    this.drawn.sort((a, b) => this.depth[a] - this.depth[b]);
    get("count").textContent = `${this.drawn.length.toLocaleString("en")} of ${n.toLocaleString("en")}`;
    this.fillLegend();
    this.request();
  }

  carries(i, k, how) {
    for (let e = start[i]; e < start[i + 1]; e++) {
      if (label[e] !== k) continue;
      const given = flag[e] & GIVEN, predicted = flag[e] & PREDICTED;
      if (how === "any") return true;
      if (how === "given") return given > 0;
      if (how === "predicted") return predicted > 0;
      if (how === "missed") return given > 0 && !predicted && judged[i] > 0;
      return predicted > 0 && !given && labeled[i] > 0;
    }
    return false;
  }

  // Colors and shapes of the marks.
  setColor() {
    const mode = get("color").value;
    this.styles = []; this.legend = [];
    this.styleOf = new Uint16Array(n);
    this.depth = new Uint8Array(n);
    const known = new Map();
    const style = (color, shape, hollow) => {
      const key = color + shape + hollow;
      if (!known.has(key)) { known.set(key, this.styles.length); this.styles.push({ color, shape, hollow }); }
      return known.get(key);
    };
    const give = (i, color, shape, above = 1) => {
      this.styleOf[i] = style(color, shape, kindOf[i] > 0);
      this.depth[i] = above;
    };
    const plain = (entries, codeOf) => {
      this.legend = entries.map(([text, color, shape]) => ({ text, color, shape: shape || "circle" }));
      for (let i = 0; i < n; i++) {
        const [, color, shape] = entries[codeOf(i)];
        give(i, color, shape || "circle", color === GRAY ? 0 : 1);
      }
    };
    if (mode === "result") {
      plain([["not judged", GRAY], ["right", RIGHT], ["wrong", WRONG, "triangle"]], (i) => resultOf[i]);
    } else if (mode === "kind") {
      plain([["given", COLORS[0]], ["predicted only", COLORS[1], "triangle"], ["missing", GRAY]], (i) => kindOf[i]);
    } else if (mode === "split") {
      plain(facts.splits.map((name, s) => [name || "none", COLORS[s % 8], SHAPES[s % 5]]), (i) => columns.split[i]);
    } else if (mode === "doubt") {
      const steps = DOUBT_COLORS.length - 1;
      plain([["no prediction", GRAY], ...DOUBT_COLORS.map((color, d) => [`doubt ${(d / steps).toFixed(1)}`, color])],
        (i) => (doubt[i] === NO_DOUBT ? 0 : 1 + Math.round((doubt[i] / 100) * steps)));
    } else if (mode.startsWith("one:")) {
      this.colorOne(Number(mode.slice(4)), plain);
    } else this.colorLabels(give);
  }

  colorOne(k, plain) {
    const code = new Uint8Array(n);
    for (let i = 0; i < n; i++) for (let e = start[i]; e < start[i + 1]; e++) {
      if (label[e] === k) code[i] = flag[e] === 3 ? 1 : flag[e] & GIVEN ? 2 : 3;
    }
    plain([["other items", GRAY], ["given and predicted", COLORS[0]], ["given, not predicted", COLORS[4], "diamond"],
      ["predicted, not given", COLORS[1], "triangle"]], (i) => code[i]);
  }

  mark(k) {
    const r = this.rank[k];
    return { color: COLORS[r % 8], shape: SHAPES[(r + Math.floor(r / 8)) % 5] };
  }

  colorLabels(give) {
    for (let i = 0; i < n; i++) {
      let rarest = -1;
      for (let e = start[i]; e < start[i + 1]; e++) {
        if (labeled[i] && !(flag[e] & GIVEN)) continue;
        if (rarest < 0 || this.rank[label[e]] > this.rank[rarest]) rarest = label[e];
      }
      if (rarest < 0) give(i, GRAY, "circle", 0);
      else { const { color, shape } = this.mark(rarest); give(i, color, shape); }
    }
    this.legend = this.ranked.slice(0, LEGEND_LABELS).map((k) => ({ text: facts.labels[k], label: k, ...this.mark(k) }));
  }

  fillLegend() {
    const chosen = get("f-label").value;
    const several = get("color").value === "label" ? "An item with several labels has the color of its rarest one. " : "";
    get("legend-note").textContent = several + "Filled marks have given labels, hollow marks have none.";
    get("legend").replaceChildren(...this.legend.map((entry) => {
      const mark = make("canvas", undefined, { width: 28, height: 28, "aria-hidden": "true" });
      mark.style.width = mark.style.height = "14px";
      const paper = mark.getContext("2d"), image = paper.createImageData(28, 28);
      stampItems(image.data, 28, 28, [0], [14], [14], [0], [{ ...entry, hollow: false }], 9, 1);
      paper.putImageData(image, 0, 0);
      const row = make("li");
      const button = row.appendChild(make(entry.label === undefined ? "span" : "button", undefined,
        entry.label === undefined ? {} : { type: "button", "aria-pressed": String(chosen === String(entry.label)) }));
      button.append(mark, " " + entry.text);
      if (entry.label !== undefined) {
        button.append(make("i", anyCount[entry.label].toLocaleString("en")));
        button.addEventListener("click", () => {
          get("f-label").value = chosen === String(entry.label) ? "" : String(entry.label);
          this.filter();
        });
      }
      return row;
    }));
    if (this.legend.length && get("color").value === "label" && K > LEGEND_LABELS) {
      get("legend").append(make("li", `and ${K - LEGEND_LABELS} more labels`));
    }
  }

  setLasso(on) {
    this.lassoing = on;
    get("lasso").setAttribute("aria-pressed", on);
    for (const panel of this.panels) panel.element.classList.toggle("lassoing", on);
    get("status").textContent = on ? "Draw a line around the items to select." : "";
  }

  hover(i) {
    if (this.pinned >= 0 || i === this.focus) return;
    this.focus = i;
    if (i >= 0) this.showItem(i);
    this.panels.forEach((panel) => panel.drawTop());
  }

  pin(i) {
    this.pinned = this.focus = i;
    if (i >= 0) this.showItem(i);
    this.panels.forEach((panel) => panel.drawTop());
  }

  supporters(i) {
    const found = new Set();
    for (let e = start[i]; e < start[i + 1]; e++) for (const other of this.supportOf(e)) found.add(other);
    return found;
  }

  supportOf(e) {
    if (supportPlace[e] < 0) return [];
    return Array.from(support.slice(3 * supportPlace[e], 3 * supportPlace[e] + 3)).filter((i) => i >= 0);
  }

  // The item in focus: picture or row, labels with scores, and the items that support them.
  showItem(i) {
    const box = get("item"), parts = [make("h2", ids[i])];
    box.dataset.item = ids[i];
    const picture = pictureCanvas(i, 190);
    if (picture) parts.push(picture);
    else parts.push(...this.rowOf(i));
    const words = [["labels given", "prediction for an unlabeled item", "unlabeled, nothing predicted"][kindOf[i]]];
    if (resultOf[i]) words.push(resultOf[i] === 1 ? "prediction right" : "prediction wrong");
    if (doubt[i] !== NO_DOUBT) words.push(`doubt ${(doubt[i] / 100).toFixed(2)}`);
    if (facts.splits.length > 1) words.push(`split ${facts.splits[columns.split[i]] || "none"}`);
    parts.push(make("p", words.join("; "), { class: "muted" }));
    if (start[i + 1] > start[i]) parts.push(this.labelTable(i));
    box.replaceChildren(...parts);
  }

  labelTable(i) {
    const table = make("table"), body = table.appendChild(make("tbody"));
    for (let e = start[i]; e < start[i + 1]; e++) {
      const row = body.appendChild(make("tr"));
      row.append(make("th", facts.labels[label[e]], { scope: "row" }));
      const how = flag[e] === 3 ? "given, predicted" : flag[e] & GIVEN ? (judged[i] ? "given, not predicted" : "given")
        : labeled[i] ? "predicted, not given" : "predicted";
      row.append(make("td", how + (score[e] === NO_SCORE ? "" : `, score ${(score[e] / 1000).toFixed(2)}`)));
      const others = this.supportOf(e);
      if (others.length) {
        const line = body.appendChild(make("tr")), cell = line.appendChild(make("td", undefined, { colspan: "2" }));
        const list = cell.appendChild(make("div", undefined, { class: "supports", "aria-label": "Supporting items" }));
        for (const other of others) {
          const button = list.appendChild(make("button", undefined, { type: "button", title: ids[other] }));
          button.dataset.item = ids[other];
          button.append(pictureCanvas(other, 48) || ids[other]);
          button.addEventListener("click", () => { this.pin(other); this.panels[0].bring(other); });
        }
      }
    }
    return table;
  }

  rowOf(i) {
    const number = pictureOf[i];
    if (number < 0 || !shownOf) return [];
    if (shownOf.kind === "text") return [make("p", shownOf.texts[number])];
    if (shownOf.kind !== "features") return [];
    const table = make("table"), body = table.appendChild(make("tbody"));
    shownOf.names.forEach((name, k) => {
      const row = body.appendChild(make("tr"));
      row.append(make("th", name, { scope: "row" }), make("td", shownOf.values[number][k]));
    });
    return [table, ...(shownOf.more ? [make("p", `and ${shownOf.more} more value${shownOf.more > 1 ? "s" : ""}`, { class: "muted" })] : [])];
  }

  select(found) {
    this.selection = new Set(found);
    get("selected").textContent = this.selection.size.toLocaleString("en");
    get("export").disabled = get("clear").disabled = !this.selection.size;
    const rows = [...this.selection].slice(0, LISTED).map((i) => {
      const row = make("li"), button = row.appendChild(make("button", ids[i], { type: "button" }));
      const names = labeled[i] ? labelNames(i, GIVEN) : labelNames(i, PREDICTED);
      button.append(" ", make("i", names.join(", ") + (labeled[i] ? "" : names.length ? " (predicted)" : "unlabeled")));
      button.addEventListener("click", () => { this.pin(i); this.panels[0].bring(i); });
      return row;
    });
    if (this.selection.size > LISTED) rows.push(make("li", `and ${this.selection.size - LISTED} more in the CSV file`));
    get("list").replaceChildren(...rows);
    this.request();
  }

  exportCsv() {
    const rows = [["id", "labels", "predicted", "scores", "doubt"]];
    for (const i of [...this.selection].sort((a, b) => a - b)) {
      const scores = [];
      for (let e = start[i]; e < start[i + 1]; e++) {
        if (flag[e] & PREDICTED) scores.push(score[e] === NO_SCORE ? "" : (score[e] / 1000).toFixed(3));
      }
      rows.push([ids[i], labelNames(i, GIVEN).join("|"), labelNames(i, PREDICTED).join("|"),
        scores.join("|"), doubt[i] === NO_DOUBT ? "" : (doubt[i] / 100).toFixed(2)]);
    }
    saveCsv("selection.csv", rows);
    get("status").textContent = `${this.selection.size.toLocaleString("en")} items exported to selection.csv.`;
  }

  // Draw once in the next frame, however often it is asked for.
  request() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.panels.forEach((panel) => panel.draw());
      if (!window.labelscapeMap.ready) window.labelscapeMap.ready = performance.now();
    });
  }

  // While the first map moves back and forth: frames per second, and milliseconds to draw one.
  async measurePan(frames) {
    const panel = this.panels[0];
    const next = () => new Promise(requestAnimationFrame);
    await next();
    const begun = performance.now();
    for (let k = 0; k < frames; k++) {
      panel.move(k % 40 < 20 ? 6 : -6, k % 30 < 15 ? 4 : -4);
      await next();
    }
    const speed = (1000 * frames) / (performance.now() - begun), times = [];
    for (let k = 0; k < 15; k++) {
      const from = performance.now();
      panel.draw();
      times.push(performance.now() - from);
    }
    return [speed, times.sort((a, b) => a - b)[7]];
  }
}

// For tests and benchmarks: when the map was first drawn (milliseconds after the start), and where items are.
window.labelscapeMap = { ready: 0 };
if (facts.views.length) {
  const page = new Page();
  Object.assign(window.labelscapeMap, {
    measurePan: (frames) => page.measurePan(frames),
    placeOf: (id, number = 0) => {
      const panel = page.panels[number], i = placeOf.get(id), box = panel.element.getBoundingClientRect();
      panel.resize(); panel.project();
      return [box.left + 1 + panel.px[i] / panel.ratio, box.top + 1 + panel.py[i] / panel.ratio];
    },
  });
} else {
  get("status").textContent = "No embedding was computed in this run, so there is no map to draw.";
}
