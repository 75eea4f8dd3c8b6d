// @ts-check
// The page of a sweep: its trials in a table that can be sorted, its charts, and what people ask of it.

import { act, all, announce, confirmed, el, find, given, live, set, toast } from "./grus.js";
import { charts } from "./charts.js";

const CHARTS_EVERY = 4000; // milliseconds between two drawings, however much changes
const MOST_LINES = 500;

/**
 * @typedef {{number: number, job: string, state: string, status: string, best: boolean, value: number | null,
 *   value_words: string, reached: number | null, reached_words: string, hours: number, hours_words: string,
 *   gpus: string, ran: string, params: [any, string][], why: string}} Trial
 */

const id = find("#sweep-id").textContent ?? "";
const board = charts();
const headings = all("#trials th[data-sort]");
/** @type {Map<number, Trial>} */
const trials = new Map();
/** @type {Record<string, any>} */
const told = {};

// ---------------------------------------------------------------------------------------------- showing

/** @type {Record<string, (part: any) => void>} */
const show = {
  texts(texts) {
    for (const place of all("[data-text]")) set(place, texts[place.dataset.text ?? ""] ?? "");
    find("#badge").className = `badge badge-${texts.badge}`;
    find("[data-do=pause]").hidden = texts.paused === "yes";
    find("[data-do=resume]").hidden = texts.paused !== "yes";
  },

  buttons(refusals) {
    for (const button of all("[data-do]")) {
      const why = refusals[button.dataset.do ?? ""] ?? "";
      /** @type {HTMLButtonElement} */ (button).disabled = why !== "";
      button.title = why;
    }
    const note = find("#may-not");
    note.hidden = !refusals.any;
    set(note, refusals.any ? `You can look, not touch: ${refusals.any}.` : "");
  },

  best(best) {
    set(find("#best-value"), best.value);
    set(find("#best-label"), best.label);
    find("#winner").hidden = best.number === null;
    const link = find("#winner-link");
    set(link, `trial ${best.number}`);
    link.setAttribute("href", `/jobs/${encodeURIComponent(best.job)}`);
    find("#winner-params").replaceChildren(
      ...best.params.map((/** @type {[string, string]} */ [name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))),
    );
  },

  trials(/** @type {Trial[]} */ rows) {
    for (const row of rows) trials.set(row.number, row);
    list();
  },
};

function apply(/** @type {Record<string, any>} */ parts) {
  const status = told.texts?.status;
  for (const [name, part] of Object.entries(parts)) {
    if (!(name in show)) continue;
    told[name] = part;
    show[name]?.(part);
  }
  if (status && told.texts.status !== status) announce(`The sweep is ${told.texts.status}.`);
  soon();
}

// ------------------------------------------------------------------------------------------------ trials

/** What a trial is sorted by, under the chosen heading; null comes last. */
function key(/** @type {Trial} */ row, /** @type {HTMLElement} */ heading) {
  const by = heading.dataset.sort ?? "number";
  return by === "param" ? row.params[Number(heading.dataset.place)]?.[0] ?? null : Reflect.get(row, by);
}

function sorted() {
  const heading = headings.find((one) => one.ariaSort) ?? headings[0];
  const down = heading?.ariaSort === "descending" ? -1 : 1;
  return [...trials.values()].sort((one, other) => {
    const [a, b] = heading ? [key(one, heading), key(other, heading)] : [one.number, other.number];
    if (a === null || b === null) return Number(a === null) - Number(b === null) || one.number - other.number;
    return down * (a < b ? -1 : a > b ? 1 : 0) || one.number - other.number;
  });
}

function list() {
  const rows = sorted();
  find("#trials tbody").replaceChildren(...rows.slice(0, MOST_LINES).map(line));
  find("#trials").hidden = rows.length === 0;
  find("#no-trials").hidden = rows.length > 0;
  set(find("#more"), rows.length > MOST_LINES ? `the first ${MOST_LINES} of ${rows.length}; grus sweep show ${id} has all` : "");
}

function line(/** @type {Trial} */ row) {
  const names = headings.filter((one) => one.dataset.sort === "param").map((one) => one.textContent ?? "");
  const cell = (/** @type {string} */ label, /** @type {string} */ text, kind = "num") => el("td", { class: kind, "data-label": label }, text);
  return el(
    "tr",
    { class: row.best ? "best" : null },
    el("td", { "data-label": "Trial" }, el("a", { href: `/jobs/${encodeURIComponent(row.job)}` }, row.number), row.best ? " ★ best" : ""),
    el("td", { "data-label": "State" }, el("span", { class: `badge badge-${row.state}` }, row.status)),
    cell(find("#trials th[data-sort=value]").textContent ?? "", row.value_words),
    ...row.params.map(([, words], place) => cell(names[place] ?? "", words)),
    cell(find("#trials th[data-sort=reached]").textContent ?? "", row.reached_words),
    cell("GPU-hours", row.hours_words),
    cell("GPUs", row.gpus || "–"),
    cell("Ran", row.ran),
    el("td", { class: "full why" }, row.why),
  );
}

for (const heading of headings) {
  heading.addEventListener("click", () => {
    const rises = heading.ariaSort !== "ascending";
    for (const other of headings) other.ariaSort = null;
    heading.ariaSort = rises ? "ascending" : "descending";
    list();
  });
}

// ------------------------------------------------------------------------------------------------ charts

let timer = 0;
let drawn = 0;

/** Draws the charts, now or when the last drawing is long enough ago. */
function soon() {
  clearTimeout(timer);
  timer = setTimeout(() => void refresh(), Math.max(0, drawn + CHARTS_EVERY - Date.now()));
}

async function refresh() {
  if (document.hidden) return;
  drawn = Date.now();
  const figures = await act("GET", `/sweeps/${encodeURIComponent(id)}/charts.json`, undefined, { quiet: true }).catch(() => null);
  if (!figures) return;
  for (const [name, figure] of Object.entries(figures)) find(`#card-${name}`).classList.toggle("bare", "missing" in figure);
  await board.draw(figures);
}

// ----------------------------------------------------------------------------------------------- actions

const DONE = { pause: "Its trials are asked to pause.", resume: "Its trials go on.", stop: "Its trials are being ended." };

async function ask(/** @type {"pause" | "resume" | "stop"} */ verb) {
  const detail = "Its trials end for good. What they reached is kept.";
  if (verb === "stop" && !(await confirmed("Stop this sweep?", { detail, yes: "Stop it", danger: true }))) return;
  const loss = told.texts?.loses;
  if (verb === "pause" && loss && !(await confirmed("Pause this sweep?", { detail: `If it is paused, ${loss}.`, yes: "Pause it", danger: true }))) return;
  await act("POST", `/v1/jobs/${encodeURIComponent(id)}/${verb}`);
  toast(DONE[verb], [], "good");
}

for (const button of all("[data-do]")) {
  button.addEventListener("click", () => ask(/** @type {"pause" | "resume" | "stop"} */ (button.dataset.do)).catch(() => {}));
}

// ------------------------------------------------------------------------------------------------- start

apply(given("told"));
live(`/live/sweeps/${encodeURIComponent(id)}`, { sweep: apply });
document.addEventListener("visibilitychange", () => document.hidden || soon());
