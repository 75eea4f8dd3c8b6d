// @ts-check
// The page of queues: puts what the stream tells into the rows that changed.

import { all, live, set } from "./grus.js";

/** @typedef {{quota: number, held: number, borrowed: number, reserved: number | null, share: number, limit: number | null, label: string}} Bar */
/** @typedef {{name: string, state: string, badge: string, bar: Bar} & Record<string, string>} Row */

const known = new Map(all("[data-queue]").map((row) => [row.dataset.queue ?? "", row]));

let whole = true; // each connection begins with all rows

function take(/** @type {Row[]} */ rows) {
  if (whole && rows.length !== known.size) return location.reload();
  whole = false;
  for (const told of rows) {
    const row = known.get(told.name);
    if (!row) return location.reload();
    for (const cell of all("[data-cell]", row)) set(cell.querySelector("b") ?? cell, told[cell.dataset.cell ?? ""]);
    const badge = row.querySelector("[data-badge]");
    set(badge, told.state);
    if (badge) badge.className = `badge ${told.badge}`;
    draw(row, told.bar);
  }
}

function draw(/** @type {HTMLElement} */ row, /** @type {Bar} */ bar) {
  row.querySelector(".bar")?.setAttribute("aria-label", bar.label);
  put(row, "quota", { width: bar.quota });
  put(row, "held", { width: bar.held });
  put(row, "borrowed", { x: bar.held, width: bar.borrowed });
  for (const [kind, at] of Object.entries({ reserved: bar.reserved, share: bar.share, limit: bar.limit })) {
    const mark = row.querySelector(`[data-mark="${kind}"]`);
    if (at === null) mark?.setAttribute("display", "none");
    else {
      mark?.removeAttribute("display");
      mark?.setAttribute("x1", String(at));
      mark?.setAttribute("x2", String(at));
    }
  }
}

function put(/** @type {HTMLElement} */ row, /** @type {string} */ kind, /** @type {Record<string, number>} */ values) {
  const drawn = row.querySelector(`[data-bar="${kind}"]`);
  for (const [name, value] of Object.entries(values)) drawn?.setAttribute(name, String(value));
}

live("/live/queues", { open: () => (whole = true), queues: take, reload: () => location.reload() });
