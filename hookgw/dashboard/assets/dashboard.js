// Entry of every page. Each module works on its own, and no page needs any of them to be read.
import { writeFormats } from "./formats.js";
import { startLive } from "./live.js";

writeFormats(document);
startLive();
