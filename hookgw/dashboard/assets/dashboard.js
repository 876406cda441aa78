// Entry of every page. Each module works on its own, and no page needs any of them to be read.
import { addCopyButtons } from "./copy.js";
import { writeFormats } from "./formats.js";
import { startLive } from "./live.js";
import { followIntegration } from "./options.js";

writeFormats(document);
startLive();
followIntegration();
addCopyButtons();
