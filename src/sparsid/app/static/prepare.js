// Second screen: steps that bring records into shape, and what is held back for tests.
import * as api from "./api.js";
import { el, button, field, number, select } from "./dom.js";
import { channelChart, recordChoice } from "./data.js";

export function prepareScreen(app) {
  const { prepared } = app.state;
  const parts = [chips(app)];
  if (prepared.error) return [...parts, el("p", { class: "notice bad" }, prepared.error)];
  if (!prepared.records.length) return [...parts, el("p", {}, "Load data first.")];
  app.kept.record = Math.min(app.kept.record || 0, prepared.records.length - 1);
  const k = app.kept.record;
  const record = prepared.records[k];
  const range = rangeTools(app, record, k);
  const chart = channelChart(app, "prepared", k, { marks: record.test, chosen: range.show });
  range.chart = chart;
  return [...parts,
    el("div", { class: "columns-2" },
      el("section", {}, recordChoice(app, "prepared", () => app.render()), app.chart(chart), range.node),
      el("div", {}, testCard(app), stepsCard(app, record), adviceCard(app)))];
}

function chips(app) {
  const steps = app.state.steps;
  return el("section", { class: "chips wide", "aria-label": "Steps" },
    el("span", { class: "chip fixed" }, "as recorded"),
    steps.map((step, k) => el("span", { class: "chip" }, step.label,
      button("×", () => app.act(api.remove(`steps/${k}`), `Undone: ${step.label}.`), { "aria-label": `undo: ${step.label}` }))),
    el("span", { class: "grow" }),
    button("Identify →", () => app.go("identify"), { class: "main", id: "to-identify" }));
}

const add = (app, step) => app.act(api.post("steps", step), "Done.");

// What is dragged over appears as numbers, which can be typed as well.
function rangeTools(app, record, k) {
  const tools = {};
  const box = (id) => el("input", { type: "number", step: "any", id, size: 8, onchange: () => tools.chart.choose(...samples()) });
  const from = box("from"), to = box("to");
  const samples = () => {
    const first = Math.round(Number(from.value) / record.dt) - record.start;
    const stop = Math.round(Number(to.value) / record.dt) - record.start + 1;
    return [Math.max(0, first), Math.min(record.samples, stop)];
  };
  const wanted = (act) => () => {
    if (from.value === "" || to.value === "") {
      app.fail(new Error("Choose a range first: switch to “Drag chooses” and drag over the chart, or type its ends."));
      return;
    }
    const [first, stop] = samples();
    act(first, stop);
  };
  tools.show = (first, stop) => {
    from.value = Number(((record.start + first) * record.dt).toPrecision(9));
    to.value = Number(((record.start + stop - 1) * record.dt).toPrecision(9));
  };
  const step = (op) => wanted((first, stop) => add(app, { op, record: k, first, stop }));
  const test = wanted((first, stop) => {
    const split = app.state.split;
    const ranges = split.ranges || [];
    app.act(api.put("split", { ranges: [...ranges, [k, first, stop]] }), "Held back for tests.");
  });
  tools.node = el("div", { class: "row card" },
    field("Range from [s]", from), field("to [s]", to),
    button("Keep only this", step("keep"), { id: "keep" }), button("Leave this out", step("drop"), { id: "drop" }),
    button("Hold back for tests", test, { id: "hold" }));
  return tools;
}

function testCard(app) {
  const split = app.state.split;
  const ranges = split.ranges || [];
  const share = el("input", {
    type: "range", min: 0, max: 60, step: 5, id: "share", value: ranges.length ? 0 : Math.round(100 * (split.fraction || 0)),
    oninput: () => { told.textContent = `${share.value} %`; },
    onchange: () => app.act(api.put("split", { fraction: Number(share.value) / 100 }), `${share.value} per cent are held back.`),
  });
  const told = el("output", { htmlFor: "share" }, ranges.length ? `${ranges.length} ranges` : `${share.value} %`);
  return el("section", { class: "card" }, el("h2", {}, "Test part"),
    el("p", { class: "soft" }, "Shaded in blue. No model learns from it; it shows what a model is worth."),
    field("Last part of each record", share), told,
    ranges.length > 0 && button("Forget the chosen ranges", () => app.act(api.put("split", { fraction: 0.25 }), "The end is held back.")));
}

function stepsCard(app, record) {
  const input = (id, value, hint) => el("input", { type: "number", step: "any", id, value: value ?? "", placeholder: hint || "" });
  const kind = select([["constant", "mean"], ["linear", "straight line"]], "constant", { id: "trend" });
  const low = input("low", null, "none"), high = input("high", null, "none"), order = input("order", 4);
  const dt = input("new-dt", Number(number(record.dt)));
  const channel = select(app.state.prepared.channels.map((c) => [c.name, c.name]), app.state.prepared.channels[0].name, { id: "channel" });
  const samples = input("samples", 1);
  const value = (node) => (node.value === "" ? null : Number(node.value));
  const group = (title, fields, act, id) => el("details", { class: "step-form" }, el("summary", {}, title),
    el("div", { class: "row" }, fields, button("Apply", act, { id })));
  return el("section", { class: "card" }, el("h2", {}, "Steps"),
    group("Remove mean or trend", [field("What", kind)], () => add(app, { op: "detrend", kind: kind.value }), "do-detrend"),
    group("Filter", [field("Above [Hz]", low), field("Below [Hz]", high), field("Order", order)],
      () => add(app, { op: "filter", low: value(low), high: value(high), order: value(order) }), "do-filter"),
    group("Resample", [field("New sampling time [s]", dt)], () => add(app, { op: "resample", dt: value(dt) }), "do-resample"),
    group("Shift a channel", [field("Channel", channel), field("Samples later", samples)],
      () => add(app, { op: "shift", channel: channel.value, samples: value(samples) }), "do-shift"));
}

function adviceCard(app) {
  const list = el("ul", { class: "verdicts" });
  const look = async () => {
    list.replaceChildren(el("li", {}, "Looking…"));
    try {
      const found = await api.get("advice");
      list.replaceChildren(...found.map((f) => el("li", { class: { ok: "good", note: "note", warning: "look" }[f.severity] },
        el("span", { class: "unseen" }, `${f.severity}: `), f.text, f.remedy && el("small", {}, ` → ${f.remedy}`))));
      if (!found.length) list.append(el("li", { class: "good" }, "Nothing to complain about."));
    } catch (error) {
      list.replaceChildren();
      app.fail(error);
    }
  };
  return el("section", { class: "card" }, el("h2", {}, "Advice"),
    el("p", { class: "soft" }, "Excitation, dead times, drift and outliers, before any fit."),
    button("Inspect the data", look, { id: "inspect" }), list);
}
