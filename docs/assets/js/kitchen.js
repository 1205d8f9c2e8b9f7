// The entry of our scripts, loaded once. Material replaces the page's content without a reload
// (navigation.instant) and announces each page through `document$`; what depends on the content listens to it.
import "./keyboard.js";
import "./language.js";
import { setFormulas } from "./math.js";
import "./terms.js";
import { mountTools } from "./tools.js";

window.document$.subscribe(() => {
  setFormulas(document.body);
  mountTools(document);
});
