// What forms need beyond their own means.

const PATIENCE = 10000; // milliseconds before a form whose page is still here may be sent again: the browser was stopped

// Enter means the first button of a form, whatever has the focus. All problems share one form, because tokens are not in
// what is streamed: here it means the button beside the field. In a list it would send what is ticked.
function takeEnter(event) {
  const { target, key } = event;
  if (key !== "Enter" || event.isComposing || !target.matches("input[form], [data-rows] input[type=checkbox]")) return;
  event.preventDefault();
  target.closest(".filters")?.querySelector("button").click();
}

export function startForms() {
  addEventListener("keydown", takeEnter);
  // A second click must not do the same twice, nor take the place of the response that alone shows a new key.
  const sent = new Set();
  addEventListener("submit", (event) => {
    const form = event.target;
    if (event.defaultPrevented || form.getAttribute("method") !== "post") return;
    if (sent.has(form)) event.preventDefault();
    else setTimeout(() => sent.delete(form), PATIENCE);
    sent.add(form);
  });
  addEventListener("pageshow", () => sent.clear());
}
