// The search in the frame: "/" focuses it, and the server completes what is typed.

export function startSearch() {
  const field = document.getElementById("find");
  if (!field) return;
  let latest = 0, waiting = null;
  addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, textarea, select, [contenteditable]")) return;
    event.preventDefault();
    field.select();
    field.focus();
  });
  async function complete() {
    const mine = ++latest;
    const response = await fetch(`${field.dataset.words}?q=${encodeURIComponent(field.value)}`);
    const words = response.ok ? await response.json() : [];
    if (mine !== latest) return;
    field.list.replaceChildren(...words.map((word) => {
      const option = document.createElement("option");
      option.value = word;
      return option;
    }));
  }
  field.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(complete, 150);
  });
  field.addEventListener("focus", complete, { once: true });
}
