// Before the first paint: the theme that was chosen on an earlier visit. Not a module, so that it runs at once.
"use strict";
{
  const chosen = localStorage.getItem("grus-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
}
