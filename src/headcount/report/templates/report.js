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

  // A legend made for a wide page would be cut off on a narrow one: as many columns as fit.
  function fitLegends(part, width) {
    if (part === null || typeof part !== "object") return;
    const names = part.scale && part.scale.domain;
    if (part.legend && Array.isArray(names)) {
      const longest = Math.max(...names.map((name) => String(name).length));
      const columns = Math.max(1, Math.floor((width - 56) / (7 * longest + 56)));
      part.legend = { ...part.legend, columns, labelLimit: width - 56 };
    }
    Object.keys(part).filter((key) => key !== "datasets").forEach((key) => fitLegends(part[key], width));
  }

  // Names of rows stand to the left of the drawing, and a legend begins where they end.
  function nameWidth(part) {
    if (part === null || typeof part !== "object") return 0;
    const names = part.y && Array.isArray(part.y.sort) ? part.y.sort : [];
    const own = Math.min(170, 6 * Math.max(0, ...names.map((name) => String(name).length)));
    const inner = Object.keys(part).filter((key) => key !== "datasets").map((key) => nameWidth(part[key]));
    return Math.max(own, ...inner);
  }

  // The title of an axis is broken into lines that fit; names along it are turned if they would not.
  function fitAxes(part, width) {
    if (part === null || typeof part !== "object") return;
    for (const side of [part.x, part.y]) {
      if (side && typeof side.title === "string") side.title = lines(side.title, (width - 60) / 7);
    }
    const names = part.x && part.x.sort;
    if (Array.isArray(names) && 7 * Math.max(...names.map((name) => name.length)) > (width - 60) / names.length) {
      part.x.axis = { ...part.x.axis, labelAngle: -70, labelLimit: 200 };
    }
    Object.keys(part).filter((key) => key !== "datasets").forEach((key) => fitAxes(part[key], width));
  }

  function lines(text, most) {
    const found = [""];
    for (const word of text.split(" ")) {
      const longer = (found[found.length - 1] + " " + word).trim();
      if (longer.length <= most) found[found.length - 1] = longer;
      else found.push(word);
    }
    return found.filter(Boolean);
  }

  async function draw(figure) {
    const chart = figure.querySelector(".chart");
    try {
      const spec = JSON.parse(figure.querySelector("script.spec").textContent);
      if (chart.clientWidth < 660) {
        fitLegends(spec, chart.clientWidth - nameWidth(spec));
        fitAxes(spec, chart.clientWidth);
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

  // Paper cannot be clicked: open what is folded before printing, and fold it again after. Tables
  // go to the appendix; a line stays where each was.
  const appendix = document.querySelector(".appendix");
  let opened = [];
  let moved = [];
  window.addEventListener("beforeprint", () => {
    opened = Array.from(document.querySelectorAll("details.folded:not([open])"));
    opened.forEach((element) => { element.open = true; });
    const tables = document.querySelectorAll("main > section:not(.summary) :is(div.table, details.folded[id])");
    moved = Array.from(tables, (table) => {
      const line = document.createElement("p");
      line.className = "moved";
      line.textContent = table.querySelector(".label").textContent.replace(/\.$/, "") + " is in the appendix.";
      table.replaceWith(line);
      appendix.append(table);
      return { table, line };
    });
    if (moved.length === 0) appendix.hidden = true;
  });
  window.addEventListener("afterprint", () => {
    opened.forEach((element) => { element.open = false; });
    moved.forEach(({ table, line }) => { line.replaceWith(table); });
    appendix.hidden = false;
    moved = [];
  });
})();
