// @ts-check
// The log of a worker as it grows. It follows until the reader scrolls up, and again from the end on. Of a huge log
// the page holds a bounded part: `MOST_LINES` in memory, `MOST_SHOWN` in the page; earlier ones are read when asked for.

import { all, el, find, live, set, toast } from "./grus.js";

const MOST_LINES = 20000;
const MOST_SHOWN = 2000;
const LONGEST = 4000; // characters of a line that are shown
const PIECE = 65536; // bytes read at once
const NEAR = 24; // pixels from the end that count as the end
const ESCAPES = /\u001b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\u0007]*\u0007|[@-Z\\-_])/g; // colours and the like of terminals

/** @typedef {{text: string, apart?: boolean}} Line */

/** The log of one job, in the elements of its page. */
export function logs(/** @type {string} */ job) {
  const box = find("#log");
  const search = /** @type {HTMLInputElement} */ (find("#log-search"));
  const only = /** @type {HTMLInputElement} */ (find("#log-only"));
  const count = find("#log-count");
  const followButton = find("#log-follow");
  const newer = find("#log-new");
  const earlier = find("#log-earlier");
  const workers = /** @type {HTMLSelectElement} */ (find("#log-worker"));
  const encoder = new TextEncoder();

  /** @type {Line[]} */
  let lines = [];
  let tail = ""; // a line that has not ended yet
  let start = 0; // byte at which the first line begins
  let next = 0;
  let attempt = 0;
  let shownUntil = 0; // index after the last line in the page
  let aparts = 0; // beginnings of attempts among the lines: what was before them is in no file any more
  let detached = false; // the newest lines were let go for earlier ones
  let missed = 0; // lines that came while the reader looked at others
  let following = true;
  let drawing = false;
  let opened = 0; // counts the logs that were opened: an answer for another one is late
  let stream = /** @type {{close: () => void} | null} */ (null);

  const matches = (/** @type {Line} */ line) => !search.value || line.text.toLowerCase().includes(search.value.toLowerCase());
  const path = (/** @type {number} */ offset, /** @type {number} */ limit) =>
    `/v1/jobs/${encodeURIComponent(job)}/log?worker=${workers.value}&offset=${offset}&limit=${limit}`;

  // ------------------------------------------------------------------------------------------- reading

  async function open() {
    stream?.close();
    const mine = ++opened;
    const found = await read(path(-PIECE, PIECE));
    if (!found || mine !== opened) return;
    [lines, tail, missed, aparts, following, detached] = [[], "", 0, 0, true, false];
    next = found.next;
    start = next - found.bytes.length;
    take(new TextDecoder().decode(found.bytes));
    if (start > 0 && lines.length) start += encoder.encode((lines.shift()?.text ?? "") + "\n").length; // half a line
    shownUntil = lines.length;
    redraw();
    stream = live(() => `/v1/jobs/${encodeURIComponent(job)}/log/stream?worker=${workers.value}&offset=${next}`, {
      log: heard,
      end: () => set(followButton, "Ended"),
      error: (error) => toast(error.message),
    });
  }

  async function read(/** @type {string} */ address) {
    const answer = await fetch(address).catch(() => null);
    if (!answer?.ok) {
      box.replaceChildren(el("p", { class: "error" }, `The log of worker ${workers.value} cannot be read. Choose another worker, or load the page again.`));
      return null;
    }
    return { bytes: new Uint8Array(await answer.arrayBuffer()), next: Number(answer.headers.get("Grus-Next-Offset") ?? 0) };
  }

  function heard(/** @type {{text: string, attempt: number, next: number}} */ told) {
    if (attempt && told.attempt !== attempt) {
      finishLine();
      lines.push({ text: `attempt ${told.attempt}`, apart: true });
      aparts += 1;
      start = 0;
    }
    attempt = told.attempt;
    next = told.next;
    if (detached) {
      missed += told.text.split("\n").length - 1;
      return tell();
    }
    const before = lines.length;
    take(told.text);
    missed += following ? 0 : lines.length - before;
    forget();
    if (!drawing) {
      drawing = true;
      requestAnimationFrame(appendNew);
    }
  }

  function take(/** @type {string} */ text) {
    const parts = (tail + text).split("\n");
    tail = parts.pop() ?? "";
    for (const part of parts) lines.push({ text: part });
  }

  function finishLine() {
    if (tail) lines.push({ text: tail });
    tail = "";
  }

  /** Of the oldest lines only where they end is kept. */
  function forget() {
    const many = lines.length - MOST_LINES;
    if (many <= 0) return;
    for (const line of lines.splice(0, many)) {
      start = line.apart ? 0 : start + encoder.encode(line.text).length + 1;
      aparts -= line.apart ? 1 : 0;
    }
    shownUntil = Math.max(0, shownUntil - many);
  }

  async function readEarlier() {
    const begin = Math.max(0, start - PIECE);
    if (start <= 0) return;
    const found = await read(path(begin, start - begin));
    if (!found) return;
    const text = new TextDecoder().decode(found.bytes);
    const cut = begin > 0 ? text.indexOf("\n") + 1 : 0;
    const old = text.slice(cut).replace(/\n$/, "").split("\n").map((one) => ({ text: one }));
    start = begin > 0 ? begin + encoder.encode(text.slice(0, cut)).length : 0;
    lines = [...old, ...lines];
    following = false;
    if (lines.length > MOST_LINES) [lines, tail, detached] = [lines.slice(0, MOST_LINES), "", true];
    shownUntil = Math.min(lines.length, shownUntil + old.length);
    const height = box.scrollHeight;
    redraw(Math.max(0, Math.min(shownUntil, MOST_SHOWN)));
    box.scrollTop = Math.max(0, box.scrollHeight - height);
  }

  // ------------------------------------------------------------------------------------------- showing

  function element(/** @type {Line} */ line) {
    const whole = clean(line.text);
    const text = whole.length > LONGEST ? `${whole.slice(0, LONGEST)} … (${whole.length} characters)` : whole;
    const made = el("div", { class: line.apart ? "line apart" : "line" });
    const wanted = search.value.toLowerCase();
    const lower = text.toLowerCase();
    let from = 0;
    for (let place = wanted ? lower.indexOf(wanted) : -1; place >= 0; place = lower.indexOf(wanted, from)) {
      made.append(text.slice(from, place), el("mark", {}, text.slice(place, place + wanted.length)));
      from = place + wanted.length;
    }
    made.append(text.slice(from));
    return made;
  }

  /** What is shown, made anew: the lines before `until`, at most so many. */
  function redraw(until = lines.length) {
    shownUntil = Math.min(until, lines.length);
    const wanted = only.checked ? lines.slice(0, shownUntil).filter(matches) : lines.slice(Math.max(0, shownUntil - MOST_SHOWN), shownUntil);
    const made = wanted.slice(-MOST_SHOWN).map(element);
    if (tail && shownUntil === lines.length) made.push(unfinished());
    box.replaceChildren(...(made.length ? made : [el("p", { class: "muted" }, nothing())]));
    tell();
    if (following) toEnd();
  }

  function nothing() {
    return lines.length ? "No line matches." : "It has not written anything yet.";
  }

  function unfinished() {
    const made = element({ text: tail });
    made.classList.add("unfinished");
    return made;
  }

  function appendNew() {
    drawing = false;
    box.querySelector(".unfinished")?.remove();
    if (!following && box.children.length >= MOST_SHOWN) return tell(); // the reader's lines stay where they are
    const fresh = lines.slice(shownUntil).filter((line) => !only.checked || matches(line));
    if (fresh.length) box.querySelector("p")?.remove();
    box.append(...fresh.slice(-MOST_SHOWN).map(element));
    shownUntil = lines.length;
    if (tail) {
      box.querySelector("p")?.remove();
      box.append(unfinished());
    }
    while (box.children.length > MOST_SHOWN) box.firstElementChild?.remove();
    tell();
    if (following) toEnd();
  }

  function toEnd() {
    box.scrollTop = box.scrollHeight;
  }

  function tell() {
    const found = search.value ? lines.reduce((sum, line) => sum + (matches(line) ? 1 : 0), 0) : 0;
    set(count, search.value ? `${found} of ${lines.length} lines` : "");
    followButton.setAttribute("aria-pressed", String(following));
    if (followButton.textContent !== "Ended") set(followButton, following ? "Following" : "Follow");
    newer.hidden = following || missed === 0;
    set(newer, `${missed} new line${missed === 1 ? "" : "s"} ↓`);
    earlier.hidden = start <= 0 || aparts > 0 || box.scrollTop > NEAR;
  }

  function follow() {
    if (detached) return void open();
    [following, missed] = [true, 0];
    redraw();
  }

  /** Goes to the next line that matches, from the chosen one on. */
  function nextMatch() {
    const found = all("mark", box).map((mark) => mark.parentElement);
    const before = found.findIndex((line) => line?.classList.contains("chosen"));
    for (const line of all(".chosen", box)) line.classList.remove("chosen");
    const then = found.find((line, place) => place > before && line !== found[before]) ?? found[0];
    if (!then) return;
    following = false;
    then.classList.add("chosen");
    then.scrollIntoView({ block: "center" });
    tell();
  }

  // ------------------------------------------------------------------------------------------- reader

  box.addEventListener("scroll", () => {
    const atEnd = box.scrollHeight - box.scrollTop - box.clientHeight < NEAR;
    if (atEnd && !following && !detached && shownUntil === lines.length) [following, missed] = [true, 0];
    else if (!atEnd && following) following = false;
    tell();
  });
  search.addEventListener("input", () => redraw(following ? lines.length : shownUntil));
  search.addEventListener("keydown", (event) => event.key === "Enter" && nextMatch());
  only.addEventListener("change", () => redraw(following ? lines.length : shownUntil));
  followButton.addEventListener("click", () => {
    if (!following) return follow();
    following = false;
    tell();
  });
  newer.addEventListener("click", follow);
  earlier.addEventListener("click", () => void readEarlier());
  workers.addEventListener("change", () => {
    attempt = 0;
    find("#log-raw").setAttribute("href", path(-1048576, 1048576));
    void open();
  });

  /** Offers the logs of so many workers. */
  function offer(/** @type {number} */ many) {
    while (workers.options.length < many) workers.append(el("option", { value: workers.options.length }, `worker ${workers.options.length}`));
    while (workers.options.length > Math.max(1, many)) {
      if (workers.selectedIndex === workers.options.length - 1) break; // its reader stays with it
      workers.options[workers.options.length - 1]?.remove();
    }
    workers.hidden = workers.options.length < 2;
  }

  void open();
  return { offer, follow };
}

/** As a terminal would show the line: without its colours, and what was overwritten is gone. */
function clean(/** @type {string} */ text) {
  const plain = text.replace(ESCAPES, "").replace(/\r+$/, "");
  return plain.slice(plain.lastIndexOf("\r") + 1);
}
