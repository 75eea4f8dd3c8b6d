// @ts-check
// `grus dashboard` opens this page with a code behind the #, which no server or proxy ever sees in an address. It is
// taken out of the address, and handed in like a token.
import { el, find } from "./grus.js";

const code = new URLSearchParams(location.hash.slice(1)).get("code");
if (code) {
  history.replaceState(null, "", location.pathname);
  const form = /** @type {HTMLFormElement} */ (find("form[action='/sign-in']"));
  form.append(el("input", { type: "hidden", name: "code", value: code }));
  form.submit();
}
