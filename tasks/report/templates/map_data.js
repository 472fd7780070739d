// The data of the page: names as JSON, columns as typed arrays.

const KINDS = { "<f4": Float32Array, "<u2": Uint16Array, "<u4": Uint32Array, "<i4": Int32Array, "|u1": Uint8Array };
const GIVEN = 1, PREDICTED = 2, NO_SCORE = 65535, NO_DOUBT = 255;

function textOf(id) {
  return document.getElementById(id).textContent;
}

function decodeBytes(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const raw = atob(text), bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return bytes;
}

function loadColumns(facts) {
  const columns = {};
  for (const [name, kind] of Object.entries(facts.arrays)) {
    const element = document.getElementById("array-" + name);
    columns[name] = new KINDS[kind](decodeBytes(element.textContent).buffer);
    element.remove();
  }
  return columns;
}

const facts = JSON.parse(textOf("facts"));
const shownOf = JSON.parse(textOf("pictures"));
const columns = loadColumns(facts);
const ids = facts.ids, n = ids.length, K = facts.labels.length;
const { start, label, flag, score, doubt, labeled, judged, support } = columns;

// Of each entry, the place of its supporting items: only predicted labels have some.
const supportPlace = new Int32Array(label.length).fill(-1);
for (let e = 0, place = 0; e < label.length; e++) if (flag[e] & PREDICTED) supportPlace[e] = place++;

// Whether the labels of an item are given, predicted only, or missing; and whether the prediction is right.
const kindOf = new Uint8Array(n), resultOf = new Uint8Array(n);
for (let i = 0; i < n; i++) {
  let any = false, wrong = false;
  for (let e = start[i]; e < start[i + 1]; e++) {
    if (flag[e] & PREDICTED) any = true;
    if (flag[e] !== (GIVEN | PREDICTED)) wrong = true;
  }
  kindOf[i] = labeled[i] ? 0 : any ? 1 : 2;
  resultOf[i] = labeled[i] && judged[i] ? (wrong ? 2 : 1) : 0;
}

const givenCount = new Uint32Array(K), anyCount = new Uint32Array(K);
for (let e = 0; e < label.length; e++) {
  if (flag[e] & GIVEN) givenCount[label[e]]++;
  anyCount[label[e]]++;
}

const placeOf = new Map(ids.map((id, i) => [id, i]));
const pictureOf = new Int32Array(n).fill(-1);
if (shownOf) {
  shownOf.ids.forEach((id, number) => {
    const i = placeOf.get(id);
    if (i !== undefined) pictureOf[i] = number;
  });
}
const hasPictures = Boolean(shownOf && shownOf.kind === "images");
const sheets = new Map();

function withSheet(number, use) {
  let sheet = sheets.get(number);
  if (!sheet) {
    sheet = new Image();
    sheet.src = "data:image/jpeg;base64," + textOf("sheet-" + number);
    sheets.set(number, sheet);
  }
  if (sheet.complete && sheet.naturalWidth) use(sheet);
  else sheet.addEventListener("load", () => use(sheet), { once: true });
}

// Where the picture of an item is on its sheet; null without one.
function tileOf(i) {
  const number = pictureOf[i];
  if (!hasPictures || number < 0) return null;
  const [width, height] = shownOf.sizes[number];
  if (!width) return null;
  const place = number % shownOf.per_sheet, edge = shownOf.tile;
  return {
    sheet: Math.floor(number / shownOf.per_sheet), width, height,
    x: (place % shownOf.columns) * edge, y: Math.floor(place / shownOf.columns) * edge,
  };
}

function pictureCanvas(i, most) {
  const tile = tileOf(i);
  if (!tile) return null;
  const canvas = document.createElement("canvas");
  const scale = most / Math.max(tile.width, tile.height);
  canvas.width = Math.round(tile.width * scale);
  canvas.height = Math.round(tile.height * scale);
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", "Picture of " + ids[i]);
  canvas.dataset.item = ids[i];
  withSheet(tile.sheet, (sheet) => {
    canvas.getContext("2d").drawImage(
      sheet, tile.x, tile.y, tile.width, tile.height, 0, 0, canvas.width, canvas.height);
    canvas.dataset.drawn = "yes";
  });
  return canvas;
}

function labelNames(i, wanted) {
  const names = [];
  for (let e = start[i]; e < start[i + 1]; e++) if (flag[e] & wanted) names.push(facts.labels[label[e]]);
  return names;
}

function axisOf(view, axis) {
  return columns["axis_" + view + "_" + axis] || new Float32Array(n);
}
