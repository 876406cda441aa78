// Keeps the parts of a page up to date that the server streams. The server renders them: what comes from outside is
// text in them already.
import { addCopyButtons } from "./copy.js";
import { writeFormats } from "./formats.js";

const RELOAD = 10000;
const PATIENCE = 3000;
const AGAIN = 2000;
const TRIES = 4;

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

// Not a reload: that would send a form again, if the page shows what one brought.
function reopen() {
  location.replace(location.pathname + location.search);
}

function follow(region) {
  const status = region.previousElementSibling;
  let source = null, refusals = 0, isPressed = false, waiting = null, timer = null;
  function connect() {
    source = new EventSource(region.dataset.live);
    source.onopen = () => {
      clearTimeout(timer);
      timer = null;
      refusals = 0;
      status.hidden = true;
    };
    source.onmessage = (event) => {
      // Between press and release nothing may move: the click would be lost, or hit something else.
      if (isPressed) waiting = event.data;
      else show(region, event.data);
    };
    source.addEventListener("ended", () => { source.close(); reopen(); });
    source.onerror = () => {
      timer ??= setTimeout(() => { status.hidden = false; }, PATIENCE);
      // The browser does not try again after a refusal: the instance moves to another node, for example. If there
      // are more, as with too many streams, the page reloads.
      if (source.readyState !== EventSource.CLOSED) return;
      if (++refusals <= TRIES) setTimeout(connect, AGAIN);
      else setTimeout(reopen, RELOAD - TRIES * AGAIN);
    };
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
  // A page in the browser's cache must not hold one of the few streams of its session.
  addEventListener("pagehide", () => source.close());
  addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });
}

export function startLive() {
  for (const region of document.querySelectorAll("[data-live]")) follow(region);
}
