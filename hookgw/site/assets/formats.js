// Writes times and numbers as the reader's locale and time zone want them, and tells the server the zone: what the
// reader enters is in it, too (hookgw/site/moments.py).
import { locale } from "./texts.js";

const full = new Intl.DateTimeFormat(locale, { dateStyle: "medium", timeStyle: "medium" });
const today = new Intl.DateTimeFormat(locale, { timeStyle: "medium" });
const thisYear = new Intl.DateTimeFormat(locale, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" });
const ago = new Intl.RelativeTimeFormat(locale, { numeric: "auto" });
const number = new Intl.NumberFormat(locale);
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

const exact = new Intl.DateTimeFormat(locale, { dateStyle: "full", timeStyle: "long" });
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;

export function sayZone() {
  const minutes = -new Date().getTimezoneOffset();
  const value = encodeURIComponent(`${zone} ${minutes}`);
  document.cookie = `hookgw_zone=${value}; path=/; max-age=31536000; samesite=strict`;
  const sign = minutes < 0 ? "\u2212" : "+", [hours, rest] = [Math.trunc(Math.abs(minutes) / 60), Math.abs(minutes) % 60];
  const offset = minutes ? `UTC${sign}${hours}${rest ? `:${String(rest).padStart(2, "0")}` : ""}` : "UTC";
  for (const element of document.querySelectorAll("[data-zone]")) {
    element.textContent = zone === "UTC" ? zone : `${zone.replaceAll("_", " ")} (${offset})`;
  }
}

const tick = {
  clock: new Intl.DateTimeFormat(locale, { hour: "2-digit", minute: "2-digit" }),
  day: new Intl.DateTimeFormat(locale, { month: "short", day: "numeric" }),
};

export function writeFormats(root) {
  for (const element of root.querySelectorAll("[data-time]")) {
    element.textContent = (tick[element.dataset.style] ?? thisYear).format(new Date(element.dataset.time * 1000));
  }
  for (const element of root.querySelectorAll("time[datetime]")) {
    const date = new Date(element.dateTime);
    if (Number.isNaN(date.valueOf())) continue;
    const style = element.dataset.style;
    element.title = `${exact.format(date)} (${element.title.replace(/^.*\(|\)$/g, "")})`;
    element.textContent = style === "ago" ? since(date) : style === "time" ? short(date) : full.format(date);
  }
  for (const element of root.querySelectorAll("data[value]")) {
    element.textContent = number.format(Number(element.value));
  }
}
