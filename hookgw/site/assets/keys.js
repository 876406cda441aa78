// Keys for pages, rows and looks; "?" lists them. A reader can switch them off: single letters get in the way of some
// ways of speaking to a computer (WCAG 2.2, 2.1.4). The looks are in a cookie, so that the server renders them at once.
import { N_, _ } from "./texts.js";

const LOOKS = { theme: [N_("system"), N_("light"), N_("dark")], density: [N_("comfortable"), N_("compact")] };
const OFF = "keys off";

function setLook(name, value) {
  const root = document.documentElement;
  if (value === LOOKS[name][0]) delete root.dataset[name];
  else root.dataset[name] = value;
  const chosen = Object.keys(LOOKS).map((one) => root.dataset[one] ?? "").join(".");
  document.cookie = `hookgw_look=${chosen}; path=/; max-age=31536000; samesite=strict`;
  showLooks();
}

function nextLook(name) {
  const now = document.documentElement.dataset[name] ?? LOOKS[name][0];
  setLook(name, LOOKS[name][(LOOKS[name].indexOf(now) + 1) % LOOKS[name].length]);
}

function showLooks() {
  for (const button of document.querySelectorAll("[data-look]")) {
    const name = button.dataset.look;
    button.textContent = `${button.title}: ${_(document.documentElement.dataset[name] ?? LOOKS[name][0])}`;
    button.hidden = false;
  }
}

function goToRow(step) {
  const links = [...document.querySelectorAll("[data-rows] > * .c-main a, [data-rows] > li h3 + p a, [data-rows] > li > details > summary, .problem summary")];
  const row = document.activeElement?.closest("[data-rows] > *");
  const at = links.findIndex((link) => row?.contains(link));
  links[at < 0 ? (step > 0 ? 0 : links.length - 1) : Math.min(Math.max(at + step, 0), links.length - 1)]?.focus();
}

const ACTIONS = {
  "?": () => document.getElementById("keys-help")?.showModal(),
  j: () => goToRow(1),
  k: () => goToRow(-1),
  x: () => document.activeElement?.closest("[data-rows] > *")?.querySelector("input[type=checkbox]")?.click(),
  p: () => document.querySelector("[data-live-switch]:not([hidden])")?.click(),
  r: () => location.reload(),
  t: () => nextLook("theme"),
};

export function startKeys() {
  for (const button of document.querySelectorAll("[data-look]")) {
    button.addEventListener("click", () => nextLook(button.dataset.look));
  }
  showLooks();
  const help = document.getElementById("keys-help");
  const opener = document.querySelector("[data-keys]");
  if (!help || !opener) return;
  opener.hidden = false;
  opener.addEventListener("click", () => help.showModal());
  const isOn = help.querySelector("input");
  isOn.checked = localStorage.getItem(OFF) === null;
  isOn.addEventListener("change", () => {
    if (isOn.checked) localStorage.removeItem(OFF);
    else localStorage.setItem(OFF, "");
  });
  addEventListener("keydown", (event) => {
    if (!isOn.checked || event.ctrlKey || event.metaKey || event.altKey || help.open) return;
    if (event.target.closest("input:not([type=checkbox]), textarea, select, [contenteditable]")) return;
    const page = document.querySelector(`nav a[data-key="${CSS.escape(event.key)}"]`);
    const act = page ? () => page.click() : ACTIONS[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
}
