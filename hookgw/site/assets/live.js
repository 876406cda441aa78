// Keeps the parts of a page up to date that the server streams. The server renders them: what comes from outside is
// text in them already.
//
// The children of an element with data-rows are the rows of a list. While somebody is at work in a list (has ticked,
// focused, opened, selected or points at something in it, or has scrolled into it), its rows stay where they are: those that
// are shown change in place, and new ones wait behind a button that says how many they are.
import { addCopyButtons } from "./copy.js";
import { writeFormats } from "./formats.js";
import { _ } from "./texts.js";

// Milliseconds.
const PATIENCE = 3000; // without a stream, before the page says so
const SILENCE = 37500; // of a stream: it beats every 15 s (HEARTBEAT in hookgw/site/streams.py)
const FIRST = 2000; // between two tries: twice as long each time
const LONGEST = 30000;
const TURN = 10000; // after a newer page of the session has taken the stream of this one
const HIDDEN = 10000; // before a page that nobody sees gives its stream back
const SETTLE = 300; // after somebody was at work in a list, before its new rows appear

// Makes the children of one element those of another. Elements with an id keep their identity, so that a link that is
// about to be clicked, a ticked box, an opened detail and the focus stay what and where they are.
function morph(from, to) {
  const named = new Map();
  for (const child of from.children) if (child.id) named.set(child.id, child);
  const wantedIds = new Set([...to.children].map((child) => child.id));
  let place = from.firstChild;
  for (const wanted of [...to.childNodes]) {
    // An element that is moved loses the focus: rather remove what is before it, and goes anyway.
    while (place && wanted.id && named.has(wanted.id) && !(place.id && wantedIds.has(place.id))) {
      const next = place.nextSibling;
      place.remove();
      place = next;
    }
    let kept = wanted.id ? named.get(wanted.id) : null;
    if (!kept && place && !wanted.id && !place.id && place.nodeName === wanted.nodeName) kept = place;
    if (!kept) {
      from.insertBefore(wanted, place);
      continue;
    }
    if (kept === place) place = place.nextSibling;
    else from.insertBefore(kept, place);
    if (!kept.isEqualNode(wanted)) update(kept, wanted);
  }
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
}

function update(kept, wanted) {
  if (kept.nodeType !== Node.ELEMENT_NODE) {
    kept.nodeValue = wanted.nodeValue;
    return;
  }
  if ("kept" in kept.dataset) return; // it was filled here: see fill.js
  for (const { name } of [...kept.attributes]) {
    if (!wanted.hasAttribute(name) && name !== "open") kept.removeAttribute(name);
  }
  for (const { name, value } of wanted.attributes) {
    if (kept.getAttribute(name) !== value) kept.setAttribute(name, value);
  }
  morph(kept, wanted);
}

const points = matchMedia("(hover: hover)");

function isAtWork(list) {
  if (list.querySelector("input:checked, details[open]") || list.contains(document.activeElement)) return true;
  if (points.matches && list.matches(":hover")) return true;
  if (list.getBoundingClientRect().top < 0) return true;
  const selection = getSelection();
  return !selection.isCollapsed && list.contains(selection.anchorNode);
}

// Makes a new part show the rows that are on the page already, in their order. Returns the ids of those that wait.
function holdRows(region, part) {
  const waiting = [];
  for (const list of part.querySelectorAll("[data-rows]")) {
    const shown = region.querySelector(`#${CSS.escape(list.id)}`);
    if (!shown || !isAtWork(shown)) continue;
    const fresh = new Map([...list.children].map((row) => [row.id, row]));
    const rows = [...shown.children].map((row) => {
      const next = fresh.get(row.id) ?? row.cloneNode(true);
      // Solved, or no longer one that matches: it stays under the pointer, and says so.
      if (!fresh.has(row.id)) next.dataset.gone = "";
      return next;
    });
    for (const row of shown.children) fresh.delete(row.id);
    waiting.push(...fresh.keys());
    list.replaceChildren(...rows);
  }
  return waiting;
}

// Returns the ids of the rows that wait.
function show(region, html, holds = true) {
  const template = document.createElement("template");
  template.innerHTML = html;
  const waiting = holds ? holdRows(region, template.content) : [];
  writeFormats(template.content);
  addCopyButtons(template.content);
  const focused = document.activeElement;
  morph(region, template.content);
  // What had the focus is gone: the next key must not begin at the top of the page.
  if (focused !== document.activeElement && !focused.isConnected) region.focus({ preventScroll: true });
  region.dispatchEvent(new Event("shown"));
  return waiting;
}

function isChanged(field) {
  if (field.type === "hidden") return false;
  if (field.type === "checkbox" || field.type === "radio") return field.checked !== field.defaultChecked;
  if (!field.options) return "defaultValue" in field && field.value !== field.defaultValue;
  const chosen = [...field.options].findIndex((option) => option.defaultSelected);
  return !field.multiple && field.selectedIndex !== Math.max(chosen, 0);
}

// Whether somebody has typed, ticked or chosen something that a new page would lose.
function hasChanges() {
  return [...document.forms].some((form) => [...form.elements].some(isChanged));
}

const askFor = (redirect) => fetch(location.href, {
  redirect, headers: { accept: "text/html" }, cache: "no-store", signal: AbortSignal.timeout(SILENCE),
});

// Asks for the page itself, because a stream does not say why it was refused. Returns "gone" if the page is another one
// now: the login, or an error; "barred" if a proxy that signs people in answers in the place of hookgw. What other
// proxies answer while hookgw restarts tells nothing.
async function askWhy() {
  try {
    let answer = await askFor("manual");
    const isLed = answer.type === "opaqueredirect";
    // To another host, as to that where people sign in, no page may follow.
    if (isLed) answer = await askFor("follow").catch(() => answer);
    if (!answer.headers.has("x-hookgw-version")) return isLed || [401, 403].includes(answer.status) ? "barred" : null;
    if (isLed && new URL(answer.url).pathname.endsWith("/login")) return "gone";
    return [403, 404, 410].includes(answer.status) ? "gone" : null;
  } catch {
    return null;
  }
}

function follow(region) {
  const [status, news] = region.previousElementSibling.children;
  const silent = status.textContent;
  let source = null, isPressed = false, latest = null, notice = null, retry = null, silence = null, hiding = null, wait = FIRST;
  let fresh = new Set(), isMore = false, isPaused = false, settling = null;

  // Shows the latest part, and says how many rows wait.
  function update(holds = true) {
    if (latest === null || isPressed) return;
    const waiting = show(region, latest, holds);
    // A page of a list that is all new: there may have been others between it and the one before.
    if (waiting.length && fresh.size && !waiting.some((id) => fresh.has(id))) isMore = true;
    fresh = waiting.length ? new Set([...fresh, ...waiting]) : new Set();
    isMore &&= fresh.size > 0;
    news.hidden = !fresh.size;
    news.textContent = _("{n} new", { n: `${fresh.size}${isMore ? "+" : ""}` });
  }

  function settle() {
    clearTimeout(settling);
    if (latest !== null) settling = setTimeout(update, SETTLE);
  }

  function close() {
    clearTimeout(retry);
    clearTimeout(silence);
    source?.close();
    source = null;
  }

  // A machine that is frozen, or a connection that is dead and was not closed, causes no error.
  function listen() {
    clearTimeout(silence);
    silence = setTimeout(() => {
      status.hidden = false;
      connect();
    }, SILENCE);
  }

  function connect() {
    close();
    if (isPaused) return;
    const mine = source = new EventSource(region.dataset.live);
    listen();
    mine.addEventListener("beat", listen);
    mine.onopen = () => {
      clearTimeout(notice);
      notice = null;
      status.hidden = true;
      wait = FIRST;
    };
    mine.onmessage = (event) => {
      listen();
      latest = event.data;
      update();
    };
    mine.addEventListener("replaced", () => {
      close();
      retry = setTimeout(connect, TURN);
    });
    mine.addEventListener("ended", tryAgain);
    mine.onerror = () => {
      notice ??= setTimeout(() => { status.hidden = false; }, PATIENCE);
      // The browser tries again by itself, except after a refusal: too many streams, an instance that moves to another
      // node, a proxy whose server is away.
      if (mine.readyState === EventSource.CLOSED) tryAgain();
    };
  }

  async function tryAgain() {
    close();
    const why = await askWhy();
    if (why === "gone") {
      leave();
      return;
    }
    if (source || document.hidden) return; // the page was hidden and shown again meanwhile
    if (why === "barred") {
      const link = say(_("A proxy answers in the place of hookgw, and may want you to sign in. After that, this page goes on by itself."),
        _("Open the page in another tab."));
      link.target = "_blank";
    } else status.textContent = silent;
    retry = setTimeout(connect, wait);
    wait = Math.min(2 * wait, LONGEST);
  }

  function leave() {
    // Not a reload: that would send a form again, if the page shows what one brought.
    if (!hasChanges()) {
      location.replace(location.pathname + location.search);
      return;
    }
    say(_("Your session has ended, or this page is gone. Copy what you have typed."), _("Open the page again."));
  }

  // Says something above the region, with a link to the page. Returns the link.
  function say(sentence, words) {
    const link = document.createElement("a");
    link.href = location.pathname + location.search;
    link.textContent = words;
    status.replaceChildren(sentence, " ", link);
    status.hidden = false;
    return link;
  }

  connect();
  // Between press and release nothing may move: the click would be lost, or hit something else.
  region.addEventListener("pointerdown", () => { isPressed = true; });
  for (const name of ["pointerup", "pointercancel"]) {
    addEventListener(name, () => setTimeout(() => {
      isPressed = false;
      update();
    }));
  }
  for (const name of ["pointerleave", "focusout", "change", "unticked"]) region.addEventListener(name, settle);
  addEventListener("scroll", settle, { passive: true });
  news.addEventListener("click", () => {
    update(false);
    if (region.getBoundingClientRect().top < 0) region.scrollIntoView({ block: "start" });
    region.focus({ preventScroll: true });
  });
  region.addEventListener("pause", () => {
    isPaused = !isPaused;
    if (isPaused) close();
    else connect();
  });
  // A session has few streams, and a browser few connections: they are for pages that somebody sees.
  document.addEventListener("visibilitychange", () => {
    clearTimeout(hiding);
    if (document.hidden) hiding = setTimeout(close, HIDDEN);
    else if (!source) connect();
  });
  addEventListener("pagehide", close);
  addEventListener("pageshow", (event) => { if (event.persisted) connect(); });
}

export function startLive() {
  const regions = [...document.querySelectorAll("[data-live]")];
  for (const region of regions) follow(region);
  const button = document.querySelector("[data-live-switch]");
  if (!button || !regions.length) return;
  button.hidden = false;
  button.addEventListener("click", () => {
    const isLive = button.getAttribute("aria-checked") !== "true";
    button.setAttribute("aria-checked", isLive);
    button.textContent = isLive ? _("Live") : _("Paused");
    for (const region of regions) region.dispatchEvent(new Event("pause"));
  });
}
