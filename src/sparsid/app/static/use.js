// Fifth screen: what a model is for.
import * as api from "./api.js";
import { el, button, field, number, select, table } from "./dom.js";
import { Chart, ticks } from "./chart.js";
import { curveChart, poleChart } from "./plots.js";

const EXPORTS = [["c", "C99: two files, no memory allocation"], ["numpy", "Python: one module on NumPy alone"], ["fmu", "FMU: Simulink, Modelica, dSPACE"],
  ["casadi", "CasADi: for model predictive control"], ["onnx", "ONNX"], ["st", "Structured Text for PLCs (experimental)"]];

export function useScreen(app) {
  const models = app.done();
  if (!models.some((m) => m.id === app.kept.use)) app.kept.use = models.at(-1).id;
  const model = models.find((m) => m.id === app.kept.use);
  const choice = select(models.map((m) => [m.id, m.name]), model.id, { id: "use-model", onchange: () => { app.kept.use = choice.value; app.render(); } });
  return [el("section", { class: "wide row" }, field("Model", choice), el("p", { class: "soft grow" }, `${model.described.replace(/,$/, "")}; ${model.kept} are left.`)),
    simulation(app, model), linear(app, model), el("div", { class: "columns-2 even" }, exportCard(app, model), takeCard(app, model)), python(app)];
}

// -- an input, drawn or typed, and what the model makes of it ------------------------

function simulation(app, model) {
  const place = el("section", { class: "card wide" }, el("h2", {}, "Simulate"), el("p", { class: "soft" }, "Loading…"));
  api.get(`models/${model.id}/channels`).then((told) => place.replaceChildren(el("h2", {}, "Simulate"), ...[drawing(app, model, told)].flat()), app.fail);
  return place;
}

function drawing(app, model, told) {
  const kept = (app.kept.drawn ||= {})[model.id] ||= {
    seconds: Number((Math.min(told.samples, 500) * told.dt).toPrecision(6)),
    inputs: told.inputs.map((u) => ({ shape: "hold", points: [[0, round(u.mean)]] })),
    input: 0,
  };
  if (!told.inputs.length) return [el("p", { class: "soft" }, "This model has no inputs.")];
  const result = el("div");
  const seconds = el("input", { type: "number", min: 0, step: "any", value: kept.seconds, id: "seconds", onchange: () => { kept.seconds = Number(seconds.value); pad.draw(); } });
  const which = select(told.inputs.map((u, k) => [String(k), u.name]), String(kept.input), { id: "input", onchange: () => { kept.input = Number(which.value); refresh(); } });
  const shape = select([["hold", "steps"], ["line", "lines"]], kept.inputs[kept.input].shape, { id: "shape", onchange: () => { kept.inputs[kept.input].shape = shape.value; pad.draw(); } });
  const points = el("textarea", { rows: 4, id: "points", spellcheck: false, onchange: () => { kept.inputs[kept.input].points = parsed(points.value); pad.draw(); } });
  const write = () => { points.value = kept.inputs[kept.input].points.map(([t, v]) => `${t} ${v}`).join("\n"); };
  const pad = new Pad(told, kept, write);
  const refresh = () => { shape.value = kept.inputs[kept.input].shape; write(); pad.draw(); };
  const preset = (make) => () => {
    const u = told.inputs[kept.input], end = kept.seconds;
    kept.inputs[kept.input].points = make(u, end).map(([t, v]) => [round(t), round(v)]);
    refresh();
  };
  const step = preset((u, end) => [[0, u.mean], [end / 10, u.mean + 0.5 * (u.high - u.mean)]]);
  const stairs = preset((u, end) => Array.from({ length: 6 }, (_, k) => [end * k / 6, u.low + (u.high - u.low) * k / 5]));
  const random = preset((u, end) => Array.from({ length: 20 }, (_, k) => [end * k / 20, u.low + (u.high - u.low) * Math.random()]));
  const run = async (wish) => {
    try {
      app.say("Simulating.");
      const found = await api.post(`models/${model.id}/simulate`, wish);
      app.fail(null);
      showRun(app, model, told, found, result);
      app.say("Simulated.");
    } catch (error) { app.fail(error); }
  };
  const file = el("input", { type: "file", id: "inputs-file", accept: app.state.suffixes.join(","), onchange: async () => {
    try {
      await api.upload(`models/${model.id}/inputs?name=${encodeURIComponent(file.files[0].name)}`, file.files[0]);
      await run({ uploaded: true });
    } catch (error) { app.fail(error); }
  } });
  requestAnimationFrame(refresh);
  return [el("p", { class: "soft" }, "Draw in the picture, take a shape, or type points: a time and a value on each line. The grey zone is what the model has seen."),
    el("div", { class: "row" }, told.inputs.length > 1 && field("Input", which), field("Between points", shape), field("Duration [s]", seconds),
      button("Step", step, { id: "preset-step" }), button("Stairs", stairs), button("Random", random)),
    pad.node, el("div", { class: "row top" }, field("Points", points), field("Or a file with the inputs", file)),
    el("div", { class: "row" }, button("Simulate", () => run({ seconds: kept.seconds, inputs: kept.inputs }), { class: "main", id: "simulate" })), result];
}

const round = (v) => Number(v.toPrecision(5));
const parsed = (text) => text.split("\n").map((line) => line.trim().split(/[\s;,]+/).map(Number))
  .filter((p) => p.length === 2 && p.every(Number.isFinite)).sort((a, b) => a[0] - b[0]);

// A picture to draw an input in.
class Pad {
  constructor(told, kept, changed) {
    Object.assign(this, { told, kept, changed, height: 150 });
    this.node = el("canvas", { class: "pad", role: "img", "aria-label": "the input over time; points can be typed below" });
    this.node.addEventListener("pointerdown", (event) => { this.node.setPointerCapture(event.pointerId); this.down = true; this.put(event); });
    this.node.addEventListener("pointermove", (event) => { if (this.down) this.put(event); });
    this.node.addEventListener("pointerup", () => { this.down = false; this.changed(); });
    new ResizeObserver(() => this.draw()).observe(this.node);
  }

  get points() { return this.kept.inputs[this.kept.input].points; }
  set points(value) { this.kept.inputs[this.kept.input].points = value; }

  range() {
    const u = this.told.inputs[this.kept.input];
    const values = [u.low, u.high, ...this.points.map((p) => p[1])];
    const low = Math.min(...values), high = Math.max(...values), room = 0.15 * (high - low || 1);
    return [low - room, high + room];
  }

  put(event) {
    const box = this.node.getBoundingClientRect();
    const [low, high] = this.range();
    const t = round(this.kept.seconds * Math.min(1, Math.max(0, (event.clientX - box.left - 50) / (box.width - 74))));
    const v = round(high - (high - low) * Math.min(1, Math.max(0, (event.clientY - box.top) / box.height)));
    const near = this.kept.seconds / 60;
    this.points = [...this.points.filter((p) => Math.abs(p[0] - t) > near || (p[0] === 0 && t > near / 2)), [t, v]].sort((a, b) => a[0] - b[0]);
    this.draw();
  }

  draw() {
    const width = this.node.clientWidth, height = this.height, ratio = window.devicePixelRatio || 1;
    if (!width) return;
    this.node.width = width * ratio;
    this.node.height = height * ratio;
    const pen = this.node.getContext("2d"), style = getComputedStyle(this.node);
    const colour = (name) => style.getPropertyValue(`--${name}`).trim();
    pen.scale(ratio, ratio);
    pen.font = "12px system-ui, sans-serif";
    const [low, high] = this.range(), u = this.told.inputs[this.kept.input];
    const x = (t) => 50 + (width - 74) * t / this.kept.seconds, y = (v) => height * (high - v) / (high - low);
    pen.fillStyle = colour("panel-2");
    pen.fillRect(50, y(u.high), width - 74, y(u.low) - y(u.high));
    pen.textAlign = "right";
    for (const v of ticks(low, high, 4)) {
      pen.strokeStyle = colour("grid");
      pen.beginPath(); pen.moveTo(50, y(v)); pen.lineTo(width - 24, y(v)); pen.stroke();
      pen.fillStyle = colour("soft");
      if (y(v) < height - 18) pen.fillText(number(v), 44, y(v) + 4);
    }
    pen.textAlign = "center";
    for (const t of ticks(0, this.kept.seconds, width / 110)) pen.fillText(number(t), x(t), height - 4);
    pen.strokeStyle = colour("blue");
    pen.fillStyle = colour("blue");
    pen.lineWidth = 2;
    pen.beginPath();
    const hold = this.kept.inputs[this.kept.input].shape === "hold";
    const list = this.points;
    list.forEach(([t, v], k) => {
      if (!k) pen.moveTo(x(0), y(v));
      else if (hold) pen.lineTo(x(t), y(list[k - 1][1]));
      pen.lineTo(x(t), y(v));
    });
    if (list.length) pen.lineTo(x(this.kept.seconds), y(list.at(-1)[1]));
    pen.stroke();
    for (const [t, v] of list) { pen.beginPath(); pen.arc(x(t), y(v), 3.5, 0, 7); pen.fill(); }
  }
}

function showRun(app, model, told, found, place) {
  const panels = (k) => [
    { label: `${told.outputs[k].name}${told.outputs[k].unit ? ` [${told.outputs[k].unit}]` : ""}`, height: 220, series: [
      { key: "run band", label: "95 % band", colour: "orange", kind: "band" },
      { key: "run", name: told.outputs[k].name, label: "simulated", colour: "orange", kind: "line", width: 1.8 }] },
    ...told.inputs.map((u, j) => ({ label: `${u.name} (input)`, height: 80, series: [{ key: `u${j}`, name: u.name, colour: "blue", kind: "line" }] }))];
  const charts = told.outputs.map((_, k) => app.chart(new Chart({
    label: "simulation", panels: panels(k), length: found.samples, dt: found.dt,
    load: (a, b, width, signal) => api.signals(`models/${model.id}/run?output=${k}&first=${a}&stop=${b}&width=${width}`, signal),
  })));
  place.replaceChildren(...charts,
    found.diverged_at === null ? "" : el("p", { class: "notice bad" }, "The run left all bounds: this input is beyond what the model knows."),
    el("div", { class: "row" }, button("Save as CSV", () => api.save(`models/${model.id}/run.csv`).catch(app.fail), { id: "save-run" })));
}

// -- a linear model around an operating point -----------------------------------------

function linear(app, model) {
  const place = el("div");
  const at = el("div", { class: "row" });
  const boxes = [];
  api.get(`models/${model.id}/channels`).then((told) => {
    told.inputs.forEach((u, k) => {
      const box = el("input", { type: "number", step: "any", value: round(u.mean), id: `at-${k}` });
      boxes.push(box);
      at.append(field(`${u.name}${u.unit ? ` [${u.unit}]` : ""}`, box));
    });
    at.append(button("Linearise here", look, { id: "linearise" }));
  }, app.fail);
  const look = async () => {
    try {
      app.say("Linearising.");
      const found = await api.post(`models/${model.id}/linearise`, { at: boxes.map((b) => Number(b.value)) });
      app.fail(null);
      place.replaceChildren(...[linearised(found)].flat(2));
      app.say("Linearised.");
    } catch (error) { app.fail(error); }
  };
  return el("section", { class: "card wide" }, el("h2", {}, "Linearise"),
    el("p", { class: "soft" }, "A linear model around a steady state: poles, frequency and step response; the bands show how far members of the model are apart."), at, place);
}

function linearised(found) {
  const pairs = found.responses.flatMap((r) => [
    curveChart({ ...r.gain, label: `Bode, gain [dB]: ${r.name}`, xLabel: "frequency [Hz]", log: true }),
    curveChart({ ...r.phase, label: `Bode, phase [deg]: ${r.name}`, xLabel: "frequency [Hz]", log: true }),
    curveChart({ ...r.step, label: `Step: ${r.name}`, xLabel: "time [s]" })]);
  return [el("p", {}, found.text), el("div", { class: "small-charts" }, poleChart(found.poles, "Poles, inside the unit circle: stable"), pairs),
    table(["pole", "time constant [s]", "damping", "frequency [Hz]"], found.table.map((p) => [
      `${number(p.real)}${p.imag ? ` ${p.imag > 0 ? "+" : "−"} ${number(Math.abs(p.imag))}j` : ""}`, number(p.time_constant), number(p.damping), number(p.frequency)]), { label: "poles" })];
}

// -- files to take away ---------------------------------------------------------------

function exportCard(app, model) {
  const to = select(EXPORTS, "c", { id: "export-to" });
  const act = () => { app.say("Exporting."); api.savePosted(`models/${model.id}/export`, { to: to.value }).then(() => { app.fail(null); app.say("Exported."); }, app.fail); };
  return el("section", { class: "card" }, el("h2", {}, "Export"),
    el("p", { class: "soft" }, "The model for use elsewhere, with a README, test vectors and a check. Bands stay here."),
    field("To", to), button("Export", act, { class: "main", id: "export" }));
}

function takeCard(app, model) {
  const save = (path) => () => api.save(path).then(() => app.fail(null), app.fail);
  const report = () => { app.say("Writing the report."); api.savePosted(`models/${model.id}/report`, {}).then(() => { app.fail(null); app.say("The report is saved."); }, app.fail); };
  return el("section", { class: "card" }, el("h2", {}, "Take away"),
    el("div", { class: "stack" }, button("Report (HTML, one page)", report, { id: "report" }),
      button("Model file for Python and the command", save(`models/${model.id}/file`), { id: "model-file" }),
      button("Session as one file", save("archive"), { id: "archive" })));
}

function python(app) {
  const code = el("pre", { tabIndex: 0, id: "code" });
  api.text("script").then((found) => { code.textContent = found; }, app.fail);
  return el("section", { class: "card wide" }, el("div", { class: "row" }, el("h2", {}, "As Python"), el("span", { class: "grow" }),
    button("Copy", () => navigator.clipboard.writeText(code.textContent).then(() => app.say("Copied.")), {}),
    button("Save script.py", () => api.save("script").catch(app.fail), { id: "script" })),
  el("p", { class: "soft" }, "Everything that was done on these screens. It reads the folder of the session and gives the same numbers."), code);
}
