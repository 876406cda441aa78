// Adds a button that copies, to each block that is made to be copied.
import { _ } from "./texts.js";

export function addCopyButtons(root) {
  if (!navigator.clipboard) return; // not over plain HTTP, except on this machine
  for (const block of root.querySelectorAll(".copyable")) {
    if (block.querySelector("button")) continue;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = _("Copy");
    block.append(button);
  }
}

// One listener for all: live.js replaces the blocks of live parts.
export function startCopying() {
  addCopyButtons(document);
  addEventListener("click", async (event) => {
    const button = event.target.closest?.("button.copy");
    if (!button) return;
    await navigator.clipboard.writeText(button.parentElement.querySelector("code").textContent);
    button.textContent = _("Copied");
    setTimeout(() => { button.textContent = _("Copy"); }, 2000);
  });
}
