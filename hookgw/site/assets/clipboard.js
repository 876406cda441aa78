// Copies the text of an element, and returns whether it could. Without HTTPS, except on this machine, a page has no
// clipboard, but may copy what is selected. What the browser does not let it copy stays selected, for its reader.

export async function copy(element) {
  try {
    await navigator.clipboard.writeText(element.textContent);
    return true;
  } catch {
    const selection = getSelection();
    selection.selectAllChildren(element);
    const isCopied = document.execCommand("copy");
    if (isCopied) selection.removeAllRanges();
    return isCopied;
  }
}
