// What needs a script in the manual: the address of this gateway, languages, copying, calls, themes. The search
// is a module of its own, which is loaded with its index when somebody searches.

const LANGUAGES = ["curl", "Python", "JavaScript"];
const isSite = document.body.hasAttribute("data-site");
// The manual's first page is `docs` below the gateway's address.
const gateway = new URL("./", new URL(document.body.dataset.home, location.href)).href.replace(/\/$/, "");
const texts = JSON.parse(document.documentElement.dataset.texts || "{}");
const _ = (text, values = {}) => (texts[text] ?? text).replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);
const store = {
  get: (name) => { try { return localStorage.getItem(name); } catch { return null; } },
  set: (name, value) => { try { localStorage.setItem(name, value); } catch { /* storage is off */ } },
};

function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

// The address by which this reader reaches the gateway: a proxy or a container may have another one.
function showAddress() {
  for (const place of document.querySelectorAll(".at")) place.textContent = gateway;
  for (const link of document.querySelectorAll("a[data-at]")) link.href = gateway + link.dataset.at;
}

function addCopyButton(block, place) {
  const button = make("button", { type: "button", className: "copy", textContent: _("Copy") });
  button.addEventListener("click", async () => {
    const shown = [...block.querySelectorAll("pre")].find((one) => one.offsetParent) ?? block.querySelector("pre");
    const { copy } = await import(new URL(document.body.dataset.copy, location.href).href);
    const isCopied = await copy(shown);
    button.textContent = isCopied ? _("Copied") : _("Selected");
    setTimeout(() => { button.textContent = _("Copy"); }, 2000);
  });
  place.append(button);
}

function addLanguages(block) {
  const bar = make("div", { className: "bar", role: "group", ariaLabel: _("Language of the examples") });
  for (const part of block.querySelectorAll("details")) {
    const button = make("button", { type: "button", textContent: part.dataset.language });
    button.dataset.show = part.dataset.language;
    button.addEventListener("click", () => { store.set("hookgw-language", part.dataset.language); showLanguage(part.dataset.language); });
    part.querySelector("summary").hidden = true;
    bar.append(button);
  }
  block.prepend(bar);
  return bar;
}

function showLanguage(language) {
  for (const part of document.querySelectorAll(".example details")) {
    part.open = part.dataset.language === language;
    part.hidden = !part.open;
  }
  for (const button of document.querySelectorAll("button[data-show]")) button.ariaPressed = String(button.dataset.show === language);
}

let key = ""; // in this page's memory alone: nothing stores it

function addTry(block, bar) {
  const button = make("button", { type: "button", className: "try", textContent: _("Try it"), ariaExpanded: "false" });
  let forms = null;
  button.addEventListener("click", () => {
    if (forms === null) {
      forms = make("div", {}, ...JSON.parse(block.dataset.calls).map(callForm));
      block.append(forms);
    } else {
      forms.hidden = !forms.hidden;
    }
    button.ariaExpanded = String(!forms.hidden);
    if (!forms.hidden) forms.querySelector("input").focus();
  });
  bar.append(button);
}

function callForm(call) {
  const path = make("input", { value: call.path, spellcheck: false, required: true });
  const secret = make("input", { type: "password", value: key, autocomplete: "off" });
  const body = make("textarea", { value: call.body, spellcheck: false, rows: Math.min(14, call.body.split("\n").length + 1) });
  const answer = make("output");
  const form = make(
    "form", { className: "call" },
    make("label", {}, `${call.method} ${gateway}`, path),
    make("label", {}, _("Your key. This page forgets it when you leave."), secret),
    ...(call.body ? [make("label", {}, _("Body"), body)] : []),
    make("button", { className: "send", textContent: _("Send this {method}", { method: call.method }) }), answer,
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    key = secret.value;
    const headers = { accept: "application/json", ...(key && { apikey: key }), ...(call.body && { "content-type": call.type || "application/json" }) };
    answer.replaceChildren(make("p", { textContent: _("Waiting for the answer…") }));
    try {
      const response = await fetch(gateway + path.value, { method: call.method, headers, body: call.body ? body.value : undefined, credentials: "omit", cache: "no-store" });
      answer.replaceChildren(
        make("p", { className: response.ok ? "" : "failed", textContent: `${response.status} ${response.statusText}` }),
        make("pre", { tabIndex: 0, textContent: await readable(response) }),
      );
    } catch (error) {
      answer.replaceChildren(make("p", { className: "failed", textContent: _("No answer: {reason}. Look whether the gateway runs.", { reason: error.message }) }));
    }
  });
  return form;
}

async function readable(response) {
  const text = await response.text();
  try { return JSON.stringify(JSON.parse(text), null, 2); } catch { return text.slice(0, 65536) || _("(empty)"); }
}

function startTheme() {
  const choice = document.getElementById("theme");
  choice.hidden = false;
  choice.value = store.get("hookgw-theme") ?? "";
  choice.addEventListener("change", () => {
    store.set("hookgw-theme", choice.value);
    if (choice.value) document.documentElement.dataset.theme = choice.value;
    else delete document.documentElement.dataset.theme;
  });
}

function startLanguage() {
  const choice = document.getElementById("language");
  if (!choice) return;
  choice.hidden = false;
  choice.value = document.documentElement.lang.replace("-", "_");
  choice.addEventListener("change", () => {
    document.cookie = `hookgw_language=${choice.value}; path=/; max-age=31536000; samesite=strict`;
    location.reload();
  });
}

function startSearch() {
  const form = document.querySelector(".search");
  const field = form.querySelector("input");
  let search = null;
  const load = () => {
    search ??= import(new URL(form.dataset.module, location.href).href).then((module) =>
      module.open(_, new URL(document.body.dataset.search, location.href).href, new URL(document.body.dataset.home, location.href).href));
    return search;
  };
  form.hidden = false;
  form.addEventListener("submit", (event) => event.preventDefault());
  field.addEventListener("focus", load);
  field.addEventListener("input", async () => (await load()).show(field.value));
  addEventListener("keydown", (event) => {
    if (event.key === "/" && !event.ctrlKey && !event.metaKey && !/^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName)) {
      event.preventDefault();
      field.focus();
    }
  });
}

// What an old address names may be on another page now: the HTTP reference was at /docs.
function followOldAddress() {
  const name = location.hash.slice(1);
  if (!name) return;
  const found = document.getElementById(decodeURIComponent(name));
  const target = document.body.dataset.reference;
  if (!found && target) location.replace((name.startsWith("schema-") ? `${target}/schemas` : target) + location.hash);
  if (found) for (let one = found; one; one = one.parentElement) if (one.tagName === "DETAILS") one.open = true;
}

if (!isSite) showAddress();
for (const block of document.querySelectorAll(".code")) {
  const isExample = block.matches(".example");
  const bar = isExample ? addLanguages(block) : block;
  addCopyButton(block, bar);
  if (isExample && !isSite) addTry(block, bar);
}
showLanguage(LANGUAGES.includes(store.get("hookgw-language")) ? store.get("hookgw-language") : LANGUAGES[0]);
startTheme();
startLanguage();
startSearch();
const here = document.querySelector(".contents [aria-current]");
if (here) here.closest("nav").scrollTop = here.offsetTop - 200;
followOldAddress();
addEventListener("hashchange", followOldAddress);
