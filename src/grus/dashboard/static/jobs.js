// @ts-check
// The list of jobs: what is filtered and sorted is the server's business and stands in the address; here lines
// are kept as they change, and picked ones are acted on, one answer each.
import { act, announce, confirmed, el, all, find, live, local, onKey, set, span, times } from "./grus.js";

const form = /** @type {HTMLFormElement} */ (find("#filters"));
const body = find("#rows");
const pattern = /** @type {HTMLTemplateElement} */ (find("#line"));
const first = Number(form.dataset.first);
const most = Number(form.dataset.most);
const AT_ONCE = 6; // changes under way at the same time
const PAUSE = 150; // milliseconds after the last letter of a filter

/** @typedef {{id: string, name: string, user: string, queue: string, state: string, status: string, type: string,
 *  priority: number, gpus: string, holds: boolean, submitted: number, since: number | null, lasted: number | null,
 *  starts: number | null, why: string}} Row */

/** @type {Map<string, HTMLElement>} */
const lines = new Map(all("tr", body).map((line) => [line.dataset.id ?? "", line]));
/** @type {Map<string, string>} id and name */
const picked = new Map();
let rows = Number(form.dataset.rows);
let total = body.children.length;

// ------------------------------------------------------------------------------------------------ address

function query() {
  const wanted = new URLSearchParams();
  for (const name of ["q", "queue", "user", "type"]) {
    const value = /** @type {HTMLInputElement} */ (form.elements.namedItem(name)).value;
    if (value) wanted.set(name, value);
  }
  for (const chip of all('.chip[data-state][aria-pressed="true"]', form)) wanted.append("state", chip.dataset.state ?? "");
  const sorted = document.querySelector("th[aria-sort]");
  if (sorted instanceof HTMLElement && sorted.dataset.sort) {
    const down = sorted.getAttribute("aria-sort") === "descending";
    if (sorted.dataset.sort !== "submitted" || !down) {
      wanted.set("sort", sorted.dataset.sort);
      wanted.set("order", down ? "down" : "up");
    }
  }
  return wanted;
}

let feed = follow();
let spoken = true; // whether the new total has been told to those who listen

function follow() {
  const wanted = query();
  if (rows > first) wanted.set("rows", String(rows));
  return live(`/live/jobs?${wanted}`, { jobs: take });
}

/** Another filter or order: into the address, and ask for it. */
function changed() {
  rows = first;
  spoken = false;
  const words = query().toString();
  history.replaceState(null, "", words ? `/jobs?${words}` : "/jobs");
  again();
}

function again() {
  feed.close();
  feed = follow();
}

// -------------------------------------------------------------------------------------------------- lines

function take(/** @type {{rows?: Row[], order?: string[], figures?: any}} */ told) {
  for (const row of told.rows ?? []) fill(row);
  if (told.order) arrange(told.order);
  if (told.figures) figures(told.figures);
  times(body);
  showPicked();
}

function fill(/** @type {Row} */ row) {
  let line = lines.get(row.id);
  if (!line) {
    line = /** @type {HTMLElement} */ (pattern.content.firstElementChild?.cloneNode(true));
    line.dataset.id = row.id;
    find("input", line).setAttribute("aria-label", `Select ${row.name}`);
    find("a", line).setAttribute("href", `/jobs/${encodeURIComponent(row.id)}`);
    lines.set(row.id, line);
  }
  for (const cell of all("[data-of]", line)) put(cell, cell.dataset.of ?? "", row);
}

function put(/** @type {HTMLElement} */ cell, /** @type {string} */ name, /** @type {Row} */ row) {
  if (name === "submitted") {
    if (cell.dataset.at !== String(row.submitted)) {
      cell.dataset.at = String(row.submitted);
      cell.removeAttribute("title");
    }
  } else if (name === "time") {
    if (row.since === null) delete cell.dataset.since;
    else cell.dataset.since = String(row.since);
    if (row.since === null) set(cell, row.lasted === null ? "" : span(row.lasted));
  } else if (name === "why") {
    const text = row.starts === null ? row.why : `starts about ${local(row.starts)} · ${row.why}`;
    set(cell, text);
    if (cell.title !== text) cell.title = text;
  } else {
    set(cell, row[/** @type {keyof Row} */ (name)]);
    if (name === "user" || name === "queue") cell.title = row[name];
    if (name === "status") cell.className = `badge badge-${row.state}`;
    if (name === "gpus") cell.classList.toggle("muted", !row.holds);
  }
}

/** Puts the lines into this order and touches only those that are elsewhere. */
function arrange(/** @type {string[]} */ order) {
  const kept = new Set(order);
  let at = body.firstElementChild;
  for (const id of order) {
    const line = lines.get(id);
    if (!line) continue;
    while (at && at !== line && !kept.has(/** @type {HTMLElement} */ (at).dataset.id ?? "")) at = dropped(at);
    if (line === at) at = at.nextElementSibling;
    else body.insertBefore(line, at);
  }
  while (at) at = dropped(at);
}

function dropped(/** @type {Element} */ line) {
  const next = line.nextElementSibling;
  lines.delete(/** @type {HTMLElement} */ (line).dataset.id ?? "");
  line.remove();
  return next;
}

function figures(/** @type {any} */ told) {
  total = told.total;
  set(find("#total"), `${told.total} of ${told.everything}`);
  find("#filling").hidden = told.full;
  find("#no-jobs").hidden = told.everything > 0 || !told.full;
  find("#no-match").hidden = told.total > 0 || told.everything === 0;
  for (const [state, count] of Object.entries(told.counts)) set(document.querySelector(`[data-count="${state}"]`), count);
  for (const [name, values] of Object.entries(told.choices)) offer(name, /** @type {string[]} */ (values));
  const more = find("#more");
  more.hidden = total <= rows;
  set(more, rows < most ? "More …" : `The first ${most} are shown; a filter finds the others.`);
  if (!spoken) announce(total === 1 ? "1 job matches" : `${total} jobs match`);
  spoken = true;
}

/** What a list offers to choose from; what is chosen stays. */
function offer(/** @type {string} */ name, /** @type {string[]} */ values) {
  const list = /** @type {HTMLSelectElement} */ (form.elements.namedItem(name));
  const chosen = list.value;
  const wanted = chosen && !values.includes(chosen) ? [...values, chosen] : values;
  if ([...list.options].slice(1).map((one) => one.value).join("\n") === wanted.join("\n")) return;
  while (list.options.length > 1) list.remove(1);
  for (const value of wanted) list.append(el("option", { selected: value === chosen }, value));
}

// ------------------------------------------------------------------------------------------------ filters

let typing = 0;
form.addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(changed, PAUSE);
});
form.addEventListener("change", showMine);
form.addEventListener("submit", (event) => {
  event.preventDefault();
  clearTimeout(typing);
  changed();
});
for (const chip of all(".chip[data-state]", form)) {
  chip.addEventListener("click", () => {
    chip.setAttribute("aria-pressed", String(chip.getAttribute("aria-pressed") !== "true"));
    changed();
  });
}
find("#mine").addEventListener("click", () => {
  const list = /** @type {HTMLSelectElement} */ (form.elements.namedItem("user"));
  const me = find("#mine").dataset.user ?? "";
  if (list.value === me) list.value = "";
  else {
    if (![...list.options].some((one) => one.value === me)) list.append(el("option", {}, me));
    list.value = me;
  }
  showMine();
  changed();
});
find("#reset").addEventListener("click", () => {
  for (const name of ["q", "queue", "user", "type"]) /** @type {HTMLInputElement} */ (form.elements.namedItem(name)).value = "";
  for (const chip of all(".chip", form)) chip.setAttribute("aria-pressed", "false");
  changed();
});

function showMine() {
  const list = /** @type {HTMLSelectElement} */ (form.elements.namedItem("user"));
  find("#mine").setAttribute("aria-pressed", String(list.value === find("#mine").dataset.user));
}

for (const heading of all("th[data-sort]")) {
  find("button", heading).addEventListener("click", () => {
    const before = heading.getAttribute("aria-sort");
    for (const other of all("th[aria-sort]")) other.removeAttribute("aria-sort");
    const down = before ? before === "ascending" : "falls" in heading.dataset;
    heading.setAttribute("aria-sort", down ? "descending" : "ascending");
    changed();
  });
}

// The list grows when its end is seen.
new IntersectionObserver((seen) => {
  if (!seen.some((one) => one.isIntersecting) || total <= rows || rows >= most) return;
  rows = Math.min(rows + first, most);
  again();
}, { rootMargin: "600px" }).observe(find("#more"));

// ------------------------------------------------------------------------------------------------- picking

let last = /** @type {string | null} */ (null); // the line that was picked last, for a stretch with Shift

body.addEventListener("click", (event) => {
  const box = event.target;
  if (!(box instanceof HTMLInputElement)) return;
  const line = /** @type {HTMLElement} */ (box.closest("tr"));
  const stretch = event.shiftKey && last ? between(last, line.dataset.id ?? "") : [line];
  for (const one of stretch) pick(one, box.checked);
  last = line.dataset.id ?? null;
  showPicked();
});

function between(/** @type {string} */ from, /** @type {string} */ to) {
  const order = all("tr", body);
  const ends = [from, to].map((id) => order.findIndex((line) => line.dataset.id === id)).sort((a, b) => a - b);
  return (ends[0] ?? -1) < 0 ? [] : order.slice(ends[0], (ends[1] ?? 0) + 1);
}

function pick(/** @type {HTMLElement} */ line, /** @type {boolean} */ on) {
  const id = line.dataset.id ?? "";
  if (on) picked.set(id, find("[data-of=name]", line).textContent ?? id);
  else picked.delete(id);
}

find("#all").addEventListener("click", () => {
  const on = /** @type {HTMLInputElement} */ (find("#all")).checked;
  for (const line of all("tr", body)) pick(line, on);
  showPicked();
});
find("#none").addEventListener("click", clear);
find("#everything").addEventListener("click", async () => {
  const found = await act("GET", `/jobs.json?${query()}`);
  for (const id of found.ids) if (!picked.has(id)) picked.set(id, lines.get(id)?.querySelector("[data-of=name]")?.textContent ?? id);
  showPicked();
});

function clear() {
  picked.clear();
  last = null;
  showPicked();
}

function showPicked() {
  for (const line of all("tr", body)) {
    const on = picked.has(line.dataset.id ?? "");
    const box = /** @type {HTMLInputElement} */ (line.querySelector("input"));
    if (box.checked !== on) box.checked = on;
    if (on) line.setAttribute("aria-selected", "true");
    else line.removeAttribute("aria-selected");
  }
  const box = /** @type {HTMLInputElement} */ (find("#all"));
  const shown = all("tr[aria-selected]", body).length;
  box.checked = shown > 0 && shown === body.children.length;
  box.indeterminate = shown > 0 && !box.checked;
  find("#bulk").hidden = picked.size === 0;
  set(find("#picked"), `${picked.size} selected`);
  const rest = find("#everything");
  rest.hidden = total <= picked.size || total <= body.children.length;
  set(rest, `Select all ${Math.min(total, most)} that match`);
}

// ---------------------------------------------------------------------------------------------------- keys

/** The link of the line that is `by` lines further than the one that has the focus. */
function step(/** @type {number} */ by) {
  const order = all("tr", body);
  const at = order.findIndex((line) => line.contains(document.activeElement));
  const next = order[at < 0 ? 0 : Math.min(Math.max(at + by, 0), order.length - 1)];
  if (next) find("a", next).focus();
}

onKey("j", () => step(1));
onKey("k", () => step(-1));
onKey("x", () => /** @type {HTMLElement | null} */ (document.activeElement?.closest("#rows tr")?.querySelector("input"))?.click());
for (const [keys, what] of [["j", "Next line"], ["k", "Line before"], ["x", "Select the line"]]) {
  find("#keys tbody").append(el("tr", {}, el("td", {}, el("kbd", {}, keys)), el("td", {}, what)));
}

// -------------------------------------------------------------------------------------------------- acting

const WORDS = {
  pause: { ask: "Pause", done: "asked to pause", detail: "They give their GPUs back until they are resumed. Those without a checkpoint lose their work and restart from zero." },
  resume: { ask: "Resume", done: "resumed", detail: "They compete for GPUs again." },
  stop: { ask: "Stop", done: "asked to stop", detail: "They end for good; this cannot be taken back." },
};

for (const button of all("#bulk [data-do]")) {
  button.addEventListener("click", async () => {
    const verb = /** @type {keyof typeof WORDS} */ (button.dataset.do);
    const words = WORDS[verb];
    const chosen = [...picked];
    const some = chosen.slice(0, 5).map(([, name]) => name).join(", ") + (chosen.length > 5 ? " …" : "");
    const what = chosen.length === 1 ? "1 job" : `${chosen.length} jobs`;
    const sure = await confirmed(`${words.ask} ${what}?`, { detail: `${words.detail} (${some})`, yes: words.ask, danger: verb === "stop" });
    if (sure) await each(verb, chosen);
  });
}

/** Asks for each job on its own; one that refuses does not hold up the others. */
async function each(/** @type {keyof typeof WORDS} */ verb, /** @type {[string, string][]} */ chosen) {
  const dialog = /** @type {HTMLDialogElement} */ (find("#answers"));
  const bar = /** @type {HTMLProgressElement} */ (find("#answers-progress"));
  const list = find("#answers-rows");
  list.replaceChildren();
  bar.max = chosen.length;
  bar.value = 0;
  const left = [...chosen];
  let well = 0;
  let refused = 0;
  const tell = () => set(find("#answers-title"), `${well} ${WORDS[verb].done}${refused ? `, ${refused} refused` : ""} (of ${chosen.length})`);
  tell();
  dialog.showModal();

  async function worker() {
    for (let next = left.shift(); next; next = left.shift()) {
      const [id, name] = next;
      try {
        const job = await act("POST", `/v1/jobs/${encodeURIComponent(id)}/${verb}`, undefined, { quiet: true });
        well += 1;
        picked.delete(id);
        list.append(answer(id, name, `✓ ${job.status}`));
      } catch (error) {
        refused += 1;
        list.prepend(answer(id, name, `✕ ${error instanceof Error ? error.message : error}`, "error"));
      }
      bar.value += 1;
      tell();
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  announce(find("#answers-title").textContent ?? "");
  showPicked();
}

function answer(/** @type {string} */ id, /** @type {string} */ name, /** @type {string} */ text, kind = "") {
  return el("tr", { "data-id": id }, el("td", {}, name), el("td", { class: "muted mono small" }, id), el("td", { class: kind }, text));
}
