// @ts-check
// The life of a job as a strip: time from left to right, the number of GPUs upwards, a colour a state. Redrawn as
// time goes on; which stretches there are comes from the server.

import { el, local, number, set, span } from "./grus.js";

/**
 * @typedef {{from: number, to: number | null, state: string, attempt: number, generation: number,
 *   gpus: number | null, text: string}} Stretch
 * @typedef {{begin: number, end: number | null, top: number, cut: boolean, stretches: Stretch[],
 *   losses: {at: number, text: string}[]}} Strip
 */

const SVG = "http://www.w3.org/2000/svg";
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800];
const THIN = 0.07; // of the height: what holds no GPU
const ABOVE = 18; // pixels above the strip
const HEIGHT = 112; // of the strip
const HELD = new Set(["starting", "running", "ending"]);

/** Seconds that it ran, up to now. */
export function ran(/** @type {Strip} */ strip, /** @type {number} */ now) {
  return strip.stretches
    .filter((one) => one.state === "running")
    .reduce((sum, one) => sum + (one.to ?? now - strip.begin) - one.from, 0);
}

/** Draws into `place`; `told` gets the words of the stretch that is pointed at. */
export function draw(
  /** @type {HTMLElement} */ place,
  /** @type {HTMLElement} */ told,
  /** @type {Strip} */ strip,
  /** @type {number} */ now,
) {
  if (!strip.stretches.length) {
    place.replaceChildren(el("p", { class: "empty" }, "Nothing has happened to it yet."));
    return;
  }
  const length = Math.max(1e-3, (strip.end ?? now) - strip.begin);
  const flat = strip.top === 0; // it has never held a GPU
  const top = flat ? THIN : strip.top;
  place.classList.toggle("flat", flat);
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", `0 0 ${length} ${top}`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  const labels = [];
  for (const level of flat ? [] : levels(top)) {
    svg.append(shape("line", { x1: 0, x2: length, y1: top - level, y2: top - level }));
    labels.push(at("level", number(level), { top: ABOVE + (HEIGHT * (top - level)) / top }));
  }
  for (const one of strip.stretches) svg.append(rectangle(one, strip, length, top, told));
  labels.push(...losses(strip, length, told));
  labels.push(...heldLabels(strip, length, top), ...attemptLabels(svg, strip, length, top), ...ticks(strip.begin, length));
  place.replaceChildren(svg, ...labels);
}

function rectangle(
  /** @type {Stretch} */ one,
  /** @type {Strip} */ strip,
  /** @type {number} */ length,
  /** @type {number} */ top,
  /** @type {HTMLElement} */ told,
) {
  const thin = strip.top === 0 ? top : THIN * top;
  const height = HELD.has(one.state) ? (one.gpus ?? top / 2) || thin : thin;
  const made = shape("rect", { x: one.from, y: top - height, width: Math.max(0, (one.to ?? length) - one.from), height });
  made.setAttribute("class", `${one.state}${one.generation % 2 ? " odd" : ""}${one.gpus === null ? " unknown" : ""}`);
  made.addEventListener("pointerenter", () => {
    made.classList.add("chosen");
    set(told, words(one, strip.begin, length));
  });
  made.addEventListener("pointerleave", () => made.classList.remove("chosen"));
  return made;
}

function words(/** @type {Stretch} */ one, /** @type {number} */ begin, /** @type {number} */ length) {
  const until = one.to ?? length;
  const size = one.gpus === null ? " (how many GPUs was not written down)" : one.gpus ? ` on ${number(one.gpus)} GPU${one.gpus === 1 ? "" : "s"}` : "";
  const which = HELD.has(one.state) ? `, attempt ${one.attempt}, generation ${one.generation}` : "";
  const when = `${local(begin + one.from)} to ${one.to === null ? "now" : local(begin + until)} (${span(until - one.from)})`;
  return `${one.state}${size}${which}: ${when}. ${one.text}`;
}

/** Numbers of GPUs that get a line. */
function levels(/** @type {number} */ top) {
  const step = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512].find((one) => top / one <= 4) ?? top;
  const found = [];
  for (let level = 0; level < top; level += step) found.push(level);
  return top - (found.at(-1) ?? 0) > step / 2 ? [...found, top] : found;
}

/** How many GPUs, within the stretches that have room for it. */
function heldLabels(/** @type {Strip} */ strip, /** @type {number} */ length, /** @type {number} */ top) {
  return strip.stretches
    .filter((one) => one.gpus && HELD.has(one.state) && (one.to ?? length) - one.from > 0.04 * length && one.gpus / top > 0.2)
    .map((one) => {
      const middle = ((one.from + (one.to ?? length)) / 2 / length) * 100;
      const label = at("held", number(one.gpus), { top: ABOVE + HEIGHT * (1 - (one.gpus ?? 0) / top) + 6 });
      label.style.left = `${middle}%`;
      return label;
    });
}

/** A line where each attempt begins, and its number. */
function attemptLabels(/** @type {Element} */ svg, /** @type {Strip} */ strip, /** @type {number} */ length, /** @type {number} */ top) {
  const labels = [];
  let before = 0;
  for (const one of strip.stretches) {
    if (!HELD.has(one.state) || one.attempt === before) continue;
    before = one.attempt;
    const line = shape("line", { x1: one.from, x2: one.from, y1: -0.13 * top, y2: top });
    line.setAttribute("class", "attempt");
    svg.append(line);
    const label = el("span", { class: "number" }, `attempt ${one.attempt}`);
    label.style.left = `${(100 * one.from) / length}%`;
    labels.push(label);
  }
  return labels.length <= 12 ? labels : [];
}

/** A cross where a worker was lost or an attempt failed. */
function losses(/** @type {Strip} */ strip, /** @type {number} */ length, /** @type {HTMLElement} */ told) {
  return strip.losses.map((one) => {
    const mark = el("span", { class: "loss", title: one.text }, "✕");
    mark.style.left = `${(100 * one.at) / length}%`;
    mark.addEventListener("pointerenter", () => set(told, `${local(strip.begin + one.at)}: ${one.text}`));
    return mark;
  });
}

/** Moments below the strip, at round times of the reader's clock. */
function ticks(/** @type {number} */ begin, /** @type {number} */ length) {
  const most = innerWidth < 700 ? 4 : 8;
  const step = STEPS.find((one) => length / one <= most) ?? Math.ceil(length / most / 604800) * 604800;
  const zone = 60 * new Date(1000 * begin).getTimezoneOffset();
  const found = [];
  for (let when = Math.ceil((begin - zone) / step) * step + zone; when <= begin + length; when += step) {
    const part = (when - begin) / length;
    const edge = part < 0.03 ? " first" : part > 0.97 ? " last" : "";
    const label = el("span", { class: `tick${edge}` }, clock(when, step));
    label.style.left = `${100 * part}%`;
    found.push(label);
  }
  return found;
}

function clock(/** @type {number} */ when, /** @type {number} */ step) {
  const moment = new Date(1000 * when);
  if (step >= 86400) return moment.toLocaleDateString([], { day: "numeric", month: "short" });
  const seconds = step < 60 ? /** @type {const} */ ("2-digit") : undefined;
  return moment.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: seconds, hour12: false });
}

function shape(/** @type {string} */ tag, /** @type {Record<string, number>} */ attributes) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
  return made;
}

function at(/** @type {string} */ kind, /** @type {string} */ text, /** @type {{top: number}} */ place) {
  const made = el("span", { class: kind }, text);
  made.style.top = `${place.top}px`;
  return made;
}
