// Formulas: MathJax is loaded from this site, and only when a page has a formula.

const FORMULAS = ".arithmatex, .jp-RenderedMarkdown";
const FOLDER = new URL("../mathjax/", import.meta.url);

let loading = null;
let queue = Promise.resolve();

function load() {
  loading ??= new Promise((resolve, reject) => {
    window.MathJax = {
      loader: { load: ["[tex]/html"], paths: { mathjax: FOLDER.href.replace(/\/$/, "") } },
      tex: {
        packages: { "[+]": ["html"] },
        inlineMath: [["\\(", "\\)"], ["$", "$"]],
        displayMath: [["\\[", "\\]"], ["$$", "$$"]],
      },
      chtml: { fontURL: new URL("output/chtml/fonts/woff-v2", FOLDER).href },
      // Only formulas are read; `$` elsewhere on a page stays a dollar.
      options: { ignoreHtmlClass: "md-container|md-header", processHtmlClass: "arithmatex|jp-RenderedMarkdown", enableMenu: false },
      startup: { typeset: false, ready() { window.MathJax.startup.defaultReady(); window.MathJax.startup.promise.then(resolve); } },
    };
    const script = document.createElement("script");
    script.src = new URL("tex-chtml.js", FOLDER).href;
    script.onerror = () => reject(new Error(`MathJax could not be loaded from ${script.src}`));
    document.head.append(script);
  });
  return loading;
}

/** Set every formula below `root`; one page at a time, since MathJax keeps one state. */
export function setFormulas(root) {
  const hasFormula = [...root.querySelectorAll(FORMULAS)].some((element) => /\\\(|\\\[|\$/.test(element.textContent));
  if (!hasFormula) return queue;
  queue = queue.then(load).then(() => {
    const { MathJax } = window;
    MathJax.startup.output.clearCache();
    MathJax.typesetClear();
    MathJax.texReset();
    return MathJax.typesetPromise([root]);
  }).then(() => { document.documentElement.dataset.ckFormulas = "set"; });
  return queue;
}
