// Writes times and numbers as the reader's locale and time zone want them.

const full = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const day = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
const ago = new Intl.RelativeTimeFormat(undefined, { numeric: "auto" });
const number = new Intl.NumberFormat();
const steps = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];

function since(date) {
  const seconds = Math.round((date - Date.now()) / 1000);
  const [unit, length] = steps.find(([, length]) => Math.abs(seconds) >= length) ?? steps.at(-1);
  return ago.format(Math.trunc(seconds / length), unit);
}

export function writeFormats(root) {
  for (const element of root.querySelectorAll("time[datetime]")) {
    const date = new Date(element.dateTime);
    if (Number.isNaN(date.valueOf())) continue;
    const style = element.dataset.style;
    const isToday = date.toDateString() === new Date().toDateString();
    element.textContent = style === "ago" ? since(date) : (style === "time" && isToday ? day : full).format(date);
  }
  for (const element of root.querySelectorAll("data[value]")) {
    element.textContent = number.format(Number(element.value));
  }
}
