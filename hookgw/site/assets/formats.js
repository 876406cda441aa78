// Writes times and numbers as the reader's locale and time zone want them.

const full = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const today = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
const thisYear = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" });
const ago = new Intl.RelativeTimeFormat(undefined, { numeric: "auto" });
const number = new Intl.NumberFormat();
const steps = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];

function since(date) {
  const seconds = Math.round((date - Date.now()) / 1000);
  const [unit, length] = steps.find(([, length]) => Math.abs(seconds) >= length) ?? steps.at(-1);
  return ago.format(Math.trunc(seconds / length), unit);
}

// In lists, a time is no longer than it must be.
function short(date) {
  const now = new Date();
  if (date.toDateString() === now.toDateString()) return today.format(date);
  return (date.getFullYear() === now.getFullYear() ? thisYear : full).format(date);
}

export function writeFormats(root) {
  for (const element of root.querySelectorAll("time[datetime]")) {
    const date = new Date(element.dateTime);
    if (Number.isNaN(date.valueOf())) continue;
    const style = element.dataset.style;
    element.textContent = style === "ago" ? since(date) : style === "time" ? short(date) : full.format(date);
  }
  for (const element of root.querySelectorAll("data[value]")) {
    element.textContent = number.format(Number(element.value));
  }
}
