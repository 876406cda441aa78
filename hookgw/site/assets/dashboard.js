// Entry of every page. Each module works on its own, and no page needs any of them to be read.
import { startCopying } from "./copy.js";
import { writeFormats } from "./formats.js";
import { startLive } from "./live.js";
import { followIntegration } from "./options.js";
import { takePortalLink } from "./portal.js";
import { startTicking } from "./ticks.js";

writeFormats(document);
startLive();
followIntegration();
startCopying();
startTicking();
takePortalLink();
// What was wrong, beside its form, may be far below.
document.querySelector("main [role=alert]")?.scrollIntoView({ block: "center" });
