// @ts-check
// History: asks for the figures of a time, fills the page with them, and has the simulator say whether to buy.

import { act, all, announce, el, find, set } from "./grus.js";
import { charts } from "./charts.js";

const ASK_EVERY = 400; // milliseconds between two questions how far the simulator is

/** @typedef {{figure: string, words: string, part: number | null}} Tile */
/** @typedef {{name: string, hours: string, percent: string, part: number, what: string}} Cause */
/** @typedef {{id: string, name: string, phase: string, state: string, cells: string[]}} Row */

const drawn = charts();
const form = /** @type {HTMLFormElement} */ (find("#scope"));
const choice = /** @type {HTMLSelectElement} */ (find("select[name=queue]"));
const button = /** @type {HTMLButtonElement} */ (find("#buy"));
let asked = 0;

function scope() {
  const last = find("[data-last][aria-pressed=true]").dataset.last ?? "7d";
  const query = new URLSearchParams({ last });
  if (choice.value) query.set("queue", choice.value);
  return query.toString();
}

async function load() {
  const mine = (asked += 1);
  set(find("#window"), "Gathering …");
  try {
    const found = await act("GET", `/history.json?${scope()}`);
    if (mine === asked) await show(found);
  } catch (error) {
    set(find("#window"), "The figures could not be gathered. Load the page again.");
    throw error;
  }
}

async function show(/** @type {any} */ found) {
  const day = (/** @type {number} */ at) => new Date(1000 * at).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
  set(find("#window"), `${day(found.since)} – ${day(found.until)}`);
  for (const place of all("[data-unit]")) set(place, found.unit);
  for (const place of all("[data-tile]")) tile(place, found.tiles[place.dataset.tile ?? ""]);
  find("#waste").replaceChildren(...found.waste.map(cause));
  find("#queues").replaceChildren(...rowsOr(found.queues.map(cells), 6, "No job was there in this time."));
  find("#jobs").replaceChildren(...rowsOr(found.jobs.map(job), 10, "No jobs yet. Submit one, and come back when it has run."));
  find("#notes").replaceChildren(...found.notes.map((/** @type {string} */ note) => el("p", {}, note)));
  set(find("#cost"), found.cost);
  set(find("#completion"), found.completion);
  set(find("#more"), found.more ? `and ${found.more} more; grus report -o json lists them` : "");
  announce("The figures are there.");
  await drawn.draw(found.charts);
}

function tile(/** @type {HTMLElement} */ place, /** @type {Tile} */ told) {
  set(find("[data-of=figure]", place), told.figure);
  set(find("[data-of=words]", place), told.words);
  const meter = place.querySelector("progress");
  if (meter) meter.value = Math.min(100, told.part ?? 0);
}

function cause(/** @type {Cause} */ one) {
  return el(
    "tr",
    {},
    el("td", {}, one.name, el("span", { class: "small" }, one.what)),
    el("td", { class: "num" }, one.hours),
    el("td", { class: "num" }, one.percent),
    el("td", {}, el("progress", { class: "meter warn", max: 100, value: Math.min(100, one.part), "aria-label": `${one.name}, part of capacity` })),
  );
}

function cells(/** @type {string[]} */ row) {
  return el("tr", {}, ...row.map((cell, place) => el("td", { class: place ? "num" : null }, cell)));
}

function job(/** @type {Row} */ one) {
  return el(
    "tr",
    {},
    el("td", {}, el("a", { href: `/jobs/${encodeURIComponent(one.id)}` }, one.name)),
    el("td", {}, el("span", { class: `badge badge-${one.state}` }, one.phase)),
    ...one.cells.map((cell, place) => el("td", { class: place > 1 ? "num" : null }, cell)),
  );
}

function rowsOr(/** @type {HTMLElement[]} */ rows, /** @type {number} */ width, /** @type {string} */ empty) {
  return rows.length ? rows : [el("tr", {}, el("td", { class: "empty", colspan: width }, empty))];
}

// ------------------------------------------------------------------------------------------------- buying

async function buy() {
  button.disabled = true;
  advise(["The simulator plays these jobs again …"]);
  try {
    let told = await act("POST", `/history/buy?${scope()}`);
    while (told.under_way) {
      far(told);
      await new Promise((then) => setTimeout(then, ASK_EVERY));
      told = await act("GET", "/history/buy");
    }
    advise(told.answer ? [...told.answer.sentences, ...told.answer.notes] : [`There is no answer: ${told.text}`]);
  } catch (error) {
    advise([]);
  } finally {
    button.disabled = false;
    find("#far").hidden = true;
  }
}

function far(/** @type {{done: number, of: number}} */ told) {
  const meter = /** @type {HTMLProgressElement} */ (find("#far"));
  meter.hidden = !told.of;
  meter.value = told.of ? (100 * told.done) / told.of : 0;
}

function advise(/** @type {string[]} */ sentences) {
  find("#advice").replaceChildren(...sentences.map((sentence) => el("p", {}, sentence)));
}

// -------------------------------------------------------------------------------------------------- start

for (const chip of all("[data-last]")) {
  chip.addEventListener("click", () => {
    for (const other of all("[data-last]")) other.setAttribute("aria-pressed", String(other === chip));
    changed();
  });
}
choice.addEventListener("change", changed);
form.addEventListener("submit", (event) => event.preventDefault());
button.addEventListener("click", () => void buy());

function changed() {
  window.history.replaceState(null, "", `/history?${scope()}`);
  find("#file").setAttribute("href", `/history/report.html?${scope()}`);
  advise([]);
  void load();
}

void load();
