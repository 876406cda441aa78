// Says the value of a chart under the pointer, and takes a span that somebody chooses in it: by dragging, by a click on
// a bar, or with the arrow keys, Shift and Enter. The values are those of the table below the charts.
// The figures are asked for again each minute, unless somebody is at work in them: no stream, of which a session has few.
import { writeFormats } from "./formats.js";
import { locale } from "./texts.js";

const LEAST = 4; // pixels that a drag moves at least
const EVERY = 60000; // milliseconds

function make(plot, name) {
  const found = document.createElement("div");
  found.className = name;
  found.hidden = true;
  plot.append(found);
  return found;
}

function follow(plot) {
  const [begin, length, count] = plot.dataset.chart.split(" ").map(Number);
  const keys = [...plot.closest("figure").querySelectorAll("[data-column]")];
  const table = plot.closest("section").querySelector("table.values");
  const rows = new Map([...table.tBodies[0].rows].map((row) => [Number(row.cells[0].dataset.time), row]));
  const band = make(plot, "band"), tip = make(plot, "tip");
  let now = count - 1, anchor = null, pressed = null, isDrag = false;

  const moment = (step) => new Date((begin + step * length) * 1000);
  const style = length >= 86400 ? { month: "short", day: "numeric" }
    : { weekday: length * count > 90000 ? "short" : undefined, hour: "2-digit", minute: "2-digit" };
  const written = new Intl.DateTimeFormat(locale, style);

  function stepAt(event) {
    const box = plot.getBoundingClientRect();
    return Math.min(count - 1, Math.max(0, Math.floor((event.clientX - box.left) / box.width * count)));
  }

  // Shows the value of the present step, and the span from the anchor to it.
  function show(says = false) {
    const low = Math.min(now, anchor ?? now), high = Math.max(now, anchor ?? now) + 1;
    band.style.left = `${low / count * 100}%`;
    band.style.width = `${(high - low) / count * 100}%`;
    band.hidden = false;
    const title = document.createElement("b");
    title.textContent = written.formatRange(moment(low), moment(high));
    const cells = rows.get(begin + now * length)?.cells;
    const lines = high - low > 1 ? [] : keys.map((key) => {
      const line = key.cloneNode(true), value = document.createElement("b");
      line.removeAttribute("data-column");
      value.textContent = cells?.[key.dataset.column].textContent ?? (plot.querySelector("polyline") ? "–" : "0");
      line.append(" ", value);
      return line;
    });
    tip.replaceChildren(title, ...lines);
    tip.style.left = `${(now + 0.5) / count * 100}%`;
    tip.classList.toggle("is-left", now > count / 2);
    tip.hidden = false;
    if (!says) return;
    plot.ariaValueNow = now;
    plot.ariaValueText = [...tip.children].map((one) => one.textContent).join(", ");
  }

  function hide() {
    band.hidden = tip.hidden = true;
    anchor = null;
  }

  function go() {
    const low = Math.min(now, anchor ?? now), high = Math.max(now, anchor ?? now) + 1;
    const [since, until] = [low, high].map((step) => moment(step).toISOString().replace(".000", ""));
    location.assign(`${plot.dataset.target}since=${encodeURIComponent(since)}&until=${encodeURIComponent(until)}`);
  }

  plot.addEventListener("pointermove", (event) => {
    now = stepAt(event);
    if (pressed !== null && Math.abs(event.clientX - pressed) >= LEAST) isDrag = true;
    if (!isDrag) anchor = null;
    else anchor ??= stepAt({ clientX: pressed });
    show();
  });
  plot.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    pressed = event.clientX;
    isDrag = false;
    now = stepAt(event);
    plot.setPointerCapture(event.pointerId);
    show();
  });
  plot.addEventListener("pointerup", (event) => {
    const isChosen = pressed !== null && (isDrag || event.pointerType === "mouse");
    pressed = null;
    // A finger that taps wants to see the value.
    if (isChosen) go();
    isDrag = false;
  });
  plot.addEventListener("pointercancel", () => { pressed = null; isDrag = false; hide(); });
  plot.addEventListener("pointerleave", () => { if (pressed === null && document.activeElement !== plot) hide(); });
  plot.addEventListener("focus", () => { if (plot.matches(":focus-visible")) show(true); });
  plot.addEventListener("blur", hide);
  plot.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: count - 1 }[event.key];
    if (step !== undefined) {
      anchor = event.shiftKey ? anchor ?? now : null;
      now = Math.min(count - 1, Math.max(0, step));
      show(true);
    } else if (event.key === "Enter") go();
    else if (event.key === "Escape") hide();
    else return;
    event.preventDefault();
  });
  plot.tabIndex = 0;
  plot.role = "slider";
  plot.ariaValueMin = 0;
  plot.ariaValueMax = count - 1;
  plot.ariaValueNow = now;
}

function isAtWork(part) {
  if (document.hidden || part.matches(":hover") || part.contains(document.activeElement)) return true;
  const selection = getSelection();
  return !selection.isCollapsed && part.contains(selection.anchorNode);
}

// Shows the figures of the page as it is now; a page that is another one by now, or none, leaves them as they are.
async function refresh(part) {
  if (isAtWork(part)) return;
  let text = "";
  try {
    const answer = await fetch(location.href, {
      headers: { accept: "text/html" }, cache: "no-store", signal: AbortSignal.timeout(EVERY / 2),
    });
    if (answer.ok && !answer.redirected) text = await answer.text();
  } catch {
    return;
  }
  const fresh = new DOMParser().parseFromString(text, "text/html").getElementById(part.id);
  if (!fresh || isAtWork(part)) return;
  writeFormats(fresh);
  for (const { id } of part.querySelectorAll("details[open]")) fresh.querySelector(`#${id}`)?.setAttribute("open", "");
  part.replaceChildren(...fresh.childNodes);
  start(part);
}

function start(part) {
  for (const plot of part.querySelectorAll("[data-chart]")) follow(plot);
}

export function startCharts() {
  const part = document.getElementById("charts");
  if (!part) return;
  start(part);
  let shown = Date.now();
  setInterval(() => {
    if (Date.now() - shown < EVERY || isAtWork(part)) return;
    shown = Date.now();
    refresh(part);
  }, 1000);
}
