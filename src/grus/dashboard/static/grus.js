// @ts-check
// What every page shares: live streams, changes with their proof, messages, keys, figures in words. Text goes
// into the page as text only; nothing here or elsewhere makes HTML out of strings.

const SLOWEST = 15000; // milliseconds between two tries of a lost stream

// ------------------------------------------------------------------------------------------------ elements

/** The first element of that selector; a page without it is a mistake of ours. */
export function find(/** @type {string} */ selector, /** @type {ParentNode} */ within = document) {
  const found = within.querySelector(selector);
  if (!(found instanceof HTMLElement)) throw new Error(`the page has no ${selector}`);
  return found;
}

/** All elements of that selector. */
export function all(/** @type {string} */ selector, /** @type {ParentNode} */ within = document) {
  return /** @type {HTMLElement[]} */ ([...within.querySelectorAll(selector)]);
}

/** Puts a text into an element, and leaves the page alone when it is there already. */
export function set(/** @type {Element | null} */ element, /** @type {unknown} */ text) {
  const told = String(text);
  if (element && element.textContent !== told) element.textContent = told;
}

/**
 * A new element: `el("a", {href: "/jobs/x", class: "name"}, "text", child)`. Properties that begin with `on` are
 * listeners; what is null, undefined or false is left out.
 */
export function el(
  /** @type {string} */ tag,
  /** @type {Record<string, any>} */ properties = {},
  /** @type {(Node | string | number | null | undefined)[]} */ ...children
) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children) if (child !== null && child !== undefined) made.append(child instanceof Node ? child : String(child));
  return made;
}

/** The JSON that the server left in <script type="application/json" id="…">. */
export function given(/** @type {string} */ id) {
  return JSON.parse(find(`#${id}`).textContent ?? "null");
}

/** A colour of the theme as charts need it: `colour("--accent")` → "rgb(…)". */
export function colour(/** @type {string} */ name) {
  const probe = el("span", { class: "unseen" });
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

// ----------------------------------------------------------------------------------------------- streams

/**
 * Follows a stream of the server for as long as the page is seen: `live("/live/pool", {change: data => …})`.
 * Each handler gets the JSON of an event of its name. `open` is called at each connection: the server then begins
 * with the whole again. A page in the background lets go of its stream (browsers allow few to a server).
 * @param {string | ((last: string) => string)} address a function gets the id of the last event, to go on from it
 * @param {Record<string, (data: any, id: string) => void>} handlers
 */
export function live(address, handlers) {
  let source = /** @type {EventSource | null} */ (null);
  let last = "";
  let wait = 500;
  let timer = 0;
  let over = false;

  function open() {
    clearTimeout(timer);
    if (over || source || document.hidden) return;
    const at = typeof address === "function" ? address(last) : address;
    const mine = (source = new EventSource(at));
    mine.addEventListener("open", () => {
      wait = 500;
      connected(true);
      handlers.open?.(null, last);
    });
    for (const [name, handler] of Object.entries(handlers)) {
      if (name === "open" || name === "end" || name === "error") continue;
      mine.addEventListener(name, (event) => {
        last = event.lastEventId || last;
        handler(JSON.parse(event.data), last);
      });
    }
    mine.addEventListener("end", () => {
      close();
      handlers.end?.(null, last);
    });
    mine.addEventListener("reconnect", again);
    mine.addEventListener("error", (event) => {
      if (event instanceof MessageEvent && event.data) refused(JSON.parse(event.data));
      else lost();
    });
  }

  function refused(/** @type {{code: string, message: string}} */ error) {
    close();
    if (error.code === "not_logged_in") signIn();
    else if (handlers.error) handlers.error(error, last);
    else toast(error.message);
  }

  function lost() {
    connected(false);
    again();
    void fetch("/v1/status").then((answer) => answer.status === 401 && signIn(), () => {});
  }

  function again() {
    release();
    timer = setTimeout(open, wait);
    wait = Math.min(2 * wait, SLOWEST);
  }

  function release() {
    clearTimeout(timer);
    source?.close();
    source = null;
  }

  function seen() {
    if (document.hidden) release();
    else open();
  }

  function close() {
    over = true;
    release();
    document.removeEventListener("visibilitychange", seen);
  }

  document.addEventListener("visibilitychange", seen);
  addEventListener("pagehide", release);
  addEventListener("pageshow", open);
  open();
  return { close };
}

function connected(/** @type {boolean} */ well) {
  const banner = document.getElementById("connection");
  if (banner) banner.hidden = well;
}

function signIn() {
  location.assign(`/sign-in?next=${encodeURIComponent(location.pathname + location.search)}`);
}

// ----------------------------------------------------------------------------------------------- changes

/** What the server said when it refused; `mistakes` names every one. */
export class Refused extends Error {
  constructor(/** @type {number} */ status, /** @type {any} */ body) {
    super(body?.error?.message ?? `The server answered ${status}.`);
    this.status = status;
    this.code = body?.error?.code ?? "";
    this.mistakes = /** @type {{field: string, rule: string, value?: any, line?: number}[]} */ (body?.error?.mistakes ?? []);
  }
}

/**
 * Asks the server and returns its JSON (null if it has none). What goes wrong is shown and thrown as Refused; with
 * `quiet` it is only thrown.
 */
export async function act(
  /** @type {string} */ method,
  /** @type {string} */ path,
  /** @type {any} */ body = undefined,
  { quiet = false, headers = {} } = {},
) {
  const proof = document.querySelector('meta[name="csrf"]')?.getAttribute("content") ?? "";
  /** @type {Record<string, string>} */
  const sent = { Accept: "application/json", "Grus-Form": proof, ...headers };
  const text = typeof body === "string" ? body : body === undefined ? undefined : JSON.stringify(body);
  if (text !== undefined && !sent["Content-Type"]) sent["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(path, { method, headers: sent, body: text });
  } catch {
    const error = new Refused(0, { error: { message: "The server does not answer. Try again when it is back." } });
    if (!quiet) toast(error.message);
    throw error;
  }
  const found = answer.headers.get("content-type")?.includes("json") ? await answer.json() : null;
  if (answer.ok) return found;
  if (answer.status === 401) signIn();
  const error = new Refused(answer.status, found);
  if (!quiet) toast(error.message, error.mistakes.map(mistake));
  throw error;
}

/** A mistake in words: `resources.gpu (line 4) must be …`. */
export function mistake(/** @type {{field: string, rule: string, line?: number | null}} */ found) {
  return `${found.field}${found.line ? ` (line ${found.line})` : ""} ${found.rule}`;
}

// ---------------------------------------------------------------------------------------------- messages

/** A message in the corner; an error stays until it is closed, what went well goes by itself. */
export function toast(
  /** @type {string} */ text,
  /** @type {string[]} */ details = [],
  /** @type {"error" | "good"} */ kind = "error",
) {
  const shown = el("div", { class: `toast ${kind}`, role: kind === "error" ? "alert" : "status" });
  const list = details.length > 1 || (details.length === 1 && !text.includes(details[0] ?? ""));
  shown.append(el("p", {}, kind === "error" ? "✕ " : "✓ ", text));
  if (list) shown.append(el("ul", {}, ...details.map((detail) => el("li", {}, detail))));
  shown.append(el("button", { class: "icon", type: "button", "aria-label": "Close", onclick: () => shown.remove() }, "×"));
  const place = find("#toasts");
  while (place.children.length > 3) place.firstElementChild?.remove();
  place.append(shown);
  if (kind === "good") setTimeout(() => shown.remove(), 4000);
}

/** Tells those who listen to the page instead of looking at it. */
export function announce(/** @type {string} */ text) {
  set(document.getElementById("announcer"), text);
}

/** Asks before something that cannot be taken back; whether the answer is yes. */
export function confirmed(
  /** @type {string} */ question,
  { detail = "", yes = "Yes", danger = false } = {},
) {
  return new Promise((/** @type {(answer: boolean) => void} */ resolve) => {
    const dialog = /** @type {HTMLDialogElement} */ (
      el(
        "dialog",
        { "aria-label": question },
        el("h2", {}, question),
        detail ? el("p", {}, detail) : null,
        el(
          "form",
          { method: "dialog", class: "toolbar end" },
          el("button", { value: "", type: "submit" }, "Cancel"),
          el("button", { value: "yes", type: "submit", class: danger ? "danger" : "primary" }, yes),
        ),
      )
    );
    dialog.addEventListener("close", () => {
      resolve(dialog.returnValue === "yes");
      dialog.remove();
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

// ----------------------------------------------------------------------------------------------- figures

/** A number as people write it: 2, 0.5; a dash for none. */
export function number(/** @type {number | null | undefined} */ value, digits = 6) {
  return value === null || value === undefined ? "–" : String(Number(value.toFixed(digits)));
}

/** A length of time in its two largest units: 45s, 3m 10s, 2h 5m, 1d 4h. */
export function span(/** @type {number} */ seconds) {
  const left = Math.max(0, Math.round(seconds));
  /** @type {[number, string, number, string][]} */
  const units = [[86400, "d", 3600, "h"], [3600, "h", 60, "m"], [60, "m", 1, "s"]];
  for (const [size, name, below, under] of units) {
    if (left < size) continue;
    const rest = Math.floor((left % size) / below);
    return `${Math.floor(left / size)}${name}${rest ? ` ${rest}${under}` : ""}`;
  }
  return `${left}s`;
}

/** Bytes as people write them, in powers of 1000: 16GB, 512MB. */
export function size(/** @type {number} */ bytes) {
  let left = bytes;
  for (const unit of ["B", "kB", "MB", "GB"]) {
    if (left < 1000) return `${number(left, 1)}${unit}`;
    left /= 1000;
  }
  return `${number(left, 1)}TB`;
}

/** A moment (seconds since 1970, or RFC 3339) as people here read it; the date only when it is not today's. */
export function local(/** @type {number | string} */ at) {
  const moment = new Date(typeof at === "number" ? 1000 * at : at);
  const time = moment.toLocaleTimeString([], { hour12: false });
  return moment.toDateString() === new Date().toDateString() ? time : `${moment.toLocaleDateString()} ${time}`;
}

/** Fills each <time data-since="1700000000"> with how long ago that is, and each <time data-at> with the moment. */
export function times(/** @type {ParentNode} */ within = document) {
  const now = Date.now() / 1000;
  for (const one of all("time[data-since]", within)) set(one, span(now - Number(one.dataset.since)));
  for (const one of all("time[data-at]:not([title])", within)) {
    set(one, local(Number(one.dataset.at)));
    one.title = new Date(1000 * Number(one.dataset.at)).toLocaleString();
  }
}

// -------------------------------------------------------------------------------------------------- keys

/** @type {Map<string, () => void>} */
const own = new Map();
let going = 0; // when `g` was pressed

/** A key of one page: `onKey("x", () => …)`. */
export function onKey(/** @type {string} */ key, /** @type {() => void} */ then) {
  own.set(key, then);
}

function isWriting(/** @type {EventTarget | null} */ target) {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

function pressed(/** @type {KeyboardEvent} */ event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape" && isWriting(event.target)) /** @type {HTMLElement} */ (event.target).blur();
  if (isWriting(event.target) || document.querySelector("dialog[open]")) return;
  const page = Date.now() - going < 1500 && document.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
  going = event.key === "g" ? Date.now() : 0;
  const then = page ? () => /** @type {HTMLElement} */ (page).click() : keys.get(event.key) ?? own.get(event.key);
  if (!then) return;
  event.preventDefault();
  then();
}

/** @type {Map<string, () => void>} */
const keys = new Map([
  ["/", () => /** @type {HTMLElement | null} */ (document.querySelector(".filter, [type=search]"))?.focus()],
  ["?", showKeys],
  ["t", changeTheme],
]);

function showKeys() {
  /** @type {HTMLDialogElement} */ (find("#keys")).showModal();
}

// ------------------------------------------------------------------------------------------------- theme

/** Light becomes dark and the other way round; kept for the next visit. Charts hear of it as `grus-theme`. */
function changeTheme() {
  const dark = getComputedStyle(document.documentElement).colorScheme === "dark"
    || (!document.documentElement.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("grus-theme", dark ? "light" : "dark");
  dispatchEvent(new Event("grus-theme"));
}

// ------------------------------------------------------------------------------------------------- start

document.addEventListener("keydown", pressed);
for (const button of all("[data-theme-toggle]")) button.addEventListener("click", changeTheme);
document.querySelector(".menu [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
for (const button of all("[data-keys]")) button.addEventListener("click", showKeys);
times();
setInterval(times, 1000);
