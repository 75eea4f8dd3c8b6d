// @ts-check
// The pool: takes in what the stream tells of tiles, hides what is not asked for, shows the card of one GPU. Every
// text comes from the server; a change touches the tiles that changed and nothing else.

import { act, all, el, find, live, set } from "./grus.js";

const OUTLOOK_EVERY = 300000; // milliseconds: forecasts hold for five minutes

/** @typedef {{css: string, href: string, name: string, by: string, part: string, state: string}} Slice */
/** @typedef {{place: number, css: string, kind: string, trouble: string, sign: string, slices: Slice[]}} Tile */
/** @typedef {[number, number, string, string, string]} Use place, percent, busy, memory, instances */
/** @typedef {{place: number, held: string, closed: string, closed_title: string}} Node */

const pool = document.getElementById("pool");
const tiny = pool?.dataset.density === "tiny";

// ------------------------------------------------------------------------------------------- taking in

/** @type {(HTMLElement | null)[]} */
const known = [];

/** The tile of a GPU. */
function tile(/** @type {number} */ place) {
  return (known[place] ??= document.getElementById(`g${place}`));
}

/** A part of a tile that only larger tiles have. */
function part(/** @type {HTMLElement} */ of, /** @type {string} */ name) {
  return of.getElementsByClassName(name)[0] ?? null;
}

/** Sets an attribute, or takes it away where there is nothing to say. */
function note(/** @type {HTMLElement} */ on, /** @type {string} */ name, /** @type {string} */ value) {
  if (!value) delete on.dataset[name];
  else if (on.dataset[name] !== value) on.dataset[name] = value;
}

function takeTile(/** @type {Tile} */ told) {
  const gpu = tile(told.place);
  if (!gpu) return;
  const kept = gpu.className.match(/ (u\d+|dim)/g) ?? [];
  gpu.className = told.css + kept.join("");
  note(gpu, "kind", told.kind);
  note(gpu, "sign", told.sign);
  note(gpu, "trouble", told.trouble);
  set(part(gpu, "kind"), told.kind);
  const place = part(gpu, "slices") ?? gpu;
  while (place.children.length > told.slices.length) place.lastElementChild?.remove();
  told.slices.forEach((one, number) => {
    // A link that is there is changed: new elements would be laid out and painted from the beginning.
    takeSlice(/** @type {HTMLElement} */ (place.children[number] ?? place.appendChild(el("a", { tabindex: -1 }))), one);
  });
}

function takeSlice(/** @type {HTMLElement} */ link, /** @type {Slice} */ told) {
  if (link.className !== told.css) link.className = told.css;
  if (told.href) link.setAttribute("href", told.href);
  else link.removeAttribute("href");
  note(link, "by", told.by);
  note(link, "part", told.part);
  note(link, "state", told.state);
  if (tiny) link.ariaLabel = told.name;
  else set(link, told.name);
}

/** The name of a job on a tile; small tiles have no room to show it. */
function nameOf(/** @type {Element} */ link) {
  return link.ariaLabel ?? link.textContent ?? "";
}

/** What is measured, by place. @type {Use[]} */
const uses = [];
/** Places whose tile shows something older. @type {Set<number>} */
const behind = new Set();
const NEAR = 200; // pixels beyond the window that count as seen

function takeUses(/** @type {Use[]} */ told) {
  for (const use of told) {
    uses[use[0]] = use;
    behind.add(use[0]);
  }
  if (told.length) showUses();
}

/** Brings tiles that are in sight up to date; the others wait until somebody scrolls there. */
function showUses() {
  if (!behind.size) return;
  // All questions come before the first change: a question after a change makes the browser work out styles anew.
  const seen = all(".node:not(.none)").filter((node) => {
    const { top, bottom } = node.getBoundingClientRect();
    return bottom > -NEAR && top < innerHeight + NEAR;
  });
  for (const node of seen) {
    for (const gpu of node.getElementsByClassName("gpu")) {
      const place = Number(gpu.id.slice(1));
      const told = uses[place];
      if (behind.delete(place) && told) showUse(/** @type {HTMLElement} */ (gpu), told);
    }
  }
}

function showUse(/** @type {HTMLElement} */ gpu, /** @type {Use} */ [, percent, busy, memory]) {
  const step = ` u${Math.round(percent / 5)}`;
  if (tiny) {
    const before = gpu.className.match(/ u\d+/)?.[0] ?? "";
    if (before !== step) gpu.className = gpu.className.replace(before, step);
    return;
  }
  gpu.style.setProperty("--use", String(percent / 100));
  set(part(gpu, "busy"), busy);
  set(part(gpu, "memory"), memory);
}

function takeNode(/** @type {Node} */ told) {
  const node = document.getElementById(`n${told.place}`);
  if (!node) return;
  set(node.querySelector(".held"), told.held);
  const closed = /** @type {HTMLElement} */ (part(node, "closed"));
  set(closed, told.closed);
  closed.title = told.closed_title;
  closed.hidden = !told.closed;
}

const sums = all("[data-sum]");

function takeSums(/** @type {Record<string, string | number>} */ told) {
  for (const one of sums) {
    const value = told[one.dataset.sum ?? ""];
    if (one instanceof HTMLProgressElement) one.value = Number(value);
    else set(one, value);
  }
}

function take(/** @type {{tiles: Tile[], use: Use[], nodes: Node[], sums: Record<string, string> | null}} */ told) {
  takeUses(told.use); // first, since it asks where nodes are
  told.tiles.forEach(takeTile);
  told.nodes.forEach(takeNode);
  if (told.sums) takeSums(told.sums);
  if (told.tiles.length) {
    if (wanted()) sift(new Set(told.tiles.map((one) => tile(one.place)?.closest(".node"))));
    if (pointed) showCard(pointed);
  }
}

// ------------------------------------------------------------------------------------------- filtering

const chips = all(".chip");
const filter = /** @type {HTMLInputElement | null} */ (document.getElementById("filter"));

function pressed(/** @type {HTMLElement} */ chip) {
  return chip.getAttribute("aria-pressed") === "true";
}

/** What is asked for; null for everything. */
function wanted() {
  const words = (filter?.value ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  const only = chips.filter((chip) => chip.dataset.only && pressed(chip)).map((chip) => chip.dataset.only ?? "");
  const types = chips.filter((chip) => chip.dataset.type && pressed(chip)).map((chip) => chip.dataset.type ?? "");
  return words.length || only.length || types.length ? { words, only, types } : null;
}

/** Dims the tiles that are not asked for, and hides nodes that have no other. */
function sift(/** @type {Iterable<Element | null | undefined>} */ nodes = all(".node")) {
  const asked = wanted();
  for (const node of nodes) {
    if (!(node instanceof HTMLElement)) continue;
    let some = false;
    const name = (node.dataset.id ?? "").toLowerCase();
    for (const gpu of node.getElementsByClassName("gpu")) {
      const shows = !asked || matches(/** @type {HTMLElement} */ (gpu), name, asked);
      some ||= shows;
      gpu.classList.toggle("dim", !shows);
    }
    node.classList.toggle("none", !some);
  }
  tell(asked !== null);
  showUses();
}

function matches(
  /** @type {HTMLElement} */ gpu,
  /** @type {string} */ node,
  /** @type {{words: string[], only: string[], types: string[]}} */ asked,
) {
  if (asked.types.length && !asked.types.includes(about(gpu, "type"))) return false;
  if (!asked.only.every((one) => gpu.classList.contains(one))) return false;
  if (!asked.words.length) return true;
  const slices = [...gpu.getElementsByClassName("slice")].map((one) => `${nameOf(one)} ${/** @type {HTMLElement} */ (one).dataset.by}`);
  const text = `${node} ${gpu.dataset.id} ${slices.join(" ")} ${gpu.dataset.kind}`.toLowerCase();
  return asked.words.every((word) => text.includes(word));
}

/** What is true of a GPU, or of all GPUs of its node. */
function about(/** @type {HTMLElement} */ gpu, /** @type {string} */ name) {
  const node = /** @type {HTMLElement | null} */ (gpu.closest(".node"));
  return gpu.dataset[name] ?? node?.dataset[name] ?? "";
}

function tell(/** @type {boolean} */ some) {
  const count = some ? all(".gpu:not(.dim)").length : 0;
  set(document.getElementById("shown"), some ? `${count} GPU${count === 1 ? "" : "s"} match${count === 1 ? "es" : ""}` : "");
}

/** The filter is in the address, so that it can be sent to somebody. */
function remember() {
  const asked = wanted();
  const address = new URL(location.href);
  for (const name of ["q", "only", "type"]) address.searchParams.delete(name);
  if (filter?.value) address.searchParams.set("q", filter.value);
  for (const one of asked?.only ?? []) address.searchParams.append("only", one);
  for (const one of asked?.types ?? []) address.searchParams.append("type", one);
  history.replaceState(null, "", address);
  const by = /** @type {HTMLAnchorElement | null} */ (document.getElementById("by"));
  if (by) {
    const other = new URL(address);
    if (address.searchParams.get("by") === "type") other.searchParams.delete("by");
    else other.searchParams.set("by", "type");
    by.href = other.href;
  }
}

function recall() {
  const given = new URL(location.href).searchParams;
  if (filter) filter.value = given.get("q") ?? "";
  for (const chip of chips) {
    const on = given.getAll("only").includes(chip.dataset.only ?? "-") || given.getAll("type").includes(chip.dataset.type ?? "-");
    chip.setAttribute("aria-pressed", String(on));
  }
  if (wanted()) sift();
  remember();
}

for (const chip of chips) {
  chip.addEventListener("click", () => {
    chip.setAttribute("aria-pressed", String(!pressed(chip)));
    sift();
    remember();
  });
}
filter?.addEventListener("input", () => {
  sift();
  remember();
});

// ------------------------------------------------------------------------------------- colour and size

/** What the tiles are coloured by is kept for the next visit; their size is in the address. */
function choose() {
  const colour = /** @type {HTMLSelectElement} */ (find("#colour"));
  const before = localStorage.getItem("grus-pool-colour") ?? "";
  if ([...colour.options].some((option) => option.value === before)) colour.value = before;
  const paint = () => find("#pool").dataset.colour = colour.value;
  colour.addEventListener("change", () => {
    localStorage.setItem("grus-pool-colour", colour.value);
    paint();
  });
  paint();
  const size = /** @type {HTMLSelectElement} */ (find("#density"));
  size.addEventListener("change", () => {
    const address = new URL(location.href);
    if (size.value) address.searchParams.set("tiles", size.value);
    else address.searchParams.delete("tiles");
    location.assign(address);
  });
}

// ---------------------------------------------------------------------------------- the card of one GPU

let pointed = /** @type {HTMLElement | null} */ (null);
const card = document.getElementById("gpu-card");

function showCard(/** @type {HTMLElement} */ gpu) {
  if (!card) return;
  pointed = gpu;
  const { id, kind, sign, trouble } = gpu.dataset;
  const told = uses[Number(gpu.id.slice(1))];
  const [busy, memory, instances] = told ? told.slice(2) : [gpu.dataset.busy, gpu.dataset.memory, gpu.dataset.instances];
  const slices = /** @type {HTMLElement[]} */ ([...gpu.getElementsByClassName("slice")]);
  const facts = [about(gpu, "type"), about(gpu, "total"), kind].filter(Boolean).join(" · ");
  card.replaceChildren(el("h3", {}, id ?? ""), el("p", { class: "muted" }, facts));
  for (const one of slices) {
    const words = [one.dataset.by, one.dataset.part, one.dataset.state].filter(Boolean).join(" · ");
    card.append(el("p", {}, el("b", {}, nameOf(one)), words ? ` ${words}` : ""));
  }
  if (!slices.length) card.append(el("p", {}, gpu.classList.contains("free") ? "free" : "nobody is on it"));
  const use = [busy, memory, instances].filter(Boolean);
  if (slices.length && use.length) card.append(el("p", {}, `busy ${use.join(", ")}`));
  if (sign) card.append(el("p", { class: "error" }, `${sign} ${trouble}`));
  card.hidden = false;
  placeCard(card, gpu.getBoundingClientRect());
}

/** Below the tile, or above it where there is no room. */
function placeCard(/** @type {HTMLElement} */ shown, /** @type {DOMRect} */ by) {
  const left = Math.min(Math.max(8, by.left), innerWidth - shown.offsetWidth - 8);
  const below = by.bottom + 6 + shown.offsetHeight < innerHeight;
  shown.style.left = `${Math.max(8, left)}px`;
  shown.style.top = `${below ? by.bottom + 6 : Math.max(8, by.top - 6 - shown.offsetHeight)}px`;
}

function hideCard() {
  pointed = null;
  if (card) card.hidden = true;
}

function gpuOf(/** @type {EventTarget | null} */ target) {
  return target instanceof Element ? /** @type {HTMLElement | null} */ (target.closest(".gpu")) : null;
}

pool?.addEventListener("pointerover", (event) => {
  const gpu = event.pointerType === "touch" ? null : gpuOf(event.target);
  if (gpu && gpu !== pointed) showCard(gpu);
  else if (!gpu) hideCard();
});
pool?.addEventListener("pointerleave", hideCard);
pool?.addEventListener("focusin", (event) => {
  const gpu = gpuOf(event.target);
  if (gpu && gpu.matches(":focus-visible")) showCard(gpu);
});
pool?.addEventListener("focusout", hideCard);
addEventListener("scroll", () => pointed && card && placeCard(card, pointed.getBoundingClientRect()), { passive: true });

// ------------------------------------------------------------------------------------------------- keys

/** One tile at a time can be reached by Tab; arrows go on from there, Enter opens its job. */
function reach(/** @type {HTMLElement} */ gpu) {
  pool?.querySelector('.gpu[tabindex="0"]')?.setAttribute("tabindex", "-1");
  gpu.tabIndex = 0;
  gpu.focus();
}

/** The nearest tile straight above or below. */
function beyond(/** @type {HTMLElement} */ from, /** @type {number} */ way) {
  const here = from.getBoundingClientRect();
  let best = /** @type {HTMLElement | null} */ (null);
  let least = Infinity;
  for (const gpu of all(".node:not(.none) .gpu")) {
    const there = gpu.getBoundingClientRect();
    const down = way * (there.top - here.top);
    const far = down < here.height / 2 ? Infinity : 4 * down + Math.abs(there.left - here.left);
    if (far < least) [best, least] = [gpu, far];
  }
  return best;
}

pool?.addEventListener("keydown", (event) => {
  const gpu = gpuOf(event.target);
  if (!gpu || event.ctrlKey || event.metaKey || event.altKey) return;
  const side = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  const way = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (event.key === "Enter") /** @type {HTMLElement | null} */ (gpu.querySelector("a[href]"))?.click();
  else if (side || way) {
    const every = side ? all(".node:not(.none) .gpu") : [];
    const next = side ? every[every.indexOf(gpu) + side] : beyond(gpu, way ?? 0);
    if (next) reach(next);
    event.preventDefault();
  }
});

// ------------------------------------------------------------------------------------------------ start

async function foretell() {
  const found = await act("GET", "/pool/outlook", undefined, { quiet: true }).catch(() => null);
  if (found) set(document.getElementById("outlook"), found.text);
}

if (pool) {
  choose();
  recall();
  pool.querySelector(".gpu")?.setAttribute("tabindex", "0");
  for (const event of ["scroll", "resize"]) addEventListener(event, () => requestAnimationFrame(showUses), { passive: true });
  live((last) => `/live/pool?since=${encodeURIComponent(last || pool.dataset.mark || "")}`, {
    pool: take,
    reload: () => location.reload(),
  });
} else {
  live("/live/pool", { reload: () => location.reload() });
}
void foretell();
setInterval(foretell, OUTLOOK_EVERY);
