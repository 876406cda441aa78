// Adds the browser's own calendar to each field for a time.
import { _ } from "./texts.js";

export function addCalendars() {
  for (const place of document.querySelectorAll("[data-calendar]")) {
    const text = place.querySelector("input");
    const calendar = document.createElement("input");
    if (!calendar.showPicker) return;
    calendar.type = "datetime-local";
    calendar.tabIndex = -1;
    calendar.ariaHidden = "true";
    calendar.className = "picker";
    const button = document.createElement("button");
    button.type = "button";
    button.className = "calendar";
    button.ariaLabel = _("Choose {field} in a calendar", { field: place.dataset.calendar });
    button.title = button.ariaLabel;
    button.addEventListener("click", () => {
      // What was entered before, if it is a day with a time.
      calendar.value = text.value.replace(" ", "T");
      calendar.showPicker();
    });
    calendar.addEventListener("input", () => { text.value = calendar.value.replace("T", " "); });
    place.append(button, calendar);
  }
}
