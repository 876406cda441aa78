// What forms need beyond their own means.

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
}
