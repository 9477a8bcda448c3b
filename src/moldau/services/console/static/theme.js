// Before the first paint: the theme that was chosen, so that nothing flashes.
"use strict";
try {
  const chosen = localStorage.getItem("moldau-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // storage may be refused: the system's theme it is
}
