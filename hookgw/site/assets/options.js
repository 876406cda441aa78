// Shows the options of the connector that is chosen for a new instance. The server renders their fields.

export function followIntegration() {
  const select = document.querySelector("select[data-options]");
  const place = document.getElementById("options");
  if (!select || !place) return;
  let latest = 0;
  select.addEventListener("change", async () => {
    const mine = ++latest;
    const response = await fetch(`${select.dataset.options}?integration=${encodeURIComponent(select.value)}`);
    const template = document.createElement("template");
    template.innerHTML = response.ok ? await response.text() : "";
    if (mine === latest) place.replaceChildren(template.content);
  });
}
