// @ts-check
// The page of one job: what the server tells is put where it belongs, and what people ask for is sent.

import { act, all, announce, confirmed, el, find, given, live, local, number, onKey, set, span, times, toast } from "./grus.js";
import { lineCharts } from "./lines.js";
import { draw, ran } from "./job_strip.js";
import { logs } from "./job_log.js";

const MOST_EVENTS = 300;
const CHARTS_EVERY = 5000; // milliseconds
const job = find("#job-id").textContent ?? "";
const path = `/v1/jobs/${encodeURIComponent(job)}`;

/** @type {Record<string, any>} */
const told = {};
/** @type {Map<number, any>} */
const events = new Map();
let drawn = 0; // when the strip was last drawn
let ahead = 0; // seconds by which the server's clock is ahead of this one
const board = lineCharts();
const log = logs(job);

const now = () => Date.now() / 1000 + ahead;

// ---------------------------------------------------------------------------------------------- showing

const show = {
  texts(/** @type {Record<string, string>} */ texts) {
    for (const place of all("[data-text]")) set(place, texts[place.dataset.text ?? ""] ?? "");
    for (const row of all("[data-row]")) row.hidden = !texts[row.dataset.row ?? ""];
    const badge = find("#badge");
    badge.className = `badge badge-${texts.badge}`;
    if (texts.badge === "failed") failureFirst();
    set(find("#tile-use"), texts.use || "–");
    const part = texts.done ? Number(texts.done) : null;
    const meter = /** @type {HTMLProgressElement} */ (find("#meter-done"));
    meter.hidden = part === null;
    meter.value = part ?? 0;
    set(find("#tile-done"), part === null ? "–" : `${Math.round(100 * part)}%`);
    set(find("#tile-progress"), texts.brief || "nothing reported yet");
    find("#life").setAttribute("aria-label", texts.summary ?? "");
    find("#plan").hidden = texts.ended === "yes";
    find("#open").hidden = texts.session !== "yes";
    const paused = texts.paused === "yes";
    find("[data-do=pause]").hidden = paused;
    find("[data-do=resume]").hidden = !paused;
  },

  moments(/** @type {Record<string, number | null>} */ moments) {
    for (const place of all("[data-moment]")) {
      const at = moments[place.dataset.moment ?? ""];
      const row = place.closest(".fact");
      if (row instanceof HTMLElement) row.hidden = !at;
      if (at) set(place, local(at));
    }
    find("#charts").hidden = !moments.started;
    for (const [name, half, most] of [["start", moments.start_p50, moments.start_p90], ["end", moments.end_p50, moments.end_p90]]) {
      const row = find(`#plan-${name}`);
      row.hidden = !half;
      set(row.querySelector("dd"), half ? `about ${short(Number(half))} (in ${span(Number(half) - now())}); ${most ? `nine in ten by ${short(Number(most))}` : "perhaps weeks later"}` : "");
    }
    const [value, label] = ending(moments);
    set(find("#tile-end"), value);
    set(find("#tile-end-label"), label);
  },

  buttons(/** @type {Record<string, string>} */ refusals) {
    for (const button of all("[data-do]")) {
      const why = refusals[button.dataset.do ?? ""] ?? "";
      /** @type {HTMLButtonElement} */ (button).disabled = why !== "";
      button.title = why;
    }
    const note = find("#may-not");
    note.hidden = !refusals.any;
    set(note, refusals.any ? `You can look, not touch: ${refusals.any}.` : "");
  },

  scale() {},

  why(/** @type {any} */ why) {
    set(find("#why-sentence"), why.sentence);
    const change = find("#why-change");
    change.hidden = !why.change;
    set(change, why.change ? `To start it now: ${why.change}.` : "");
    const holders = find("#why-holders");
    holders.hidden = !why.holders.length;
    holders.replaceChildren("Held by ", ...why.holders.flatMap(holder));
    const notes = find("#why-notes");
    notes.hidden = !why.notes.length;
    notes.replaceChildren(...why.notes.map((/** @type {string} */ note) => el("li", {}, note)));
  },

  strip() {
    drawn = now();
    draw(find("#life"), find("#life-told"), told.strip, now());
    set(find("#tile-ran"), span(ran(told.strip, now())));
  },

  attempts(/** @type {{rows: any[]}} */ { rows }) {
    find("#attempts").hidden = rows.length === 0;
    find("#attempts tbody").replaceChildren(
      ...rows.map((row) =>
        el(
          "tr",
          {},
          el("td", {}, row.number),
          el("td", { class: "nowrap" }, local(row.begin)),
          el("td", { class: "num" }, row.running === null ? "now" : span(row.running)),
          el("td", { class: "nowrap" }, row.sizes || "–"),
          el("td", {}, row.outcome ? `${row.outcome}: ${row.text}` : "it goes on"),
        ),
      ),
    );
  },

  workers(/** @type {{rows: any[], logs: number}} */ { rows, logs: many }) {
    find("#no-workers").hidden = rows.length > 0;
    find("#workers").hidden = rows.length === 0;
    find("#workers tbody").replaceChildren(...rows.map(worker));
    log.offer(Math.max(many, rows.filter((row) => row.number !== undefined).length));
  },
};

function holder(/** @type {any} */ one, /** @type {number} */ place) {
  const who = one.job ? el("a", { href: `/jobs/${encodeURIComponent(one.job)}` }, one.name || one.job) : "a job that you may not see";
  return [place ? ", " : "", who, ` (${one.gpus} GPU${one.gpus === "1" ? "" : "s"})`];
}

function worker(/** @type {any} */ row) {
  const meter = el("progress", { class: "meter", max: 1, value: row.use ?? 0, "aria-label": "In use" });
  const use = row.use === undefined || row.use === null ? "–" : el("div", { class: "workers-use" }, `${Math.round(100 * row.use)}%`, meter);
  return el(
    "tr",
    {},
    el("td", { class: "nowrap" }, row.number === undefined ? row.role : `${row.role} ${row.number}`),
    el("td", {}, row.end ? `${row.state}: ${row.end}` : row.state),
    el("td", { class: "nowrap" }, row.node ?? "–"),
    el("td", {}, row.gpus === undefined ? "–" : `${row.gpus}${row.devices ? ` (${row.devices})` : ""}`),
    el("td", { class: "nowrap" }, row.team || "–"),
    el("td", {}, use),
    el("td", { class: "num" }, row.memory || "–"),
    el("td", { class: "num" }, row.host || "–"),
    el("td", { class: "num" }, row.cores || "–"),
    el("td", { class: "num" }, row.pid ?? "–"),
  );
}

/** When it ends, or starts, and how sure that is. */
function ending(/** @type {Record<string, number | null | undefined>} */ at) {
  const by = (/** @type {number | null | undefined} */ late) => (late ? `nine in ten by ${short(late)}` : "perhaps weeks later");
  if (at.ended) return [short(at.ended), "ended"];
  if (at.start_p50) return [short(at.start_p50), `starts about then; ${by(at.start_p90)}`];
  if (at.end_p50) return [short(at.end_p50), `ends about then; ${by(at.end_p90)}`];
  return ["–", "its end is not known yet"];
}

function short(/** @type {number} */ at) {
  const words = local(at);
  return words.replace(/(\d\d:\d\d):\d\d/, "$1");
}

function apply(/** @type {Record<string, any>} */ parts) {
  if (parts.now) ahead = parts.now - Date.now() / 1000;
  const status = told.texts?.status;
  for (const [name, part] of Object.entries(parts)) if (name in show) told[name] = part;
  for (const [name, then] of Object.entries(show)) if (name in parts) then(parts[name]);
  if (status && told.texts.status !== status) {
    announce(`The job is ${told.texts.status}.`);
    void refresh();
  }
}

function happened(/** @type {any[]} */ rows) {
  for (const row of rows) events.set(row.seq, row);
  for (const seq of [...events.keys()].sort((a, b) => a - b).slice(0, -MOST_EVENTS)) events.delete(seq);
  const newest = [...events.values()].sort((a, b) => b.seq - a.seq);
  find("#events").replaceChildren(
    ...newest.map((row) =>
      el(
        "li",
        {},
        el("span", { class: "muted nowrap", title: new Date(1000 * row.at).toLocaleString() }, local(row.at)),
        el("span", { class: "kind" }, row.kind),
        el("span", { class: "text" }, row.text),
        el("span", { class: "muted nowrap" }, row.gpus ? `${number(row.gpus)} GPU${row.gpus === 1 ? "" : "s"}` : ""),
      ),
    ),
  );
}

/** The reason and the log of a failed job come before everything else. */
function failureFirst() {
  const place = find("#failure");
  if (place.contains(find("#log-card"))) return;
  place.append(find(".why"), find("#log-card"));
}

// ----------------------------------------------------------------------------------------------- charts

let back = "";
let timer = 0;

async function refresh() {
  clearTimeout(timer);
  if (!document.hidden && told.moments?.started) {
    const address = `/jobs/${encodeURIComponent(job)}/charts.json${back ? `?back=${back}` : ""}`;
    const figures = await act("GET", address, undefined, { quiet: true }).catch(() => null);
    if (figures) {
      find("#card-others").hidden = "missing" in figures.others;
      for (const [name, figure] of Object.entries(figures)) {
        find(`#card-${name}`).classList.toggle("bare", "missing" in figure);
        find(`#note-${name}`).hidden = !figure.note;
        set(find(`#note-${name}`), figure.note ?? "");
      }
      board.draw(figures);
    }
  }
  if (told.texts?.ended !== "yes") timer = setTimeout(() => void refresh(), CHARTS_EVERY);
}

for (const chip of all("[data-back]")) {
  chip.addEventListener("click", () => {
    back = chip.dataset.back ?? "";
    for (const other of all("[data-back]")) other.setAttribute("aria-pressed", String(other === chip));
    void refresh();
  });
}

// ---------------------------------------------------------------------------------------------- actions

const DONE = { pause: "It is asked to pause.", resume: "It waits for GPUs again.", stop: "Its processes are being ended." };

/** @type {Record<string, () => Promise<void>>} */
const actions = {
  async pause() {
    const loss = told.texts?.loses;
    if (!loss || (await confirmed("Pause this job?", { detail: `If it is paused, ${loss}.`, yes: "Pause it", danger: true }))) await ask("pause");
  },
  resume: () => ask("resume"),
  async stop() {
    const detail = "It ends for good and cannot be resumed. What it has not saved is lost.";
    if (await confirmed("Stop this job?", { detail, yes: "Stop it", danger: true })) await ask("stop");
  },
  async scale() {
    const { low, high, allowed, set: pinned } = told.scale;
    const dialog = /** @type {HTMLDialogElement} */ (find("#scale"));
    const [least, most] = ["#scale-low", "#scale-high"].map((one) => /** @type {HTMLInputElement} */ (find(one)));
    const sizes = allowed.length < high - low + 1 ? ` Sizes that it can use: ${allowed.join(", ")}.` : "";
    set(find("#scale-range"), `It was submitted for ${low} to ${high} ${high === 1 ? "worker" : "workers"} and has ${told.scale.now} now.${sizes}`);
    const [from, to] = (pinned || `${low}..${high}`).split("..");
    for (const field of [least, most]) Object.assign(field, { min: low, max: high });
    least.value = from;
    most.value = to ?? from;
    dialog.returnValue = "";
    dialog.showModal();
    await new Promise((closed) => dialog.addEventListener("close", closed, { once: true }));
    if (!dialog.returnValue) return;
    const size = dialog.returnValue === "auto" ? "auto" : `${least.value}..${most.value}`;
    await act("POST", `${path}/scale`, { size });
    toast(size === "auto" ? "It gets its submitted range back." : `It is scaled to ${size}.`, [], "good");
  },
};

async function ask(/** @type {"pause" | "resume" | "stop"} */ verb) {
  await act("POST", `${path}/${verb}`);
  toast(DONE[verb], [], "good");
}

/** A session opens in a tab of its own, which is made at once: browsers let no later one open. */
async function open() {
  const tab = window.open("about:blank", "_blank");
  if (tab) tab.opener = null;
  try {
    const { url } = await act("POST", `${path}/session`);
    if (tab) tab.location.replace(url);
    else location.assign(url);
  } catch {
    tab?.close();
  }
}

find("#open").addEventListener("click", () => void open());
for (const button of all("[data-do]")) {
  button.addEventListener("click", () => actions[button.dataset.do ?? ""]?.().catch(() => {}));
}
onKey("f", log.follow);

// ------------------------------------------------------------------------------------------------ start

/** As time goes on; the strip only when that can be seen: of a long life a second is less than a pixel. */
function tick() {
  const strip = told.strip;
  if (!strip || strip.end !== null || document.hidden) return;
  set(find("#tile-ran"), span(ran(strip, now())));
  if (now() - drawn > (now() - strip.begin) / Math.max(1, find("#life").clientWidth)) show.strip();
}

const first = given("told");
apply(first);
happened(first.events);
times();
live(`/live/jobs/${encodeURIComponent(job)}`, { job: apply, events: happened });
void refresh();
document.addEventListener("visibilitychange", () => document.hidden || void refresh());
setInterval(tick, 1000);
addEventListener("resize", () => told.strip && show.strip());
