// The button that ticks every delivery of the list, or none.

export function startTicking() {
  const button = document.querySelector("[data-tick-all]");
  if (!button) return;
  button.hidden = false;
  button.addEventListener("click", () => {
    const boxes = [...button.form.querySelectorAll("input[type=checkbox]")];
    const isTicked = boxes.some((box) => !box.checked);
    for (const box of boxes) box.checked = isTicked;
  });
}
