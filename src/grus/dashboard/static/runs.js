// @ts-check
// Runs: two of them, no more and no fewer, can be compared.

import { all, find } from "./grus.js";

const button = /** @type {HTMLButtonElement} */ (find("#compare"));
const boxes = /** @type {HTMLInputElement[]} */ (all("#picked [name=run]"));

function count() {
  const picked = boxes.filter((box) => box.checked).length;
  button.disabled = picked !== 2;
  button.title = picked === 2 ? "" : `${picked} ticked: tick two`;
}

for (const box of boxes) box.addEventListener("change", count);
addEventListener("pageshow", count); // a browser that comes back remembers what was ticked
count();
