// @ts-check
// Stages: how each of them stands is put into its box and its line, as it changes.

import { act, all, announce, confirmed, find, given, live, set } from "./grus.js";

/** @typedef {{id: string, state: string, status: string, words: string, why: string, earlier: boolean}} Standing */

const SIGNS = { running: "▶", pending: "◔", paused: "❚❚", failed: "✕", succeeded: "✓", stopped: "■" };
const RETRIED = new Set(["failed", "stopped"]);
/** @type {Map<string, string>} */
const states = new Map();

function apply(/** @type {{stages?: Standing[], summary?: string}} */ told) {
  for (const stage of told.stages ?? []) stands(stage);
  for (const path of document.querySelectorAll("path[data-before]")) {
    path.classList.toggle("done", states.get(path.getAttribute("data-before") ?? "") === "succeeded");
  }
  if (told.summary !== undefined && find("#summary").textContent !== told.summary) {
    set(find("#summary"), told.summary);
    announce(told.summary);
  }
}

function stands(/** @type {Standing} */ stage) {
  states.set(stage.id, stage.state);
  const sign = Reflect.get(SIGNS, stage.state) ?? "○";
  const box = document.querySelector(`[data-stage="${CSS.escape(stage.id)}"]`);
  box?.setAttribute("class", `stage ${stage.state}${stage.earlier ? " earlier" : ""}`);
  set(box?.querySelector(".words") ?? null, `${sign} ${stage.status}${stage.words ? ` · ${stage.words}` : ""}`);
  for (const line of all(`[data-line="${CSS.escape(stage.id)}"]`)) {
    const badge = find(".badge", line);
    badge.className = `badge badge-${stage.state}`;
    set(badge, stage.status);
    set(find("[data-of=words]", line), stage.words || "–");
    set(find("[data-of=why]", line), stage.why);
    const again = line.querySelector("[data-retry]");
    if (again instanceof HTMLElement) again.hidden = stage.earlier || !RETRIED.has(stage.state);
  }
}

async function retry(/** @type {string} */ id) {
  const detail = "It and the stages after it are submitted again. What others have left is taken as it is.";
  if (!(await confirmed("Try again from this stage?", { detail, yes: "Try again" }))) return;
  const jobs = await act("POST", `/v1/jobs/${encodeURIComponent(id)}/retry`);
  location.assign(`/graphs/${encodeURIComponent(jobs[0].id)}`);
}

for (const button of all("[data-retry]")) {
  button.addEventListener("click", () => retry(button.dataset.retry ?? "").catch(() => {}));
}
apply(given("told"));
live(`/live/graphs/${encodeURIComponent(find("#graph").dataset.graph ?? "")}`, { graph: apply });
