// @ts-check
// The Simulate page: the form is a question; how far its answer is comes by a stream, the answer when it is done.
import { act, all, announce, el, find, live, mistake, Refused, set } from "./grus.js";
import { charts } from "./charts.js";

const form = /** @type {HTMLFormElement} */ (find("#question"));
const run = /** @type {HTMLButtonElement} */ (find("#run"));
const drawn = charts(find("#charts"));
let shown = 0; // number of the simulation whose answer is on the page
let waited = false; // whether the reader has asked for the one under way, here and now

/** @typedef {{field: string, rule: string, value?: string}} Mistake */
/** @typedef {{number?: number, stage: string, under_way?: boolean, done: number, of: number, text: string,
 *  mistakes?: Mistake[], other: string}} Play */

// ---------------------------------------------------------------------------------------------------- form

const field = (/** @type {string} */ name) => /** @type {HTMLInputElement} */ (form.elements.namedItem(name));
const source = () => String(new FormData(form).get("source") ?? "synthetic");

form.addEventListener("change", () => {
  find("#made-up").hidden = source() !== "synthetic";
});

function question() {
  const removed = form.elements.namedItem("remove");
  /** @type {Record<string, number>} */
  const quotas = {};
  for (const input of all("[data-quota]", form)) {
    const { value } = /** @type {HTMLInputElement} */ (input);
    if (value !== "") quotas[input.dataset.quota ?? ""] = Number(value);
  }
  return {
    source: source(),
    days: Number(field("days").value),
    jobs: Number(field("jobs").value),
    seed: Number(field("seed").value),
    nodes: field("nodes").value.trim(),
    add_nodes: field("add_nodes").value.trim(),
    remove: removed instanceof HTMLSelectElement ? [...removed.selectedOptions].map((one) => one.value) : [],
    quotas,
    load: Number(field("load").value),
    policy: field("policy").value,
    seeds: Number(field("seeds").value),
    static: field("static").checked,
    faults: field("faults").value.trim(),
  };
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  trouble("");
  run.disabled = true;
  try {
    await act("POST", "/simulate", question(), { quiet: true });
    waited = true;
  } catch (error) {
    run.disabled = false;
    const found = error instanceof Refused ? error.mistakes : [];
    const text = error instanceof Error ? error.message : String(error);
    trouble(found.length ? "This cannot be simulated:" : text, found);
  }
});

find("#stop").addEventListener("click", () => void act("POST", "/simulate/stop"));

// ------------------------------------------------------------------------------------------------- progress

live("/live/simulation", { play: take });

function take(/** @type {Play} */ play) {
  const mine = play.under_way ?? false;
  run.disabled = mine || play.other !== "";
  find("#stop").hidden = !mine;
  find("#under-way").hidden = !mine;
  find("#other").hidden = !play.other;
  set(find("#other"), play.other ? `A simulation of ${play.other} is under way; they go one at a time.` : "");
  if (mine) progress(play);
  else if (play.stage === "done" && play.number !== shown) void answered(play.number ?? 0);
  else if (waited) ended(play);
  if (!mine) waited = false;
}

function progress(/** @type {Play} */ play) {
  waited = true;
  find("#nothing").hidden = true;
  const bar = /** @type {HTMLProgressElement} */ (find("#progress"));
  if (play.of) {
    bar.max = play.of;
    bar.value = play.done;
  } else bar.removeAttribute("value");
  const begins = play.stage === "gathering" ? "The jobs are being gathered …" : "The simulation begins …";
  set(find("#how-far"), play.of ? `${play.done} of ${play.of} simulated jobs have ended` : begins);
}

function ended(/** @type {Play} */ play) {
  const words = { refused: "This cannot be simulated:", stopped: `Stopped: ${play.text}.`, failed: play.text };
  trouble(words[/** @type {keyof typeof words} */ (play.stage)] ?? "", play.mistakes ?? []);
}

function trouble(/** @type {string} */ text, /** @type {Mistake[]} */ mistakes = []) {
  const place = find("#trouble");
  place.hidden = !text;
  set(find("h2", place), text);
  const told = mistakes.slice(0, 20).map((one) => mistake(one) + (one.value ? ` (found ${one.value})` : ""));
  if (mistakes.length > 20) told.push(`and ${mistakes.length - 20} more`);
  find("ul", place).replaceChildren(...told.map((one) => el("li", {}, one)));
}

// --------------------------------------------------------------------------------------------------- answer

async function answered(/** @type {number} */ number) {
  shown = number;
  const fresh = waited;
  const found = await act("GET", "/simulate/answer");
  trouble("");
  find("#nothing").hidden = true;
  find("#answer").hidden = false;
  set(find("#answer-title"), found.title);
  const sentences = found.sentences.length ? found.sentences : ["Nothing would be different: this is how it is."];
  find("#sentences").replaceChildren(...sentences.map((/** @type {string} */ one) => el("p", { class: "notice" }, one)));
  find("#notes").replaceChildren(...found.notes.map((/** @type {string} */ one) => el("li", {}, one)));
  find("#tables").replaceChildren(...found.tables.map(table));
  find("#charts").replaceChildren(...found.charts.map(place));
  if (fresh) {
    find("#answer").scrollIntoView({ block: "start" });
    announce(sentences[0]);
  }
  /** @type {Record<string, any>} */
  const figures = {};
  for (const chart of found.charts) figures[chart.name] = parted(chart.figure);
  await drawn.draw(figures);
}

function table(/** @type {{title: string, heading: string[], rows: string[][]}} */ told) {
  const cell = (/** @type {string} */ tag) => (/** @type {string} */ text, /** @type {number} */ at) => el(tag, { class: at ? "num" : null }, text);
  return el(
    "section",
    { class: "card" },
    el("h2", {}, told.title),
    el(
      "div",
      { class: "scroll" },
      el(
        "table",
        { class: "table" },
        el("thead", {}, el("tr", {}, ...told.heading.map(cell("th")))),
        el("tbody", {}, ...told.rows.map((row) => el("tr", {}, ...row.map(cell("td"))))),
      ),
    ),
  );
}

function place(/** @type {{name: string, title: string, note: string}} */ chart) {
  return el(
    "section",
    { class: chart.name.startsWith("jobs") ? "card wide" : "card" },
    el("h2", {}, chart.title),
    el("p", { class: "muted small" }, chart.note),
    el("div", { class: "chart", "data-chart": chart.name }, el("p", { class: "loading" }, "The chart is being drawn …")),
  );
}

/** Bars of jobs are parted by a line in the colour of what is behind them. */
function parted(/** @type {any} */ figure) {
  for (const trace of figure.data) if (trace.type === "bar" && trace.marker?.line) trace.marker.line.color = "--surface";
  return figure;
}
