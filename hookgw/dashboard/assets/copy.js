// Adds a button that copies, to each block that is made to be copied.

export function addCopyButtons() {
  if (!navigator.clipboard) return; // not over plain HTTP, except on this machine
  for (const code of document.querySelectorAll("code[data-copy]")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
    code.parentElement.before(button);
  }
}
