// Shows the options of the connector that is chosen for a new instance. The server renders their fields.

export function followIntegration() {
  const select = document.querySelector("select[data-options]");
  const place = document.getElementById("options");
  if (!select || !place) return;
  let latest = 0;
  select.addEventListener("change", async () => {
    const mine = ++latest;
    const template = document.createElement("template");
    try {
      const answer = await fetch(`${select.dataset.options}?integration=${encodeURIComponent(select.value)}`);
      if (answer.ok && !answer.redirected) template.innerHTML = await answer.text();
    } catch {
      // Without fields, which are not those of another one: Create says what is missing, and shows them.
    }
    if (mine === latest) place.replaceChildren(template.content);
  });
}
