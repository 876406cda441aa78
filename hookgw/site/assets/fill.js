// Loads what a detail shows when it is opened: lists stay small, however long what they open to is. Without this, the
// detail has a link.
import { addCopyButtons } from "./copy.js";
import { writeFormats } from "./formats.js";

export function startFilling() {
  // Events of this kind do not bubble.
  addEventListener("toggle", async ({ target }) => {
    const place = target.open && target.querySelector(":scope > [data-fill]:not([data-kept])");
    if (!place) return;
    place.dataset.kept = ""; // live.js leaves it alone from now on
    try {
      const answer = await fetch(place.dataset.fill);
      if (!answer.ok || answer.redirected) throw new Error(answer.status);
      place.innerHTML = await answer.text();
      writeFormats(place);
      addCopyButtons(place);
    } catch {
      delete place.dataset.kept; // the link is still there
    }
  }, true);
}
