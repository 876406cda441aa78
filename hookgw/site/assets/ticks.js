// Counts what is ticked in a list, and keeps it while the list goes on to another page or is updated. Without this,
// ticks are those of the page.
import { _ } from "./texts.js";

function stored(name) {
  try {
    return new Set(JSON.parse(sessionStorage.getItem(name) ?? "[]"));
  } catch {
    return new Set();
  }
}

export function startTicking() {
  const bar = document.querySelector("[data-ticks]");
  if (!bar) return;
  const { form } = bar.querySelector("button");
  // Ticks belong to a list with its filters: under others, nobody sees what they are.
  const name = `ticks ${form.action} ${bar.dataset.ticks}`;
  const [count, all, none] = ["count", "tick-all", "untick"].map((one) => bar.querySelector(`[data-${one}]`));
  const region = form.querySelector(".live");
  if (new URLSearchParams(location.search).get("done") === "resent") sessionStorage.removeItem(name);
  const ticked = stored(name);
  const boxes = () => [...region.querySelectorAll("[data-rows] input[type=checkbox]")];

  function tell() {
    if (ticked.size) sessionStorage.setItem(name, JSON.stringify([...ticked]));
    else sessionStorage.removeItem(name);
    count.textContent = ticked.size ? _("{n} selected", { n: ticked.size }) : "";
    none.hidden = !ticked.size;
    bar.classList.toggle("is-used", ticked.size > 0);
  }

  function show() {
    for (const box of boxes()) box.checked = ticked.has(box.value);
  }

  function note() {
    for (const box of boxes()) ticked[box.checked ? "add" : "delete"](box.value);
    tell();
  }

  region.addEventListener("change", note);
  region.addEventListener("shown", show);
  form.addEventListener("formdata", ({ formData }) => {
    formData.delete("delivery");
    for (const value of ticked) formData.append("delivery", value);
  });
  all.hidden = false;
  all.addEventListener("click", () => {
    const isTicked = boxes().some((box) => !box.checked);
    for (const box of boxes()) box.checked = isTicked;
    note();
    region.dispatchEvent(new Event("unticked"));
  });
  none.addEventListener("click", () => {
    ticked.clear();
    show();
    tell();
    region.dispatchEvent(new Event("unticked"));
  });
  // A browser that goes back restores the page's own ticks later than this.
  addEventListener("pageshow", () => { show(); tell(); });
  show();
  tell();
}
