// Draws each figure from the specification that stands beside it. The state of the page
// ("loading", "ready" or "failed") is written on the body so that a test can wait for it.
(function () {
  "use strict";
  const options = {
    mode: "vega-lite",
    renderer: "svg",
    actions: { export: { svg: true, png: true }, source: false, compiled: false, editor: false },
    i18n: { SVG_ACTION: "Save as SVG", PNG_ACTION: "Save as PNG" },
    scaleFactor: { png: 2 },
    tooltip: { theme: "headcount" },
  };

  async function draw(figure) {
    const chart = figure.querySelector(".chart");
    try {
      const spec = JSON.parse(figure.querySelector("script.spec").textContent);
      if (chart.clientWidth < 520) {
        // A legend in one row would be cut off on a narrow screen: set it in one column.
        spec.config.legend = { ...spec.config.legend, columns: 1 };
      }
      const name = figure.dataset.figure;
      await window.vegaEmbed(chart, spec, { ...options, downloadFileName: name });
      return true;
    } catch (error) {
      const note = document.createElement("p");
      note.className = "failure";
      note.textContent = "This figure could not be drawn: " + error;
      chart.replaceChildren(note);
      console.error("figure " + figure.dataset.figure + ":", error);
      return false;
    }
  }

  const figures = Array.from(document.querySelectorAll("figure[data-figure]"));
  Promise.all(figures.map(draw)).then((drawn) => {
    document.body.dataset.state = drawn.every(Boolean) ? "ready" : "failed";
  });

  // Paper cannot be clicked: open what is folded before printing, and fold it again after.
  let opened = [];
  window.addEventListener("beforeprint", () => {
    opened = Array.from(document.querySelectorAll("details.folded:not([open])"));
    opened.forEach((element) => { element.open = true; });
  });
  window.addEventListener("afterprint", () => {
    opened.forEach((element) => { element.open = false; });
  });
})();
