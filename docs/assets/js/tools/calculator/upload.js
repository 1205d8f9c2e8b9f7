// The place where a reader gives a report: a file input that is also a place to drop one. Nothing is sent anywhere.
import { quantity } from "../common/format.js";
import { fill, freshId, h } from "../common/dom.js";
import { decodeText, MOST_BYTES, readReport, ReportError } from "./report.js";

const most = quantity(MOST_BYTES / 1024, "kib");

/** The sentence of what is wrong with a file: what, where, what to do. */
function errorWords(error, words) {
  if (!(error instanceof ReportError)) return fill(words.error_not_read, { detail: error.message });
  return fill(words[`error_${error.code}`], { most, ...error.values });
}

/** Read a file that was chosen or dropped. */
async function read(files) {
  if (files.length > 1) throw new ReportError("one_file", { found: files.length });
  const [file] = files;
  // The size is known before a byte is read.
  if (file.size > MOST_BYTES) throw new ReportError("too_large", { size: file.size });
  return readReport(decodeText(new Uint8Array(await file.arrayBuffer())));
}

/** { element, say(text) }; `onReport(report, name)` is called with each report that could be read. */
export function makeUpload(words, onReport) {
  const id = freshId("file");
  const told = h("p", { class: "ck-calc__told", role: "status" });
  const wrong = h("p", { class: "ck-control__error", role: "alert" });
  const input = h("input", { type: "file", id, class: "ck-calc__file", accept: ".json,.csv,application/json,text/csv" });
  const hint = h("span", { id: freshId("hint") }, fill(words.file_drop, { most }));
  input.setAttribute("aria-describedby", hint.id);
  const zone = h("div", { class: "ck-calc__drop" }, h("strong", {}, words.file),
    h("div", {}, input, h("label", { for: id, class: "ck-button" }, words.file_choose)), hint);
  const element = h("div", { class: "ck-calc__upload" }, zone, told, wrong);

  async function take(files) {
    if (!files.length) return;
    const name = files[0].name;
    try {
      const report = await read(files);
      wrong.textContent = "";
      const variants = report.cases.reduce((sum, one) => sum + one.rows.length, 0);
      told.textContent = [fill(words.file_read, { file: name, variants }),
        ...report.warnings.map((warning) => fill(words.file_noise, { warning }))].join(" ");
      onReport(report, name);
    } catch (error) {
      wrong.textContent = fill(words.file_wrong, { file: name, error: errorWords(error, words) });
    }
    input.value = ""; // so that the same file, mended, can be chosen again
  }

  input.addEventListener("change", () => take([...input.files]));
  const lit = (on) => zone.classList.toggle("ck-calc__drop--over", on);
  for (const kind of ["dragenter", "dragover"]) {
    zone.addEventListener(kind, (event) => {
      event.preventDefault();
      lit(true);
    });
  }
  zone.addEventListener("dragleave", () => lit(false));
  zone.addEventListener("drop", (event) => {
    event.preventDefault();
    lit(false);
    take([...event.dataTransfer.files]);
  });
  return {
    element,
    clear() {
      told.textContent = "";
      wrong.textContent = "";
    },
  };
}
