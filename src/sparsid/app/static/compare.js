// Fourth screen: models side by side over the test part.
import * as api from "./api.js";
import { el, button, duration, field, number, select, table, withUnit } from "./dom.js";
import { Chart, COLOURS, DASHES } from "./chart.js";
import { lagChart } from "./plots.js";

export function compareScreen(app) {
  const models = app.done();
  const ticked = app.kept.ticked ||= new Set(models.slice(-3).map((m) => m.id));
  for (const id of ticked) if (!models.some((m) => m.id === id)) ticked.delete(id);
  if (!ticked.size) ticked.add(models.at(-1).id);
  const place = el("div", {}, el("p", { class: "soft" }, "Models run over the test part…"));
  fill(app, models, ticked, place);
  return place;
}

async function fill(app, models, ticked, place) {
  const found = {};
  for (const model of models) {
    try { found[model.id] = await api.get(`models/${model.id}/evaluation`); } catch (error) { found[model.id] = { error: error.message }; }
  }
  if (!place.isConnected) return;
  const shown = models.filter((m) => ticked.has(m.id) && !found[m.id].error);
  const parts = [overview(app, models, found, ticked)];
  if (shown.length) parts.push(runs(app, shown, found), ...shown.map((m, k) => details(m, found[m.id], k)));
  place.replaceChildren(...parts);
}

function overview(app, models, found, ticked) {
  const first = Object.values(found).find((f) => !f.error);
  const several = first && first.outputs.length > 1;
  const head = ["", "model", "fit, simulation", "error", "fit, prediction", "error", "in the 90 % band", "weights", "time"];
  const rows = models.map((model) => {
    const box = el("input", {
      type: "checkbox", checked: ticked.has(model.id), id: `tick-${model.id}`, "aria-label": `show ${model.name}`,
      onchange: () => { if (box.checked) ticked.add(model.id); else ticked.delete(model.id); app.render(); },
    });
    const told = found[model.id];
    const name = el("span", {}, el("b", {}, model.name), el("br"), el("small", { class: "soft" }, model.described.replace(/,$/, "")));
    if (told.error) return [box, name, el("span", { class: "warn" }, told.error), "", "", "", "", "", duration(model.seconds)];
    const cell = (kind, score, text) => told.outputs.map((output, k) => el("div", {}, several && el("small", { class: "soft" }, `${output} `), text(told.scores[kind][score][k], told.units[k])));
    const fit = (v) => (v === null ? "diverged" : `${v.toFixed(1)} %`);
    const bands = told.bands.free_run;
    const inside = bands ? bands.coverage["0.9"].map((v) => `${(100 * v).toFixed(0)} %`).join(", ") : "–";
    return [box, name, cell("free_run", "fit_percent", fit), cell("free_run", "rmse", withUnit), cell("one_step", "fit_percent", fit),
      cell("one_step", "rmse", withUnit), inside, `${number(model.size)}`, duration(model.seconds)];
  });
  return el("section", { class: "wide" }, table(head, rows, { label: "models and their errors", class: "models" }),
    el("p", { class: "soft" }, first && first.held_out
      ? "All over the test part, which no model has learnt from. Simulation: the model runs on its own from the first samples. Prediction: one sample ahead of what was measured."
      : "Nothing is held back for tests: these are the records that models learnt from, and everything looks better than it is."));
}

function runs(app, shown, found) {
  const kept = app.kept.compare ||= { kind: "free_run", output: "0", record: "0" };
  const first = found[shown[0].id];
  if (Number(kept.output) >= first.outputs.length) kept.output = "0";
  if (Number(kept.record) >= first.records.length) kept.record = "0";
  const place = el("div");
  const choose = (key, options, label) => {
    if (options.length < 2) return null;
    const node = select(options, kept[key], { id: `compare-${key}`, onchange: () => { kept[key] = node.value; draw(); } });
    return field(label, node);
  };
  const kinds = [["free_run", "Simulation"], ["one_step", "Prediction, one step"]].map(([key, label]) => {
    const b = button(label, () => { kept.kind = key; for (const other of kinds) other.setAttribute("aria-pressed", String(other === b)); draw(); },
      { "aria-pressed": String(kept.kind === key), id: `kind-${key}` });
    return b;
  });
  let chart = null;
  const draw = () => {
    chart?.close();
    const record = first.records[Number(kept.record)], unit = first.units[Number(kept.output)];
    const label = `${first.outputs[Number(kept.output)]}${unit ? ` [${unit}]` : ""}`;
    const colour = (k) => COLOURS[k % COLOURS.length];
    const path = `models=${shown.map((m) => m.id).join(",")}&kind=${kept.kind}&output=${kept.output}&record=${kept.record}`;
    chart = new Chart({
      label: `measured and simulated ${label}`, length: record.samples, dt: record.dt, start: record.start,
      panels: [
        { label, height: 300, series: [
          { key: "measured", name: "measured", label: "measured", colour: "ink", kind: "line", width: 1.3 },
          ...shown.flatMap((m, k) => [
            { key: `${m.id} band`, label: shown.length === 1 ? "95 % band" : "", colour: colour(k), kind: "band" },
            { key: m.id, name: m.name, label: m.name, colour: colour(k), kind: "line", width: 1.8, dash: DASHES[k % DASHES.length] }])] },
        { label: "error", height: 110, zero: true, series: shown.map((m, k) => (
          { key: `${m.id} error`, name: `error of ${m.name}`, colour: colour(k), kind: "line", width: 1.1, dash: DASHES[k % DASHES.length] })) },
      ],
      load: (a, b, width, signal) => api.signals(`forecast?${path}&first=${a}&stop=${b}&width=${width}`, signal),
    });
    app.charts.push(chart);
    place.replaceChildren(chart.node);
  };
  draw();
  return el("section", { class: "wide" },
    el("div", { class: "row" }, el("span", { class: "switch", role: "group", "aria-label": "kind of forecast" }, kinds),
      choose("output", first.outputs.map((o, k) => [String(k), o]), "Output"),
      choose("record", first.records.map((r, k) => [String(k), `${k + 1}: ${r.name}`]), "Record")),
    place, el("p", { class: "soft" }, "Shaded: where a new measurement lies with 95 % probability."));
}

function details(model, told, k) {
  const ranges = told.ranges.map((r) => [
    el("h4", {}, `Where it is valid: ${r.output}`), el("p", {}, `${r.verdict}.`),
    table(["from", "to", "samples", "error", "bias"], r.rows.map((row) => [number(row.low), number(row.high), String(row.samples) + (row.inside ? "" : " (outside)"), number(row.rmse, 3), number(row.bias, 3)]),
      { label: `error by range of ${r.output}` })]);
  return el("details", { class: "card wide", open: k === 0 }, el("summary", {}, el("h2", { class: `mark c-${COLOURS[k % COLOURS.length]}` }, `What to know about ${model.name}`)),
    el("ul", { class: "verdicts" }, told.verdicts.map((v) => el("li", { class: v.good ? "good" : "look" },
      el("span", { class: "unseen" }, v.good ? "good: " : "look: "), `${v.text.charAt(0).toUpperCase()}${v.text.slice(1)}.`))),
    el("h3", {}, "What is left over"),
    el("div", { class: "small-charts" }, told.residuals.map((test) => lagChart(test))),
    ranges,
    told.equations && [el("h3", {}, "Equations"), el("pre", { tabIndex: 0 }, told.equations)],
    el("details", {}, el("summary", {}, "Summary"), el("pre", { tabIndex: 0 }, model.summary)));
}
