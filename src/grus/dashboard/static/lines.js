// @ts-check
// Charts of lines over time or steps, drawn as SVG here: the page of a job is light, since it loads no chart library.
//
// Figures are those of charts.js, of which this is the part that a job needs: traces of lines with gaps, fills and
// steps, a second axis on the right, lines and bands behind them, notes, and a legend. All texts become text nodes.

import { all, el } from "./grus.js";

/** @typedef {{data: any[], layout: Record<string, any>} | {missing: string}} Figure */
/** @typedef {{low: number, high: number, at: (value: number) => number}} Scale */
/** @typedef {(offset: number | undefined) => void} Tip Shows the values at this pixel, or hides them. */

const SVG = "http://www.w3.org/2000/svg";
const [TOP, BOTTOM, LEFT, RIGHT, TITLE] = [14, 24, 56, 14, 16]; // pixels around the lines
const TIMES = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 2419200];
const LABEL = 76; // pixels that a label below the lines needs, with the space to the next
const DASHES = { dash: "6 4", dot: "2 3" };

/** The pixel that the pointer rests on, by chart: a chart that is drawn again shows the values there again. @type {WeakMap<Element, number>} */
const pointers = new WeakMap();
/** @type {WeakMap<Element, Tip>} */
const tips = new WeakMap();

/** The charts of a page: `draw` shows figures by the name in `data-chart`, again and again. */
export function lineCharts(/** @type {ParentNode} */ within = document) {
  /** @type {Map<Element, Figure>} */
  const shown = new Map();
  const sizes = new ResizeObserver((changes) => {
    for (const { target } of changes) put(/** @type {HTMLElement} */ (target), shown.get(target));
  });

  function draw(/** @type {Record<string, Figure>} */ figures) {
    for (const place of all("[data-chart]", within)) {
      const figure = figures[place.dataset.chart ?? ""];
      if (!figure) continue;
      if (!shown.has(place)) place.addEventListener("pointerleave", () => leave(place));
      shown.set(place, figure);
      put(place, figure);
      sizes.observe(place);
    }
  }
  return { draw };
}

function leave(/** @type {HTMLElement} */ place) {
  pointers.delete(place);
  tips.get(place)?.(undefined);
}

function put(/** @type {HTMLElement} */ place, /** @type {Figure | undefined} */ figure) {
  if (!figure) return;
  if ("missing" in figure) {
    place.replaceChildren(el("p", { class: "loading" }, figure.missing));
    place.classList.remove("drawn");
    return;
  }
  const width = Math.floor(place.clientWidth);
  if (width < 80) return; // hidden: drawn when it has a size
  place.classList.add("drawn");
  place.replaceChildren(...(figure.layout.showlegend ? [legend(figure.data)] : []), picture(place, figure, width));
  tips.get(place)?.(pointers.get(place));
}

function legend(/** @type {any[]} */ traces) {
  const named = traces.filter((trace) => trace.showlegend !== false && trace.name);
  return el("p", { class: "chart-legend small" }, ...named.map((trace) => el("span", {}, swatch(trace), el("span", { class: "legendtext" }, trace.name))));
}

function swatch(/** @type {any} */ trace) {
  const svg = shape("svg", { width: 22, height: 10, "aria-hidden": "true" });
  svg.append(shape("line", { x1: 0, x2: 22, y1: 5, y2: 5, ...stroke(trace.line?.width ? trace.line : { color: trace.fillcolor, width: 8 }) }));
  return svg;
}

function picture(/** @type {HTMLElement} */ place, /** @type {any} */ { data, layout }, /** @type {number} */ width) {
  const height = layout.height ?? 230;
  const titles = Boolean(layout.yaxis?.title || layout.yaxis2?.title);
  const [top, bottom] = [TOP + (titles ? TITLE : 0), height - BOTTOM - (layout.xaxis?.title ? TITLE : 0)];
  const right = width - (layout.yaxis2 ? LEFT - 16 : RIGHT);
  const first = data.filter((/** @type {any} */ trace) => trace.yaxis !== "y2");
  const second = data.filter((/** @type {any} */ trace) => trace.yaxis === "y2");
  const marks = (layout.shapes ?? []).filter((/** @type {any} */ mark) => mark.xref === "paper").map((/** @type {any} */ mark) => mark.y0);
  const x = scale(data.flatMap((/** @type {any} */ trace) => trace.x), layout.xaxis ?? {}, LEFT, right, 0);
  const y = scale([...first.flatMap((/** @type {any} */ trace) => trace.y), ...marks], layout.yaxis ?? {}, bottom, top, 0.06);
  const y2 = layout.yaxis2 ? scale(second.flatMap((/** @type {any} */ trace) => trace.y), layout.yaxis2, bottom, top, 0.06) : null;
  const svg = shape("svg", { class: "main-svg", width, height, "aria-hidden": "true" });
  svg.append(...axisBelow(x, layout.xaxis ?? {}, bottom, top, width), ...axisBeside(y, layout.yaxis ?? {}, LEFT - 6, "end", [LEFT, right]));
  if (y2) svg.append(...axisBeside(y2, layout.yaxis2, right + 6, "start", null));
  if (layout.yaxis?.title) svg.append(label(layout.yaxis.title.text, 4, TITLE - 4, "start"));
  if (layout.yaxis2?.title) svg.append(label(layout.yaxis2.title.text, width - 4, TITLE - 4, "end"));
  for (const mark of layout.shapes ?? []) svg.append(behind(mark, x, y, [LEFT, right], [bottom, top]));
  data.forEach((/** @type {any} */ trace, /** @type {number} */ number) => {
    svg.append(...line(trace, data[number - 1], x, trace.yaxis === "y2" && y2 ? y2 : y, bottom));
  });
  for (const note of layout.annotations ?? []) {
    const across = note.xref === "paper";
    svg.append(label(note.text, across ? right - 2 : x.at(note.x), across ? y.at(note.y) - 4 : top - 3, across ? "end" : "middle"));
  }
  pointed(place, svg, data, x, layout.xaxis?.type === "date", [LEFT, right], [top, bottom]);
  return svg;
}

/** Where values lie between two pixels. */
function scale(/** @type {(number | null)[]} */ values, /** @type {any} */ axis, /** @type {number} */ from, /** @type {number} */ to, /** @type {number} */ room) {
  let [low, high] = axis.range ?? [Infinity, -Infinity];
  if (!axis.range) {
    for (const value of values) {
      if (value === null || !Number.isFinite(value)) continue;
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
    if (low > high) [low, high] = [0, 1];
    if (axis.rangemode === "tozero") [low, high] = [Math.min(0, low), Math.max(0, high)];
    if (low === high) [low, high] = [low - (Math.abs(low) / 2 || 0.5), high + (Math.abs(high) / 2 || 0.5)];
    const more = room * (high - low);
    [low, high] = [low === 0 ? 0 : low - more, high + more];
  }
  return { low, high, at: (/** @type {number} */ value) => round(from + ((value - low) / (high - low)) * (to - from)) };
}

// ------------------------------------------------------------------------------------------------- axes

function axisBelow(/** @type {Scale} */ x, /** @type {any} */ axis, /** @type {number} */ bottom, /** @type {number} */ top, /** @type {number} */ width) {
  const most = Math.max(2, Math.floor(width / LABEL));
  const timed = axis.type === "date";
  const [places, step] = timed ? moments(x, most) : numbers(x, most, axis);
  const made = places.flatMap((value) => {
    const at = x.at(value);
    const middle = Math.max(30, Math.min(width - 30, at));
    return [shape("line", { class: "chart-grid", x1: at, x2: at, y1: top, y2: bottom }), tick("xtick", timed ? moment(value, step) : amount(value, ""), middle, bottom + 15, "middle")];
  });
  return axis.title ? [...made, label(axis.title.text, width / 2, bottom + 31, "middle")] : made;
}

function axisBeside(/** @type {Scale} */ y, /** @type {any} */ axis, /** @type {number} */ at, /** @type {string} */ anchor, /** @type {number[] | null} */ grid) {
  const [places] = numbers(y, 5, axis);
  return places.flatMap((value) => {
    const text = tick("ytick", amount(value, axis.tickformat ?? "") + (axis.ticksuffix ?? ""), at, y.at(value) + 4, anchor);
    if (!grid) return [text];
    return [shape("line", { class: "chart-grid", x1: grid[0], x2: grid[1], y1: y.at(value), y2: y.at(value) }), text];
  });
}

/** Round numbers on a scale, and the step between them. @returns {[number[], number]} */
function numbers(/** @type {Scale} */ { low, high }, /** @type {number} */ most, /** @type {any} */ axis) {
  const rough = (high - low) / most;
  const size = 10 ** Math.floor(Math.log10(rough));
  const step = axis.dtick ?? size * ([1, 2, 5, 10].find((one) => one * size >= rough * 0.999) ?? 10);
  return [steps(low, high, step, 0), step];
}

/** Round moments in the reader's time zone. @returns {[number[], number]} */
function moments(/** @type {Scale} */ { low, high }, /** @type {number} */ most) {
  const step = TIMES.find((one) => (high - low) / one <= most) ?? (high - low) / most;
  return [steps(low, high, step, 60 * new Date(1000 * low).getTimezoneOffset()), step];
}

function steps(/** @type {number} */ low, /** @type {number} */ high, /** @type {number} */ step, /** @type {number} */ shift) {
  const found = [];
  for (let number = Math.ceil((low - shift) / step - 1e-9); number * step + shift <= high + 1e-9 * step && found.length < 50; number += 1) {
    found.push(number * step + shift);
  }
  return found;
}

function moment(/** @type {number} */ at, /** @type {number} */ step) {
  const when = new Date(1000 * at);
  if (step >= 86400) return when.toLocaleDateString([], { day: "numeric", month: "short" });
  return when.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: step < 60 ? "2-digit" : undefined, hourCycle: "h23" });
}

function amount(/** @type {number} */ value, /** @type {string} */ format) {
  if (format.endsWith("%")) return `${Math.round(100 * value)}%`;
  if (format === ".0f") return value.toFixed(0);
  return String(Number(value.toPrecision(4)));
}

// ------------------------------------------------------------------------------------------------- lines

function line(/** @type {any} */ trace, /** @type {any} */ before, /** @type {Scale} */ x, /** @type {Scale} */ y, /** @type {number} */ bottom) {
  const made = [];
  const parts = pieces(trace, x, y);
  if (trace.fill === "tozeroy") {
    for (const part of parts) made.push(area([...part, [part[part.length - 1][0], bottom], [part[0][0], bottom]], trace.fillcolor));
  } else if (trace.fill === "tonexty" && before) {
    made.push(area([...parts.flat(), ...pieces(before, x, y).flat().reverse()], trace.fillcolor));
  }
  if (trace.mode === "none" || !trace.line?.width) return made;
  const d = parts.map((part) => `M${part.map((point) => point.join(" ")).join("L")}`).join("");
  if (d) made.push(shape("path", { d, fill: "none", ...stroke(trace.line) }));
  if (trace.mode.includes("markers")) for (const [cx, cy] of parts.flat()) made.push(shape("circle", { cx, cy, r: 3, fill: paint(trace.line.color) }));
  return made;
}

/** The points of a trace in pixels, apart where a value is missing. @returns {number[][][]} */
function pieces(/** @type {any} */ trace, /** @type {Scale} */ x, /** @type {Scale} */ y) {
  /** @type {number[][][]} */
  const found = [];
  let open = false;
  trace.x.forEach((/** @type {number | null} */ at, /** @type {number} */ number) => {
    const value = trace.y[number];
    if (at === null || value === null || value === undefined) {
      open = false;
      return;
    }
    const point = [x.at(at), y.at(value)];
    if (!open) found.push([]);
    const part = found[found.length - 1];
    if (open && trace.line?.shape === "hv") part.push([point[0], part[part.length - 1][1]]);
    part.push(point);
    open = true;
  });
  return found;
}

function area(/** @type {number[][]} */ points, /** @type {string} */ color) {
  return shape("polygon", { points: points.map((point) => point.join(",")).join(" "), fill: paint(color) });
}

function behind(/** @type {any} */ mark, /** @type {Scale} */ x, /** @type {Scale} */ y, /** @type {number[]} */ [left, right], /** @type {number[]} */ [bottom, top]) {
  if (mark.type === "rect") return shape("rect", { x: x.at(mark.x0), y: top, width: Math.max(0, x.at(mark.x1) - x.at(mark.x0)), height: bottom - top, fill: paint(mark.fillcolor) });
  if (mark.xref === "paper") return shape("line", { x1: left, x2: right, y1: y.at(mark.y0), y2: y.at(mark.y1), ...stroke(mark.line) });
  return shape("line", { x1: x.at(mark.x0), x2: x.at(mark.x1), y1: bottom, y2: top, ...stroke(mark.line) });
}

// ---------------------------------------------------------------------------------------------- pointing

/** Shows the values at the moment or step that is pointed at. */
function pointed(/** @type {HTMLElement} */ place, /** @type {SVGElement} */ svg, /** @type {any[]} */ data, /** @type {Scale} */ x, /** @type {boolean} */ timed, /** @type {number[]} */ [left, right], /** @type {number[]} */ [top, bottom]) {
  const rule = shape("line", { class: "chart-rule", y1: top, y2: bottom, visibility: "hidden" });
  const box = el("div", { class: "chart-tip small", hidden: "" });
  svg.append(rule);
  tips.set(place, (offset) => {
    box.hidden = true;
    rule.setAttribute("visibility", "hidden");
    if (offset === undefined) return;
    const at = x.low + ((Math.max(left, Math.min(right, offset)) - left) / (right - left)) * (x.high - x.low);
    const near = data.filter((trace) => trace.hovertemplate).map((trace) => ({ trace, number: nearest(trace, at) })).filter(({ number }) => number >= 0);
    if (!near.length) return;
    const { trace, number } = near[0];
    const spot = x.at(trace.x[number]);
    rule.setAttribute("x1", String(spot));
    rule.setAttribute("x2", String(spot));
    rule.setAttribute("visibility", "visible");
    const head = timed ? new Date(1000 * trace.x[number]).toLocaleString() : `step ${amount(trace.x[number], "")}`;
    box.replaceChildren(el("b", {}, head), ...near.map((one) => el("span", {}, words(one.trace, one.number))));
    if (!box.isConnected) place.append(box);
    box.hidden = false;
    box.style.left = `${spot > (left + right) / 2 ? spot - box.offsetWidth - 8 : spot + 8}px`;
    box.style.top = `${top}px`;
  });
  svg.addEventListener("pointermove", (event) => {
    pointers.set(place, event.offsetX);
    tips.get(place)?.(event.offsetX);
  });
}

function nearest(/** @type {any} */ trace, /** @type {number} */ at) {
  let best = -1;
  trace.x.forEach((/** @type {number | null} */ one, /** @type {number} */ number) => {
    if (one === null || trace.y[number] === null) return;
    if (best < 0 || Math.abs(one - at) < Math.abs(trace.x[best] - at)) best = number;
  });
  return best;
}

function words(/** @type {any} */ trace, /** @type {number} */ number) {
  const format = /%\{y(?::([^}]*))?\}/;
  return trace.hovertemplate.replace("<extra></extra>", "").replace(format, (/** @type {string} */ _, /** @type {string} */ how) => amount(trace.y[number], how ?? ""));
}

// ------------------------------------------------------------------------------------------------ shapes

function shape(/** @type {string} */ tag, /** @type {Record<string, string | number>} */ given) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(given)) made.setAttribute(name, String(value));
  return made;
}

function tick(/** @type {string} */ kind, /** @type {string} */ text, /** @type {number} */ x, /** @type {number} */ y, /** @type {string} */ anchor) {
  const group = shape("g", { class: kind });
  group.append(label(text, x, y, anchor));
  return group;
}

function label(/** @type {string} */ text, /** @type {number} */ x, /** @type {number} */ y, /** @type {string} */ anchor) {
  const made = shape("text", { class: "chart-text", x, y, "text-anchor": anchor });
  made.textContent = text;
  return made;
}

function stroke(/** @type {any} */ line) {
  const dash = DASHES[/** @type {keyof typeof DASHES} */ (line.dash)];
  return { stroke: paint(line.color), "stroke-width": line.width ?? 1, ...(dash ? { "stroke-dasharray": dash } : {}) };
}

/** Colours are custom properties of the style sheet, so that a change of the theme needs no drawing. */
function paint(/** @type {string | undefined} */ color) {
  return color?.startsWith("--") ? `var(${color})` : (color ?? "none");
}

function round(/** @type {number} */ value) {
  return Math.round(10 * value) / 10;
}
