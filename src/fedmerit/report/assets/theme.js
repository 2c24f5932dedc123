// Light and dark: as the system says until somebody chooses; paper is always light.
const root = document.documentElement;
const system = matchMedia("(prefers-color-scheme: dark)");
const themeListeners = [];

function remembered(store, key) {
  try { return window[store].getItem(key); } catch { return null; } // files may have no storage
}
function remember(store, key, value) {
  try { window[store].setItem(key, value); } catch { /* then it is forgotten */ }
}

let chosenTheme = remembered("localStorage", "fedmerit-theme");

function showTheme(name) {
  root.dataset.theme = name;
  const button = document.getElementById("theme");
  button.setAttribute("aria-pressed", String(name === "dark"));
  button.textContent = name === "dark" ? "Light" : "Dark";
  button.setAttribute("aria-label", name === "dark" ? "Switch to light colours" : "Switch to dark colours");
  for (const listener of themeListeners) listener();
}
const currentTheme = () => chosenTheme || (system.matches ? "dark" : "light");

document.getElementById("theme").addEventListener("click", () => {
  chosenTheme = root.dataset.theme === "dark" ? "light" : "dark";
  remember("localStorage", "fedmerit-theme", chosenTheme);
  showTheme(chosenTheme);
});
system.addEventListener("change", () => showTheme(currentTheme()));
addEventListener("beforeprint", () => showTheme("light"));
addEventListener("afterprint", () => showTheme(currentTheme()));

const colour = (name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim();
const series = (index) => colour(`c${index % 8}`);
