// Makes the report's figures answer: values on hovering and by arrow keys, switches of model and scale, numbers as tables,
// pictures to save. Nothing is fetched; the page is complete without it.
"use strict";
(() => {
  document.documentElement.classList.add("js");
  const figures = [...document.querySelectorAll("figure")];

  // Which view a figure shows: that of the chosen models and scale; its first where it has no such view.
  function show(figure) {
    const views = [...figure.querySelectorAll(".view")];
    const models = views.some((view) => view.dataset.models === figure.dataset.models)
      ? figure.dataset.models : views[0].dataset.models;
    const rescaled = figure.dataset.rescaled === "yes";
    for (const view of views) {
      view.hidden = view.dataset.models !== models || ("rescaled" in view.dataset) !== rescaled;
    }
    for (const button of figure.querySelectorAll("[data-show]")) {
      button.setAttribute("aria-pressed", String(button.dataset.show === models));
    }
  }

  for (const figure of figures) {
    for (const button of figure.querySelectorAll("[data-show]")) {
      // One choice of model holds for the whole page.
      button.addEventListener("click", () => {
        const before = button.getBoundingClientRect().top;
        for (const other of figures) {
          other.dataset.models = button.dataset.show;
          if (other.querySelector("[data-show]")) show(other);
        }
        // Figures above may have changed their height.
        window.scrollBy(0, button.getBoundingClientRect().top - before);
      });
    }
    const scale = figure.querySelector(".scale");
    scale?.addEventListener("click", () => {
      scale.setAttribute("aria-pressed", String(scale.getAttribute("aria-pressed") !== "true"));
      figure.dataset.rescaled = figure.dataset.rescaled === "yes" ? "no" : "yes";
      show(figure);
    });
  }

  // Readings of a drawing: signs that say what they are, and corners of curves that are called by their name.
  const tooltip = document.createElement("div");
  tooltip.className = "tooltip";
  tooltip.hidden = true;
  tooltip.setAttribute("role", "status");
  document.body.append(tooltip);

  function axis(plot, which) {
    const [scale, low, high, start, end] = plot.dataset[which].split(" ");
    const log = scale === "log";
    const [from, to] = [low, high].map((value) => (log ? Math.log10(Number(value)) : Number(value)));
    return (place) => {
      const value = from + ((place - start) / (end - start)) * (to - from);
      return log ? 10 ** value : value;
    };
  }

  function number(value) {
    const size = Math.abs(value);
    const text = size !== 0 && (size < 1e-4 || size >= 1e6) ? value.toExponential(2) : String(Number(value.toPrecision(4)));
    return text.replace("-", "−");
  }

  const readings = new WeakMap();
  function readingsOf(svg) {
    if (readings.has(svg)) return readings.get(svg);
    const found = [];
    for (const plot of svg.querySelectorAll(".plot")) {
      for (const sign of plot.querySelectorAll("[data-say]")) {
        const box = sign.getBBox();
        found.push({ x: box.x + box.width / 2, y: box.y + box.height / 2, say: sign.dataset.say });
      }
      const [x, y] = [axis(plot, "x"), axis(plot, "y")];
      for (const curve of plot.querySelectorAll("path[data-name]")) {
        for (const [, across, up] of curve.getAttribute("d").matchAll(/[ML](-?[\d.]+) (-?[\d.]+)/g)) {
          const say = `${curve.dataset.name}: ${plot.dataset.xName} ${number(x(across))}, ${plot.dataset.yName} ${number(y(up))}`;
          found.push({ x: Number(across), y: Number(up), say });
        }
      }
    }
    readings.set(svg, found);
    return found;
  }

  function mark(svg, reading) {
    let ring = svg.querySelector(".reading");
    if (!ring) {
      ring = document.createElementNS("http://www.w3.org/2000/svg", "circle");
      ring.setAttribute("class", "reading");
      ring.setAttribute("r", "8");
      svg.append(ring);
    }
    ring.setAttribute("cx", reading.x);
    ring.setAttribute("cy", reading.y);
    tooltip.textContent = reading.say;
    tooltip.hidden = false;
    const at = new DOMPoint(reading.x, reading.y).matrixTransform(svg.getScreenCTM());
    const [width, height] = [tooltip.offsetWidth, tooltip.offsetHeight];
    const left = Math.max(8, Math.min(at.x - width / 2, document.documentElement.clientWidth - width - 8));
    const above = at.y - height - 14;
    tooltip.style.left = `${left}px`;
    tooltip.style.top = `${above < 4 ? at.y + 14 : above}px`;
  }

  function unmark(svg) {
    svg.querySelector(".reading")?.remove();
    tooltip.hidden = true;
  }

  // The browser's own tooltips would come late and on top of ours; a drawing nobody looks at keeps them.
  function prepare(svg) {
    const title = svg.querySelector(":scope > title");
    if (!title) return;
    svg.setAttribute("aria-label", title.textContent);
    title.remove();
    for (const said of svg.querySelectorAll(".plot title")) {
      said.parentNode.dataset.say = said.textContent;
      said.remove();
    }
  }

  function nearest(svg, event) {
    const to = svg.getScreenCTM()?.inverse();
    if (!to) return null;
    const pointer = new DOMPoint(event.clientX, event.clientY).matrixTransform(to);
    let found = null;
    let least = 40 ** 2;
    for (const reading of readingsOf(svg)) {
      const distance = (reading.x - pointer.x) ** 2 + (reading.y - pointer.y) ** 2;
      if (distance < least) [found, least] = [reading, distance];
    }
    return found;
  }

  for (const svg of document.querySelectorAll(".drawing > svg")) {
    let current = -1;
    svg.setAttribute("tabindex", "0");
    svg.addEventListener("pointermove", (event) => {
      prepare(svg);
      const reading = nearest(svg, event);
      if (reading) mark(svg, reading);
      else unmark(svg);
    });
    svg.addEventListener("pointerleave", () => unmark(svg));
    svg.addEventListener("blur", () => unmark(svg));
    svg.addEventListener("keydown", (event) => {
      prepare(svg);
      const all = readingsOf(svg);
      const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
      if (event.key === "Escape") return unmark(svg);
      if (event.key === "Home") current = 0;
      else if (event.key === "End") current = all.length - 1;
      else if (event.key in steps) {
        current = current < 0 ? 0 : Math.max(0, Math.min(all.length - 1, current + steps[event.key]));
      } else return;
      event.preventDefault();
      if (all[current]) mark(svg, all[current]);
    });
  }
  addEventListener("scroll", () => { tooltip.hidden = true; }, { passive: true });

  // The numbers behind a figure as a table, made when it is opened.
  function cells(line) {
    return [...line.matchAll(/(?:^|,)(?:"((?:[^"]|"")*)"|([^,]*))/g)]
      .map(([, quoted, plain]) => (quoted === undefined ? plain : quoted.replaceAll('""', '"')));
  }

  const MOST_ROWS = 500;
  for (const details of document.querySelectorAll("details.data")) {
    details.addEventListener("toggle", () => {
      if (details.querySelector("table")) return;
      const link = details.parentNode.querySelector("a.csv").href;
      const bytes = Uint8Array.from(atob(link.slice(link.indexOf(",") + 1)), (c) => c.charCodeAt(0));
      const [head, ...rows] = new TextDecoder().decode(bytes).trimEnd().split("\n").map(cells);
      const table = document.createElement("table");
      const add = (row, tag, scope) => {
        const line = document.createElement("tr");
        for (const text of row) {
          const cell = document.createElement(tag);
          if (scope) cell.scope = scope;
          cell.textContent = text;
          line.append(cell);
        }
        return line;
      };
      table.createTHead().append(add(head, "th", "col"));
      table.createTBody().append(...rows.slice(0, MOST_ROWS).map((row) => add(row, "td")));
      const frame = document.createElement("div");
      frame.className = "scroll";
      frame.tabIndex = 0;
      frame.append(table);
      details.append(frame);
      if (rows.length > MOST_ROWS) {
        const note = document.createElement("p");
        note.textContent = `The first ${MOST_ROWS} of ${rows.length} rows; the CSV file has them all.`;
        details.append(note);
      }
    });
  }

  // The drawing that is seen, as a file, with the colours of paper.
  for (const button of document.querySelectorAll("button.save")) {
    button.addEventListener("click", () => {
      const svg = button.closest("figure").querySelector(".view:not([hidden]) .wide > svg").cloneNode(true);
      svg.querySelector(".reading")?.remove();
      svg.removeAttribute("tabindex");
      const text = new XMLSerializer().serializeToString(svg).replace(/var\(--[a-z]+,\s*(#[0-9a-f]+)\)/g, "$1");
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
      link.download = `${button.dataset.name}.svg`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    });
  }
})();
