// @ts-check
// Charts, drawn by Plotly's script out of the installed package. It is large, so it is loaded once, after the page
// was painted, and only on pages that have charts: <div class="chart" data-chart="use"><p class="loading">…</p></div>.
//
// Figures are plain JSON, {data, layout}, or {missing: "why there is none"}. Colours in them are names of custom
// properties of the style sheet ("--chart-1"); on axes of type "date" numbers are seconds since 1970, shown in the
// reader's time zone. Plotly reads a few tags in texts: what people wrote must have been escaped by who made the
// figure, and bold or coloured words would break the pages' policy.

import { all, colour, el } from "./grus.js";

/** @typedef {{data: any[], layout: Record<string, any>} | {missing: string}} Figure */

const BUTTONS = [["toImage"], ["zoom2d", "pan2d"], ["resetScale2d"]];
const SETTINGS = {
  responsive: true,
  displaylogo: false,
  modeBarButtons: BUTTONS, // by name: the usual ones offer to send the chart to somebody else's server
  toImageButtonOptions: { format: "svg" }, // others are made of images that the policy does not allow
};
const AXIS = /^[xy]axis\d*$/;

/** @type {Promise<any> | null} */
let script = null;

/** Plotly, as soon as it is there. */
function plotly() {
  script ??= painted().then(styled).then(loaded);
  return script;
}

/** After the page was painted and when the browser has nothing better to do. */
function painted() {
  const idle = window.requestIdleCallback ?? ((/** @type {() => void} */ then) => setTimeout(then, 50));
  return new Promise((/** @type {(value?: unknown) => void} */ done) =>
    requestAnimationFrame(() => requestAnimationFrame(() => idle(() => done(), { timeout: 1000 }))),
  );
}

/** What the reader does meanwhile comes first. */
function breath() {
  return new Promise((done) => setTimeout(done));
}

/** The sheet that Plotly looks for by this id, and adds its rules to instead of making one of its own. */
function styled() {
  document.getElementById("plotly.js-style-global")?.remove();
  return new Promise((done, failed) => {
    const sheet = el("link", { id: "plotly.js-style-global", rel: "stylesheet", href: beside("charts.css") });
    sheet.addEventListener("load", done);
    sheet.addEventListener("error", failed);
    document.head.append(sheet);
  });
}

function loaded() {
  return new Promise((done, failed) => {
    const head = document.head;
    const element = el("script", { src: beside("plotly.js") });
    element.addEventListener("load", () => done(Reflect.get(window, "Plotly")));
    element.addEventListener("error", failed);
    for (const name of ["load", "error"]) element.addEventListener(name, () => Reflect.deleteProperty(head, "appendChild"));
    head.append(element);
    // While it loads, the script would put a style element for its maps into the head, which the policy forbids.
    head.appendChild = (node) => (node instanceof HTMLStyleElement ? node : Node.prototype.appendChild.call(head, node));
  });
}

function beside(/** @type {string} */ name) {
  return new URL(`./${name}`, import.meta.url).pathname;
}

/**
 * The charts of a page. `draw` shows figures by the name in `data-chart`, again and again; `fetch` asks an address
 * for them. What the reader has zoomed into stays.
 */
export function charts(/** @type {ParentNode} */ within = document) {
  /** @type {Map<HTMLElement, Figure>} */
  const shown = new Map();
  let turn = Promise.resolve(); // one drawing after the other: between two charts others get theirs

  async function draw(/** @type {Record<string, Figure>} */ figures) {
    for (const place of all("[data-chart]", within)) {
      const figure = figures[place.dataset.chart ?? ""];
      if (figure) shown.set(place, figure);
    }
    await redraw();
  }

  function redraw() {
    turn = turn.then(drawAll);
    return turn;
  }

  async function drawAll() {
    const drawn = [];
    for (const [place, figure] of shown) {
      if ("missing" in figure) await say(place, figure.missing);
      else drawn.push({ place, figure });
    }
    if (!drawn.length) return;
    try {
      const Plotly = await plotly();
      for (const { place, figure } of drawn) {
        await breath();
        await put(Plotly, place, figure);
      }
    } catch {
      script = null; // the next draw tries again
      for (const { place } of drawn) place.replaceChildren(el("p", { class: "loading error" }, "The charts could not be loaded. Load the page again."));
    }
  }

  async function fetched(/** @type {string} */ address) {
    const answer = await fetch(address, { headers: { Accept: "application/json" } });
    if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
    await draw(await answer.json());
  }

  addEventListener("grus-theme", () => void redraw());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => void redraw());
  return { draw, fetch: fetched };
}

/** A sentence in the place of a chart. */
async function say(/** @type {HTMLElement} */ place, /** @type {string} */ text) {
  if (place.classList.contains("drawn")) (await plotly()).purge(place);
  place.classList.remove("drawn");
  place.replaceChildren(el("p", { class: "loading" }, text));
}

async function put(/** @type {any} */ Plotly, /** @type {HTMLElement} */ place, /** @type {{data: any[], layout: any}} */ figure) {
  if (!place.classList.contains("drawn")) place.replaceChildren();
  place.classList.add("drawn");
  const { data, layout } = inColour(figure);
  themed(layout, place.dataset.chart ?? "");
  inLocalTime(data, layout);
  await Plotly.react(place, data, layout, { ...SETTINGS, displayModeBar: innerWidth < 700 ? false : "hover" });
}

/** A copy with the colours of the theme instead of their names. */
function inColour(/** @type {any} */ figure) {
  /** @type {Map<string, string>} */
  const known = new Map();
  const of = (/** @type {string} */ name) => {
    if (!known.has(name)) known.set(name, colour(name));
    return known.get(name);
  };
  const copy = (/** @type {any} */ value, /** @type {string} */ key) => {
    if (typeof value === "string") return /color$/.test(key) && value.startsWith("--") ? of(value) : value;
    if (Array.isArray(value)) return value.map((one) => (typeof one === "object" || typeof one === "string" ? copy(one, key) : one));
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, copy(one, name)]));
  };
  return copy(figure, "");
}

/** The look that all charts share. */
function themed(/** @type {any} */ layout, /** @type {string} */ name) {
  const [text, muted, line, surface] = ["--text", "--muted", "--line", "--surface"].map(colour);
  layout.paper_bgcolor = layout.plot_bgcolor = "rgba(0,0,0,0)";
  layout.font = { color: muted, size: 11, family: getComputedStyle(document.body).fontFamily };
  layout.modebar = { bgcolor: "rgba(0,0,0,0)", color: muted, activecolor: text };
  layout.hoverlabel = { bgcolor: surface, bordercolor: line, font: { color: text, size: 12 } };
  layout.uirevision = name;
  layout.autosize = true;
  for (const key of Object.keys(layout).filter((key) => AXIS.test(key))) {
    layout[key] = { gridcolor: line, zerolinecolor: line, linecolor: line, automargin: true, ...layout[key] };
  }
}

/** Seconds since 1970 on axes of time, as Plotly reads them: a moment without a zone, the reader's own. */
function inLocalTime(/** @type {any[]} */ data, /** @type {any} */ layout) {
  const isTime = (/** @type {string | undefined} */ axis) => layout[`xaxis${(axis ?? "x").slice(1)}`]?.type === "date";
  for (const trace of data) if (isTime(trace.xaxis) && Array.isArray(trace.x)) trace.x = trace.x.map(moment);
  for (const mark of [...(layout.shapes ?? []), ...(layout.annotations ?? [])]) {
    if (mark.xref === "paper" || !isTime(mark.xref)) continue;
    for (const key of ["x", "x0", "x1"]) if (key in mark) mark[key] = moment(mark[key]);
  }
  for (const key of Object.keys(layout)) {
    if (layout[key]?.type === "date" && Array.isArray(layout[key].range)) layout[key].range = layout[key].range.map(moment);
  }
}

function moment(/** @type {number | string | null} */ at) {
  if (typeof at !== "number") return at;
  const here = new Date(1000 * at);
  return new Date(here.getTime() - 60000 * here.getTimezoneOffset()).toISOString().slice(0, -1);
}
