// @ts-check
// Users, tokens and queues: each form asks the API, shows every mistake beside its fields, and loads the page again.
import { act, all, confirmed, el, find, mistake, Refused } from "./grus.js";

/** @typedef {HTMLDialogElement} Dialog */

function dialog(/** @type {string} */ id) {
  return /** @type {Dialog} */ (find(`#${id}`));
}

/** The fields of a form by their names. */
function fields(/** @type {HTMLFormElement} */ form) {
  return /** @type {Record<string, HTMLInputElement>} */ (
    Object.fromEntries([...form.elements].filter((one) => one.getAttribute("name")).map((one) => [one.getAttribute("name"), one]))
  );
}

/** Opens a form: empty, or with what is to be changed, whose name then stands. */
function open(/** @type {string} */ id, /** @type {Record<string, any> | null} */ values = null) {
  const shown = dialog(id);
  const form = /** @type {HTMLFormElement} */ (find("form", shown));
  form.reset();
  find(".mistakes", form).replaceChildren();
  for (const [name, field] of Object.entries(fields(form))) {
    field.removeAttribute("aria-invalid");
    if (name === "name") field.readOnly = values !== null;
    if (name === "quota") field.readOnly = values?.name === "default"; // it has what the others leave
    if (!values || !(name in values)) continue;
    if (field.type === "checkbox") field.checked = Boolean(values[name]);
    else field.value = String(values[name] ?? "");
  }
  form.dataset.rules = JSON.stringify(values?.rules ?? {});
  shown.showModal();
}

function show(/** @type {HTMLFormElement} */ form, /** @type {Refused} */ error) {
  const named = fields(form);
  const texts = error.mistakes.length ? error.mistakes.map(mistake) : [error.message];
  for (const field of Object.values(named)) field.removeAttribute("aria-invalid");
  for (const one of error.mistakes) named[one.field.split(".").pop() ?? ""]?.setAttribute("aria-invalid", "true");
  find(".mistakes", form).replaceChildren(...texts.map((text) => el("p", {}, text)));
}

// ------------------------------------------------------------------------------------------------- requests

const number = (/** @type {string} */ text) => (text.trim() === "" || Number.isNaN(Number(text)) ? text.trim() : Number(text));

/** "4" → 4; "A100: 4, any: 8" → {A100: 4, any: 8}. What is neither goes as it is, and is refused with the rule. */
function quota(/** @type {string} */ text) {
  if (!text.includes(":")) return number(text);
  const pairs = text.split(",").map((part) => part.split(":"));
  return Object.fromEntries(pairs.map(([kind, amount]) => [(kind ?? "").trim(), number(amount ?? "")]));
}

const requests = {
  user: (/** @type {any} */ f) => act("PUT", `/v1/users/${encodeURIComponent(f.name.value)}`, { role: f.role.value, unix_user: f.unix_user.value }, { quiet: true }),
  token: (/** @type {any} */ f) => act("POST", "/v1/tokens", { user: f.user.value, label: f.label.value, expires: f.expires.value || null }, { quiet: true }),
  queue: (/** @type {any} */ f, /** @type {any} */ rules) =>
    act("PUT", `/v1/queues/${encodeURIComponent(f.name.value)}`, {
      ...rules, // what the form does not show stays as it is
      parent: f.parent.value || null,
      quota: f.quota.readOnly ? rules.quota : quota(f.quota.value),
      reserved: number(f.reserved.value || "0"),
      weight: number(f.weight.value || "1"),
      limit: f.limit.value ? number(f.limit.value) : null,
      max_runtime: f.max_runtime.value ? number(f.max_runtime.value) : null,
      members: f.members.value.split(",").map((/** @type {string} */ one) => one.trim()).filter(Boolean),
      oversubscribe: f.oversubscribe.checked,
    }, { quiet: true }),
};

for (const form of /** @type {HTMLFormElement[]} */ (all("form[data-form]"))) {
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const kind = /** @type {keyof typeof requests} */ (form.dataset.form);
    try {
      const made = await requests[kind](fields(form), JSON.parse(form.dataset.rules ?? "{}"));
      form.closest("dialog")?.close();
      if (kind === "token") reveal(made.secret);
      else location.reload();
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      show(form, error);
    }
  });
}

function reveal(/** @type {string} */ secret) {
  const shown = dialog("secret");
  const place = find(".secret", shown);
  place.textContent = secret;
  shown.addEventListener("close", () => {
    place.textContent = "";
    location.reload();
  });
  find("[data-copy]", shown).addEventListener("click", async () => {
    await navigator.clipboard.writeText(secret);
    find("[data-copy]", shown).textContent = "Copied";
  });
  shown.showModal();
}

// -------------------------------------------------------------------------------------------------- buttons

/** What a button of a row does, with the row's data. */
function onRows(/** @type {string} */ selector, /** @type {(row: DOMStringMap) => void} */ then) {
  for (const button of all(selector)) {
    button.addEventListener("click", () => then(/** @type {HTMLElement} */ (button.closest("tr")).dataset));
  }
}

async function remove(/** @type {string} */ question, /** @type {string} */ detail, /** @type {string} */ yes, /** @type {string} */ path) {
  if (!(await confirmed(question, { detail, yes, danger: true }))) return;
  await act("DELETE", path).then(() => location.reload(), () => {}); // the message is on the page
}

for (const button of all("[data-open]")) button.addEventListener("click", () => open(button.dataset.open ?? ""));
for (const button of all("[data-close]")) button.addEventListener("click", () => button.closest("dialog")?.close());
onRows("[data-change-user]", (row) => open("user-form", { name: row.user, role: row.role, unix_user: row.unix }));
onRows("[data-delete-user]", (row) =>
  void remove(`Delete the user ${row.user}?`, "All their tokens are taken back. Jobs that run go on to their end.", "Delete", `/v1/users/${encodeURIComponent(row.user ?? "")}`));
onRows("[data-delete-token]", (row) =>
  void remove("Take this token back?", `It is one of ${row.user}. Whoever uses it is signed out at once.`, "Take back", `/v1/tokens/${row.digest}`));
onRows("[data-change-queue]", (row) => {
  const rules = JSON.parse(row.rules ?? "{}");
  open("queue-form", { ...rules, name: row.queue, quota: row.quota, members: (rules.members ?? []).join(", "), rules });
});
onRows("[data-delete-queue]", (row) =>
  void remove(`Delete the queue ${row.queue}?`, "Its quota goes back to those who remain. It must have no jobs left.", "Delete", `/v1/queues/${encodeURIComponent(row.queue ?? "")}`));
