// @ts-check
// The Submit page: what would happen is asked for while one writes; mistakes point to their lines.
import { act, announce, el, find, local, Refused, set, toast } from "./grus.js";

const form = /** @type {HTMLFormElement} */ (find("#file"));
const text = /** @type {HTMLTextAreaElement} */ (find("#text"));
const folder = /** @type {HTMLInputElement} */ (find("#folder"));
const example = /** @type {HTMLSelectElement} */ (find("#example"));
const button = /** @type {HTMLButtonElement} */ (find("#submit"));
const lines = find("#lines");
const PAUSE = 400; // milliseconds after the last letter
const DRAFT = "grus-draft";

/** @typedef {{field: string, rule: string, value?: string, line?: number | null}} Mistake */

// ------------------------------------------------------------------------------------------------- editor

function number(/** @type {Set<number>} */ wrong = new Set()) {
  const count = text.value.split("\n").length;
  lines.replaceChildren(
    ...Array.from({ length: count }, (_, at) => el("span", { class: wrong.has(at + 1) ? "wrong" : null }, at + 1)),
  );
  lines.scrollTop = text.scrollTop;
}

text.addEventListener("scroll", () => (lines.scrollTop = text.scrollTop));
text.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  if (event.key === "Tab" && !event.shiftKey && text.selectionStart === text.selectionEnd && lineBefore().trim() === "") {
    event.preventDefault(); // spaces where a line begins: YAML takes no tabs
    text.setRangeText("  ", text.selectionStart, text.selectionEnd, "end");
    changed();
  }
});

function lineBefore() {
  return text.value.slice(text.value.lastIndexOf("\n", text.selectionStart - 1) + 1, text.selectionStart) || "-";
}

function goTo(/** @type {number} */ line) {
  const all = text.value.split("\n");
  const begin = all.slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
  text.focus();
  text.setSelectionRange(begin, begin + (all[line - 1] ?? "").length);
  text.scrollTop = Math.max(0, (line - 5) * (text.scrollHeight / all.length));
}

example.addEventListener("change", () => {
  text.value = example.value;
  text.focus();
  changed();
});

// --------------------------------------------------------------------------------------------------- plan

let timer = 0;
let asked = 0; // number of the newest question: an answer to an older one is not shown
let key = "";

function changed() {
  number();
  key = "";
  sessionStorage.setItem(DRAFT, JSON.stringify([text.value, folder.value]));
  find("#plan").setAttribute("aria-busy", "true");
  asked += 1;
  clearTimeout(timer);
  timer = setTimeout(plan, PAUSE);
}

const file = () => ({ text: text.value, folder: folder.value.trim() });

async function plan() {
  const mine = (asked += 1);
  try {
    const found = await act("POST", "/submit/plan", file(), { quiet: true });
    if (mine !== asked) return;
    if (found.mistakes.length || found.refused) showRefusal(found.refused, found.mistakes);
    else showPlans(found.jobs);
  } catch (error) {
    if (mine === asked) showRefusal(error instanceof Error ? error.message : String(error));
  }
}

function showPlans(/** @type {any[]} */ jobs) {
  find("#mistakes").replaceChildren();
  number();
  find("#plans").replaceChildren(...jobs.map(planned));
  find("#plan").setAttribute("aria-busy", "false");
}

function planned(/** @type {any} */ job) {
  const { plan } = job;
  const state = !plan.fits ? "failed" : plan.starts === "now" ? "running" : "pending";
  const word = !plan.fits ? "does not fit" : plan.starts === "now" ? "starts now" : "starts later";
  const eta = plan.eta ?? {};
  const facts = [
    ["asks for", `${job.request} GPU · queue ${job.queue}`],
    ["gets", plan.sizing],
    ["launch", plan.launch],
    ["on", plan.nodes.join(", ")],
    ["will start", plan.starts === "later" && eta.start_p50 ? `about ${local(eta.start_p50)}` : ""],
    ["will end", eta.end_p50 ? `about ${local(eta.end_p50)}` : eta.unknown ? `unknown: ${eta.unknown}` : ""],
    ["sooner", plan.change],
  ].filter(([, said]) => said);
  return el(
    "article",
    { class: "planned" },
    el("h3", {}, job.name, " ", el("span", { class: `badge badge-${state}` }, word)),
    el("p", { class: "verdict" }, plan.sentence),
    el("dl", { class: "facts" }, ...facts.flatMap(([name, said]) => [el("dt", {}, name), el("dd", {}, said)])),
    ...plan.warnings.map((/** @type {string} */ one) => el("p", { class: "warning" }, `Warning: ${one}.`)),
    plan.affected.length ? el("p", { class: "muted" }, "Others that it touches:") : null,
    plan.affected.length
      ? el("ul", {}, ...plan.affected.map((/** @type {any} */ one) => el("li", {}, el("a", { href: `/jobs/${encodeURIComponent(one.job)}` }, one.job), ` ${one.action}: ${one.reason}`)))
      : null,
  );
}

function showRefusal(/** @type {string} */ why, /** @type {Mistake[]} */ found = []) {
  const list = find("#mistakes");
  find("#plans").replaceChildren();
  find("#plan").setAttribute("aria-busy", "false");
  number(new Set(found.map((one) => one.line ?? 0)));
  if (!found.length) {
    list.replaceChildren(el("p", { class: "error" }, "✕ ", why));
    return;
  }
  const count = found.length === 1 ? "1 mistake" : `${found.length} mistakes`;
  list.replaceChildren(el("p", { class: "error" }, `✕ ${count}; nothing would be submitted`), ...found.map(mistaken));
}

function mistaken(/** @type {Mistake} */ one) {
  const { line } = one;
  return el(
    "p",
    { class: "mistake" },
    line ? el("button", { type: "button", class: "small", onclick: () => goTo(line) }, `line ${line}`) : null,
    el("span", {}, el("b", {}, one.field), ` ${one.rule}`, one.value ? el("span", { class: "muted" }, ` (found ${one.value})`) : null),
  );
}

// ------------------------------------------------------------------------------------------------- submit

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  if (button.disabled) return;
  asked += 1;
  clearTimeout(timer);
  button.disabled = true;
  key ||= [...crypto.getRandomValues(new Uint32Array(4))].map((part) => part.toString(36)).join("-");
  try {
    const found = await act("POST", "/submit", { ...file(), key }, { quiet: true });
    key = "";
    sessionStorage.removeItem(DRAFT);
    submitted(found.jobs);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    const found = error instanceof Refused ? error.mistakes : [];
    showRefusal(why, found);
    if (!found.length) toast(why);
    announce("Nothing was submitted.");
  } finally {
    button.disabled = false;
  }
});

function submitted(/** @type {{id: string, name: string}[]} */ jobs) {
  find("#submitted").hidden = false;
  for (const job of jobs) {
    find("#submitted-jobs").prepend(
      el("li", { "data-id": job.id }, el("a", { href: `/jobs/${encodeURIComponent(job.id)}` }, job.name), " ", el("span", { class: "muted mono small" }, job.id)),
    );
  }
  set(find("#submitted h2"), jobs.length === 1 ? "Submitted" : `Submitted ${jobs.length} jobs`);
  void plan();
}

// -------------------------------------------------------------------------------------------------- start

const draft = JSON.parse(sessionStorage.getItem(DRAFT) ?? "null");
if (draft) [text.value, folder.value] = draft;
text.addEventListener("input", changed);
folder.addEventListener("input", changed);
number();
void plan();
