// Keeps the parts of a page up to date that the server streams. The server renders them: what comes from outside is
// text in them already.
import { writeFormats } from "./formats.js";

const RELOAD = 10000;

function show(region, html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  writeFormats(template.content);
  // What the reader is doing stays: focus, ticked boxes, opened details.
  const focused = region.contains(document.activeElement) ? document.activeElement.id : "";
  for (const kept of region.querySelectorAll("input[type=checkbox]:checked[id], details[open][id]")) {
    const same = template.content.getElementById(kept.id);
    if (same instanceof HTMLInputElement) same.checked = true;
    else if (same) same.open = true;
  }
  region.replaceChildren(template.content);
  if (focused) document.getElementById(focused)?.focus();
}

function open(region) {
  const source = new EventSource(region.dataset.live);
  region.dataset.state = "connecting";
  source.onopen = () => { region.dataset.state = "live"; };
  source.onmessage = (event) => show(region, event.data);
  source.addEventListener("ended", () => { source.close(); location.reload(); });
  source.onerror = () => {
    region.dataset.state = "waiting";
    // The browser does not try again after a refusal: too many streams, for example. Then the page reloads.
    if (source.readyState === EventSource.CLOSED) setTimeout(() => location.reload(), RELOAD);
  };
  // A page in the browser's cache must not hold one of the few streams of its session.
  addEventListener("pagehide", () => source.close());
  addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });
}

export function startLive() {
  for (const region of document.querySelectorAll("[data-live]")) open(region);
}
