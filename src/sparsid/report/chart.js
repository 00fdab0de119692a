"use strict";
// Measured against forecast, with a residual strip. Drag to zoom, double-click to reset.
(() => {
  const NS = "http://www.w3.org/2000/svg";
  const LEFT = 56, RIGHT = 12, TOP = 20, GAP = 22, BOTTOM = 34;

  function shape(name, attributes, parent) {
    const node = document.createElementNS(NS, name);
    for (const key in attributes) node.setAttribute(key, attributes[key]);
    parent.appendChild(node);
    return node;
  }

  function ticks(low, high, count) {
    const raw = (high - low) / Math.max(count, 1);
    const unit = Math.pow(10, Math.floor(Math.log10(raw)));
    const step = unit * [1, 2, 5, 10].find((m) => m * unit >= raw);
    const found = [];
    for (let v = Math.ceil(low / step) * step; v <= high + 1e-9 * step; v += step) {
      found.push(Math.abs(v) < 1e-9 * step ? 0 : v);
    }
    return found;
  }

  const text = (v) => (v === null ? "-" : String(Number(v.toPrecision(4))));

  // As many decimals as tell one tick from the next.
  function labels(values) {
    const step = values.length > 1 ? Math.abs(values[1] - values[0]) : Math.abs(values[0]) || 1;
    const most = Math.max(...values.map(Math.abs), 0);
    if (most >= 1e6 || (most > 0 && most < 1e-4)) {
      const digits = Math.max(0, Math.round(Math.log10(most / step)));
      return values.map((v) => (v === 0 ? "0" : v.toExponential(digits)));
    }
    const decimals = Math.min(8, Math.max(0, -Math.floor(Math.log10(step) + 1e-9)));
    return values.map((v) => v.toFixed(decimals));
  }

  // A unit in which the times have few digits.
  function timeUnit(span) {
    for (const [unit, seconds] of [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]]) {
      if (span >= 6 * seconds && seconds > 1 && span >= 600) return [unit, seconds];
    }
    return ["s", 1];
  }

  function chart(box) {
    const data = JSON.parse(box.querySelector("script").textContent);
    const view = box.querySelector(".view"), tip = box.querySelector(".tip");
    const n = data.measured.length;
    const time = (k) => data.start + data.dt * (data.samples ? data.samples[k] : k);
    const named = (name, unit) => (unit ? `${name} [${unit}]` : name);
    let kind = "free_run", from = 0, to = n - 1, drag = null;

    function range(rows) {
      let low = Infinity, high = -Infinity;
      for (const row of rows) {
        for (let k = from; k <= to; k++) {
          if (row[k] !== null && row[k] !== undefined) {
            low = Math.min(low, row[k]);
            high = Math.max(high, row[k]);
          }
        }
      }
      if (!(high > low)) { low = (low === Infinity ? 0 : low) - 1; high = low + 2; }
      const room = 0.06 * (high - low);
      return [low - room, high + room];
    }

    function path(x, y, row) {
      let d = "", pen = false;
      for (let k = from; k <= to; k++) {
        if (row[k] === null) { pen = false; continue; }
        d += (pen ? "L" : "M") + x(k).toFixed(1) + " " + y(row[k]).toFixed(1);
        pen = true;
      }
      return d;
    }

    // One closed shape for each stretch without gaps.
    function area(x, y, mean, half, sign) {
      let d = "", back = [];
      const close = () => {
        if (back.length) d += back.reverse().join("") + "Z";
        back = [];
      };
      for (let k = from; k <= to; k++) {
        if (mean[k] === null || half[k] === null) { close(); continue; }
        const high = y(sign * mean[k] + half[k]), low = y(sign * mean[k] - half[k]);
        d += (back.length ? "L" : "M") + x(k).toFixed(1) + " " + high.toFixed(1);
        back.push("L" + x(k).toFixed(1) + " " + low.toFixed(1));
      }
      close();
      return d;
    }

    function draw() {
      const run = data[kind];
      const width = Math.max(view.clientWidth, 280);
      const upper = width < 600 ? 220 : 300, lower = width < 600 ? 70 : 90;
      const last = TOP + upper + GAP + lower, each = width < 600 ? 50 : 64;
      const bottom = last + data.inputs.length * (GAP + each), height = bottom + BOTTOM;
      view.replaceChildren();
      const svg = shape("svg", {
        viewBox: `0 0 ${width} ${height}`, height, tabindex: 0, role: "img",
        "aria-label": `measured and simulated ${data.name}`,
      }, view);
      const clip = `clip-${data.id}`;
      const defs = shape("clipPath", { id: clip }, svg);
      shape("rect", { x: LEFT, y: TOP, width: width - LEFT - RIGHT, height: upper }, defs);
      const clip2 = `${clip}-r`;
      const defs2 = shape("clipPath", { id: clip2 }, svg);
      const top2 = TOP + upper + GAP;
      shape("rect", { x: LEFT, y: top2, width: width - LEFT - RIGHT, height: lower }, defs2);

      const begin = time(from), span = Math.max(time(to) - begin, 1e-12);
      const place = (t) => LEFT + (width - LEFT - RIGHT) * (t - begin) / span;
      const x = (k) => place(time(k));
      const wide = run.std.map((s) => (s === null ? null : 1.96 * s));
      const inner = run.model_std.map((s) => (s === null ? null : 1.96 * s));
      const end = (sign) => run.mean.map((v, k) =>
        v === null || wide[k] === null ? null : v + sign * wide[k]);
      // The whole band, unless it is so wide that the signals would be flat.
      const signals = range([data.measured, run.mean]), room = signals[1] - signals[0];
      const all = range([data.measured, run.mean, end(1), end(-1)]);
      const low = Math.max(all[0], signals[0] - 1.2 * room);
      const high = Math.min(all[1], signals[1] + 1.2 * room);
      const y = (v) => TOP + upper * (high - v) / (high - low);
      const error = data.measured.map((v, k) =>
        v === null || run.mean[k] === null ? null : v - run.mean[k]);
      const errors = Math.max(...range([error]).map(Math.abs));
      const reach = Math.min(Math.max(errors, ...range([wide]).map(Math.abs)), 4 * errors);
      const y2 = (v) => top2 + lower * (reach - v) / (2 * reach);

      const [unit, seconds] = timeUnit(Math.max(Math.abs(time(to)), Math.abs(begin)));
      const times = ticks(begin / seconds, time(to) / seconds, width / 110);
      const written = labels(times);
      times.forEach((t, i) => {
        const at = place(t * seconds);
        shape("line", { x1: at, x2: at, y1: TOP, y2: bottom, class: "rule" }, svg);
        shape("text", { x: at, y: height - 16, "text-anchor": "middle" }, svg).textContent = written[i];
      });
      shape("text", { x: (LEFT + width) / 2, y: height - 2, "text-anchor": "middle" }, svg)
        .textContent = `time [${unit}]`;
      const scale = (to, values) => {
        const texts = labels(values);
        values.forEach((v, i) => {
          shape("line", { x1: LEFT, x2: width - RIGHT, y1: to(v), y2: to(v), class: "rule" }, svg);
          shape("text", { x: LEFT - 6, y: to(v) + 4, "text-anchor": "end" }, svg).textContent = texts[i];
        });
      };
      const title = (words, top) =>
        shape("text", { x: LEFT + 4, y: top - 5, class: "name" }, svg).textContent = words;
      scale(y, ticks(low, high, 5));
      scale(y2, ticks(-reach, reach, 4));

      const main = shape("g", { "clip-path": `url(#${clip})` }, svg);
      const strip = shape("g", { "clip-path": `url(#${clip2})` }, svg);
      shape("path", { d: area(x, y, run.mean, wide, 1), class: "band" }, main);
      shape("path", { d: area(x, y, run.mean, inner, 1), class: "inner" }, main);
      shape("path", { d: path(x, y, data.measured), class: "measured" }, main);
      shape("path", { d: path(x, y, run.mean), class: "forecast" }, main);
      shape("path", { d: area(x, y2, run.mean.map((v) => (v === null ? null : 0)), wide, 0), class: "band" }, strip);
      shape("path", { d: path(x, y2, error), class: "residual" }, strip);
      title(named("error", data.unit), top2);
      title(named(data.name, data.unit), TOP);
      data.inputs.forEach((input, number) => {
        const top = last + GAP + number * (GAP + each);
        const [least, most] = range([input.values]);
        const y3 = (v) => top + each * (most - v) / (most - least);
        scale(y3, ticks(least, most, 3));
        shape("path", { d: path(x, y3, input.values), class: "input" }, svg);
        title(named(input.name, input.unit), top);
      });

      const cross = shape("line", { y1: TOP, y2: bottom, class: "cross", visibility: "hidden" }, svg);
      const brush = shape("rect", { y: TOP, height: bottom - TOP, class: "brush", visibility: "hidden" }, svg);
      const sample = (event) => {
        const frame = svg.getBoundingClientRect();
        const at = (event.clientX - frame.left) * width / frame.width;
        const wanted = begin + span * (at - LEFT) / (width - LEFT - RIGHT);
        let a = from, b = to;
        while (b - a > 1) {
          const half = (a + b) >> 1;
          if (time(half) <= wanted) a = half; else b = half;
        }
        return wanted - time(a) < time(b) - wanted ? a : b;
      };
      svg.addEventListener("pointerdown", (event) => {
        drag = sample(event);
        svg.setPointerCapture(event.pointerId);
      });
      svg.addEventListener("pointermove", (event) => {
        const k = sample(event);
        cross.setAttribute("x1", x(k));
        cross.setAttribute("x2", x(k));
        cross.setAttribute("visibility", "visible");
        const band = run.std[k] === null ? "" : ` \u00b1 ${text(1.96 * run.std[k])}`;
        const driven = data.inputs.map((input) =>
          `, ${input.name} ${text(input.values[k])} ${input.unit}`.trimEnd()).join("");
        tip.textContent = `${Number((time(k) / seconds).toPrecision(7))} ${unit}: measured ${text(data.measured[k])}, ` +
          `${kind === "free_run" ? "free run" : "one step"} ${text(run.mean[k])}${band} ${data.unit}`.trimEnd() + driven;
        if (drag !== null) {
          const a = Math.min(x(drag), x(k)), b = Math.max(x(drag), x(k));
          brush.setAttribute("x", a);
          brush.setAttribute("width", b - a);
          brush.setAttribute("visibility", "visible");
        }
      });
      svg.addEventListener("pointerup", (event) => {
        const k = sample(event);
        if (drag !== null && Math.abs(k - drag) > 4) zoom(Math.min(k, drag), Math.max(k, drag));
        else brush.setAttribute("visibility", "hidden");
        drag = null;
      });
      svg.addEventListener("pointercancel", () => { drag = null; });
      svg.addEventListener("dblclick", () => zoom(0, n - 1));
      svg.addEventListener("keydown", (event) => {
        const moves = { "+": () => scaleBy(0.5), "-": () => scaleBy(2), ArrowLeft: () => move(-0.25), ArrowRight: () => move(0.25) };
        if (moves[event.key]) { event.preventDefault(); moves[event.key](); view.querySelector("svg").focus(); }
      });
    }

    function zoom(a, b) {
      from = Math.max(0, Math.round(a));
      to = Math.min(n - 1, Math.round(b));
      draw();
    }
    function scaleBy(factor) {
      const middle = (from + to) / 2, half = Math.max(5, factor * (to - from) / 2);
      zoom(middle - half, middle + half);
    }
    function move(share) {
      const length = to - from, by = share * length;
      const first = Math.min(Math.max(0, from + by), n - 1 - length);
      zoom(first, first + length);
    }

    const actions = {
      in: () => scaleBy(0.5), out: () => scaleBy(2), left: () => move(-0.5),
      right: () => move(0.5), all: () => zoom(0, n - 1),
    };
    for (const button of box.querySelectorAll("button[data-do]")) {
      button.addEventListener("click", () => actions[button.dataset.do]());
    }
    const kinds = box.querySelectorAll("button[data-kind]");
    for (const button of kinds) {
      button.addEventListener("click", () => {
        kind = button.dataset.kind;
        for (const other of kinds) other.setAttribute("aria-pressed", String(other === button));
        draw();
      });
    }
    new ResizeObserver(draw).observe(view);
    draw();
  }

  for (const box of document.querySelectorAll(".chart")) chart(box);
})();
