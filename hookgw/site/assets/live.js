// Keeps the parts of a page up to date that the server streams. The server renders them: what comes from outside is
// text in them already.
import { addCopyButtons } from "./copy.js";
import { writeFormats } from "./formats.js";

// Milliseconds.
const PATIENCE = 3000; // without a stream, before the page says so
const FIRST = 2000; // between two tries: twice as long each time
const LONGEST = 30000;
const TURN = 10000; // after a newer page of the session has taken the stream of this one
const HIDDEN = 10000; // before a page that nobody sees gives its stream back

// Makes the children of one element those of another. Elements with an id keep their identity, so that a link that is
// about to be clicked, a ticked box, an opened detail and the focus stay what and where they are.
function morph(from, to) {
  const named = new Map();
  for (const child of from.children) if (child.id) named.set(child.id, child);
  let place = from.firstChild;
  for (const wanted of [...to.childNodes]) {
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
  for (const { name } of [...kept.attributes]) {
    if (!wanted.hasAttribute(name) && name !== "open") kept.removeAttribute(name);
  }
  for (const { name, value } of wanted.attributes) {
    if (kept.getAttribute(name) !== value) kept.setAttribute(name, value);
  }
  morph(kept, wanted);
}

function show(region, html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  writeFormats(template.content);
  addCopyButtons(template.content);
  morph(region, template.content);
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

// Asks for the page itself, because a stream does not say why it was refused. Returns whether the page is another one
// now: the login, or an error. What a proxy in front answers while hookgw restarts tells nothing.
async function isGone() {
  try {
    const answer = await fetch(location.href, { headers: { accept: "text/html" }, cache: "no-store" });
    if (!answer.headers.has("x-hookgw-version")) return false;
    if (answer.redirected && new URL(answer.url).pathname.endsWith("/login")) return true;
    return [403, 404, 410].includes(answer.status);
  } catch {
    return false;
  }
}

function follow(region) {
  const status = region.previousElementSibling;
  let source = null, isPressed = false, waiting = null, notice = null, retry = null, hiding = null, wait = FIRST;

  function close() {
    clearTimeout(retry);
    source?.close();
    source = null;
  }

  function connect() {
    close();
    const mine = source = new EventSource(region.dataset.live);
    mine.onopen = () => {
      clearTimeout(notice);
      notice = null;
      status.hidden = true;
      wait = FIRST;
    };
    mine.onmessage = (event) => {
      // Between press and release nothing may move: the click would be lost, or hit something else.
      if (isPressed) waiting = event.data;
      else show(region, event.data);
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
    if (await isGone()) {
      leave();
      return;
    }
    if (source || document.hidden) return; // the page was hidden and shown again meanwhile
    retry = setTimeout(connect, wait);
    wait = Math.min(2 * wait, LONGEST);
  }

  function leave() {
    // Not a reload: that would send a form again, if the page shows what one brought.
    if (!hasChanges()) {
      location.replace(location.pathname + location.search);
      return;
    }
    const link = document.createElement("a");
    link.href = location.pathname + location.search;
    link.textContent = "Open the page again.";
    status.replaceChildren("Your session has ended, or this page is gone. Copy what you have typed. ", link);
    status.hidden = false;
  }

  connect();
  region.addEventListener("pointerdown", () => { isPressed = true; });
  for (const name of ["pointerup", "pointercancel"]) {
    addEventListener(name, () => setTimeout(() => {
      isPressed = false;
      if (waiting !== null) show(region, waiting);
      waiting = null;
    }));
  }
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
  for (const region of document.querySelectorAll("[data-live]")) follow(region);
}
