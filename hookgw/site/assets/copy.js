// Adds a button that copies, to each block that is made to be copied.
import { copy } from "./clipboard.js";
import { _ } from "./texts.js";

export function addCopyButtons(root) {
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
    const isCopied = await copy(button.parentElement.querySelector("code"));
    button.textContent = isCopied ? _("Copied") : _("Selected");
    setTimeout(() => { button.textContent = _("Copy"); }, 2000);
  });
}
