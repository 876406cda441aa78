// Entry of every page. Each module works on its own, and no page needs any of them to be read.
import { startCopying } from "./copy.js";
import { addCalendars } from "./calendar.js";
import { startCharts } from "./charts.js";
import { sayZone, writeFormats } from "./formats.js";
import { startFilling } from "./fill.js";
import { startForms } from "./forms.js";
import { startKeys } from "./keys.js";
import { startLive } from "./live.js";
import { followIntegration } from "./options.js";
import { takePortalLink } from "./portal.js";
import { startSearch } from "./search.js";
import { startTicking } from "./ticks.js";

sayZone();
writeFormats(document);
addCalendars();
startLive();
followIntegration();
startCopying();
startTicking();
startFilling();
startForms();
takePortalLink();
startSearch();
startCharts();
startKeys();
// What was done is said once: not after a reload or Back, which would also take ticks away again.
const here = new URL(location);
if (here.searchParams.has("done")) {
  here.searchParams.delete("done");
  history.replaceState(history.state, "", here);
}
// What was wrong, beside its form, may be far below: Tab goes on from there, and screen readers read it.
const refusal = document.querySelector("main [role=alert]");
if (refusal) {
  refusal.scrollIntoView({ block: "center" });
  refusal.tabIndex = -1;
  if (!document.querySelector("main [autofocus]")) refusal.focus({ preventScroll: true });
}
