// The losses of several jobs in one chart, over steps, time or core-seconds; and in which parameters the jobs differ.
import { html, useEffect, useMemo, useState } from "./html.js";
import { Chart } from "./chart.js";
import { ask } from "./stream.js";
import { jobLink, number, text } from "./words.js";

const AXES = { step: ([, , step]) => (step < 0 ? null : step), time: ([ms], [begin]) => (ms - begin) / 1000, "core-seconds": ([, , , cpu]) => (cpu < 0 ? null : cpu / 1000) };
const SMOOTH = { none: 0, some: 0.6, much: 0.9 };
const WORDS = 40;

export function Curves({ names, beat, rows, pool, token, scheme, given, give }) {
  const [curves, setCurves] = useState([]), [commands, setCommands] = useState(new Map()), key = names.join();
  const known = curves.some((curve) => curve.points.some(([, , step]) => step >= 0)), over = given.get("x") ?? (known ? "step" : "time"), log = given.get("y") === "log", smooth = given.get("smooth") ?? "none";
  const rhythm = Math.floor(beat / 10);
  const of = (name, what) => ask(`api/v1/jobs/${encodeURIComponent(name)}${what}?pool=${encodeURIComponent(pool)}`, token).catch(() => null);
  useEffect(() => {
    let left = false;
    Promise.all(names.map((name) => of(name, "/curve"))).then((found) => !left && setCurves(found.filter(Boolean)));
    return () => { left = true; };
  }, [key, pool, token, rhythm]);
  useEffect(() => {
    let left = false;
    Promise.all(names.map((name) => of(name, ""))).then((found) => !left && setCommands(new Map(found.filter(Boolean).map((row) => [row.job, parameters(row.command)]))));
    return () => { left = true; };
  }, [key, pool, token]);
  const chart = useMemo(() => drawn(curves, AXES[over] ?? AXES.step, SMOOTH[smooth] ?? 0, log), [curves, over, smooth, log]);
  const differ = [...new Set([...commands.values()].flatMap((one) => [...one.keys()]))].filter((word) => new Set(names.map((name) => commands.get(name)?.get(word))).size > 1).slice(0, WORDS);
  const select = (param, options, label, value) => html`<label><small>${label}</small> <select value=${value} onChange=${(event) => give({ [param]: event.target.value })}>${options.map((one) => html`<option>${one}</option>`)}</select></label> `;
  return html`<section aria-labelledby="curves"><header class="bar"><h3 id="curves">Loss</h3>${select("x", Object.keys(AXES), "over", over)}${select("y", ["linear", "log"], "scale", log ? "log" : "linear")}${select("smooth", Object.keys(SMOOTH), "smoothed", smooth)}</header>
    <${Chart} label="Losses of ${names.map((name) => text(name, 30)).join(", ")} over ${over}" data=${chart.data} series=${chart.series} time=${false} log=${log} scheme=${scheme} />
    <div class="scroll" tabindex="0" role="region" aria-label="Parameters of the chosen jobs"><table><thead><tr><th scope="col">job</th><th scope="col" class="number">loss</th><th scope="col">model</th>${differ.map((word) => html`<th scope="col">${text(word, 40)}</th>`)}</tr></thead>
      <tbody>${names.map((name, k) => html`<tr key=${name}><th scope="row"><i class="sw" style=${{ background: `var(--hue${k})` }}></i><a href=${jobLink(name)}>${text(name, 63)}</a></th><td class="number">${number(rows.get(name)?.loss)}</td><td>${text(rows.get(name)?.model, 40)}</td>${differ.map((word) => html`<td>${text(commands.get(name)?.get(word) ?? "", 60)}</td>`)}</tr>`)}</tbody></table></div></section>`;
}

/** The options of a command by their names: `--lr 0.1`, `--lr=0.1`, `lr=0.1`. */
function parameters(command) {
  const found = new Map();
  command.forEach((word, k) => {
    const [, name, value] = word.match(/^-{0,2}([A-Za-z][\w.-]*)=(.*)$/) ?? [];
    if (name) found.set(name, value);
    else if (word.startsWith("-")) { const next = command[k + 1]; found.set(word.replace(/^-+/, ""), next === undefined || /^-\D/.test(next) ? "yes" : next); }
  });
  return found;
}

function drawn(curves, along, smooth, log) {
  const tables = [], series = [];
  curves.forEach((curve, k) => {
    const at = new Map();
    let mean = null;
    for (const point of curve.points) {
      const x = along(point, curve.points[0]);
      mean = mean === null ? point[1] : smooth * mean + (1 - smooth) * point[1];
      if (x !== null && (!log || mean > 0)) at.set(x, mean); // a step that was done twice counts once
    }
    const xs = [...at.keys()].sort((a, b) => a - b);
    if (!xs.length) return;
    tables.push([xs, xs.map((x) => at.get(x))]);
    series.push({ label: text(curve.job, 40), colour: `--hue${k}`, spans: true });
  });
  return { data: tables.length ? window.uPlot.join(tables) : [[]], series };
}
