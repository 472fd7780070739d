// The page to decide labels on: cards, answers by keyboard or touch, the corrections file.

const data = JSON.parse(document.getElementById("data").textContent);
const place = document.getElementById("card");
const kinds = document.getElementById("kind");
const who = document.getElementById("who");
const memory = "labelscape " + data.key;
const answers = new Map();
const history = [];
let shown = [];
let at = 0;
let marked = new Set();
let finding = false;
let unsaved = false;

// Characters that a page cannot show, or that change the direction of text.
const clean = (text) => text.replace(/[\u0000-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, "\ufffd");

// The lines of a text stay lines.
const cleanLines = (text) => text.replace(/\r\n?/g, "\n").replaceAll("\t", "    ").split("\n").map(clean).join("\n");

// Without scrolling: a page that has just been opened shows its beginning.
const focus = () => place.focus({ preventScroll: true });

function make(tag, text, kind) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = clean(text);
  if (kind) made.className = kind;
  return made;
}

function remember() {
  try {
    localStorage.setItem(memory, JSON.stringify({ who: who.value, answers: [...answers] }));
  } catch (error) { /* a browser may forbid it for files: then the saved file alone keeps the answers */ }
}

function recall() {
  try {
    const known = JSON.parse(localStorage.getItem(memory) || "null");
    if (!known) return;
    who.value = known.who || "";
    const cards = new Map(data.cards.map((card) => [card.id, card]));
    for (const [id, answer] of known.answers) {
      const card = cards.get(id);
      if (card && answer.asked === question(card) && isPossible(answer.after)) answers.set(id, answer);
    }
  } catch (error) { /* nothing is known */ }
}

// What an answer is about. A later page may ask something else about the same item.
const question = (card) => JSON.stringify([card.given, card.proposed, card.checked, card.checked_too]);
// Items of some collections have one class each.
const isPossible = (labels) => !data.single || labels.length < 2;
const current = () => data.cards[shown[at]];

function choose(kind) {
  shown = data.cards.map((card, number) => number).filter((number) => !kind || data.cards[number].kind === kind);
  at = Math.max(0, shown.findIndex((number) => !answers.has(data.cards[number].id)));
  show();
}

function start(card) {
  const answer = answers.get(card.id);
  marked = new Set(answer ? answer.after : card.given || []);
  finding = false;
}

// Of more labels than digits, the likeliest ones get the digits.
function labelOrder(card) {
  const first = new Set([...card.proposed, ...(card.given || [])]);
  const others = data.labels.filter((name) => !first.has(name));
  const score = (name) => (card.scores[name] === undefined ? -1 : card.scores[name]);
  if (data.labels.length > 9) others.sort((one, other) => score(other) - score(one));
  return [...data.labels.filter((name) => first.has(name)), ...others];
}

function show() {
  if (current()) start(current());
  draw();
}

function draw() {
  place.replaceChildren();
  const card = current();
  const done = shown.filter((number) => answers.has(data.cards[number].id)).length;
  const answered = shown.length && done === shown.length ? "all answered: save the file" : done + " answered";
  document.getElementById("progress").textContent =
    shown.length ? (at + 1) + " of " + shown.length + ", " + answered : "nothing to show";
  if (!card) return;
  const left = make("div");
  for (const picture of card.pictures) {
    const figure = make("figure");
    const image = make("img");
    image.src = picture.data;
    image.alt = clean(picture.title);
    figure.append(image);
    if (card.pictures.length > 1) figure.append(make("figcaption", picture.title));
    left.append(figure);
  }
  if (card.text) left.appendChild(make("pre")).textContent = cleanLines(card.text);
  place.append(left, describe(card));
}

function describe(card) {
  const right = make("div");
  right.append(make("h3", card.id));
  const answer = answers.get(card.id);
  if (answer) {
    const same = answer.after.join("\n") === (card.given || []).join("\n");
    right.append(make("p", card.given === null ? "answered" : same ? "confirmed" : "corrected", "state"));
  }
  for (const reason of card.why) right.append(make("p", reason, "why"));
  right.append(make("p", card.given === null ? "It has no labels yet." : "Given: " + (card.given.join(", ") || "no label") + ".", "muted"));
  if (finding) right.append(finder(card));
  if (changes(card).size) right.append(make("p", "Dashed: what the suggestion adds or removes.", "hint"));
  const list = make("ul", undefined, "labels");
  labelOrder(card).forEach((name, number) => list.append(labelButton(card, name, number)));
  right.append(list);
  const actions = make("div", undefined, "actions");
  const titles = { y: "Accept the suggestion", n: card.given === null ? "Skip" : "Keep the labels", Enter: "Confirm what is marked" };
  Object.assign(titles, { ArrowLeft: "Back", u: "Undo" });
  for (const [key, title] of Object.entries(titles)) {
    const button = make("button", title);
    button.type = "button";
    if (key === "ArrowLeft" || key === "u") button.className = "step";
    button.disabled = key === "y" && !isPossible(card.proposed);
    button.addEventListener("click", () => { act(key); focus(); });
    actions.append(button);
  }
  right.append(actions);
  return right;
}

// Labels that the suggestion adds or removes.
function changes(card) {
  const given = new Set(card.given || []), proposed = new Set(card.proposed);
  return new Set([...given, ...proposed].filter((name) => given.has(name) !== proposed.has(name)));
}

function labelButton(card, name, number) {
  const button = make("button");
  if (number < 9) button.append(make("span", (number + 1) + " ", "digit"));
  button.append(clean(name));
  button.type = "button";
  button.setAttribute("aria-pressed", String(marked.has(name)));
  if (changes(card).has(name)) button.classList.add("suggested");
  if (card.scores[name] !== undefined) button.append(make("small", card.scores[name].toFixed(2)));
  button.addEventListener("click", () => { toggle(name); focus(); });
  const entry = make("li");
  entry.append(button);
  return entry;
}

function finder(card) {
  const box = make("p", undefined, "find");
  const input = make("input");
  input.setAttribute("aria-label", "find a label");
  input.placeholder = "first letters of a label, Enter toggles it";
  input.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (event.key === "Escape") { finding = false; draw(); focus(); }
    if (event.key !== "Enter") return;
    event.preventDefault();
    const start = input.value.trim().toLowerCase();
    const found = start && (labelOrder(card).find((name) => name.toLowerCase().startsWith(start)) ||
      labelOrder(card).find((name) => name.toLowerCase().includes(start)));
    finding = false;
    if (found) toggle(found); else draw();
    focus();
  });
  box.append(input);
  return box;
}

function toggle(name) {
  if (data.single && !marked.has(name)) marked.clear();
  if (marked.has(name)) marked.delete(name); else marked.add(name);
  draw();
}

function answer(labels, accepted) {
  const card = current();
  history.push([card.id, answers.get(card.id)]);
  const after = data.labels.filter((name) => labels.has(name));
  answers.set(card.id, { asked: question(card), after: after, accepted: accepted, when: new Date().toISOString() });
  unsaved = true;
  remember();
  move(1);
}

function move(step) {
  at = Math.min(Math.max(at + step, 0), Math.max(shown.length - 1, 0));
  show();
  if (place.getBoundingClientRect().top < 0) place.scrollIntoView();
}

function undo() {
  const last = history.pop();
  if (!last) return;
  if (last[1]) answers.set(last[0], last[1]); else answers.delete(last[0]);
  unsaved = true;
  remember();
  const back = shown.findIndex((number) => data.cards[number].id === last[0]);
  if (back >= 0) at = back;
  show();
}

function act(key) {
  const card = current();
  if (!card) return;
  if (key === "y") { if (isPossible(card.proposed)) answer(new Set(card.proposed), true); }
  else if (key === "n") { if (card.given === null) move(1); else answer(new Set(card.given), false); }
  else if (key === "Enter") answer(marked, false);
  else if (key === "ArrowRight") move(1);
  else if (key === "ArrowLeft") move(-1);
  else if (key === "u") undo();
  else if (key === "/") { finding = true; draw(); document.querySelector(".find input").focus(); }
  else if (key >= "1" && key <= "9") {
    const name = labelOrder(card)[Number(key) - 1];
    if (name !== undefined) toggle(name);
  }
}

// The rows of a corrections file.
function corrections() {
  const rows = [data.columns];
  for (const card of data.cards) {
    const answer = answers.get(card.id);
    if (!answer) continue;
    const before = card.given || [];
    const changed = [...before, ...answer.after].filter((name) => before.includes(name) !== answer.after.includes(name));
    const decided = answer.accepted ? card.checked : [...card.checked, ...card.checked_too];
    const checked = card.given === null ? ["*"] : [...new Set([...decided, ...changed])];
    rows.push([card.id, before.join(data.separator), answer.after.join(data.separator),
      checked.join(data.separator), who.value.trim(), answer.when, card.kind]);
  }
  return rows;
}

function save() {
  saveCsv("corrections.csv", corrections());
  unsaved = false;
}

document.addEventListener("keydown", (event) => {
  const inside = event.target;
  if (event.ctrlKey || event.metaKey || event.altKey || inside === who || inside === kinds) return;
  if (event.key === "Enter" && inside.tagName === "BUTTON") return;
  // A key that is held must not answer items that nobody has looked at.
  if (event.repeat && !event.key.startsWith("Arrow")) return;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;  // Caps Lock does not matter
  if (key === "s") { save(); return; }
  if (["/", "ArrowRight", "ArrowLeft", "Enter"].includes(key)) event.preventDefault();
  act(key);
});
window.addEventListener("beforeunload", (event) => { if (unsaved) event.preventDefault(); });
document.getElementById("save").addEventListener("click", save);
who.addEventListener("change", remember);
kinds.addEventListener("change", () => { choose(kinds.value); focus(); });
const counts = new Map();
for (const card of data.cards) counts.set(card.kind, (counts.get(card.kind) || 0) + 1);
const options = [["", "all (" + data.cards.length + ")"], ...[...counts].map(([kind, count]) => [kind, kind + " (" + count + ")"])];
for (const [value, title] of options) {
  const option = make("option", title);
  option.value = value;
  kinds.append(option);
}
recall();
choose("");
focus();
