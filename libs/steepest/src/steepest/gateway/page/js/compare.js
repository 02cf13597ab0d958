// Two pools, or two recordings: both timelines one above the other, the sum of the losses, and when each job was complete.
import { html, useEffect, useMemo, useRef, useState } from "./html.js";
import { Chart } from "./chart.js";
import { prepared } from "./lanes.js";
import { Table } from "./parts.js";
import { ask } from "./stream.js";
import { Timeline } from "./timeline.js";
import { span, text } from "./words.js";

export function Compare({ pools, token, scheme, offset, narrow }) {
  const [pair, setPair] = useState([pools[0]?.pool ?? "", pools[1]?.pool ?? pools[0]?.pool ?? ""]);
  const [found, setFound] = useState(null);
  const [wrong, setWrong] = useState("");
  const rhythm = Math.floor(offset / 200);
  useEffect(() => {
    if (pools.length < 2) return;
    const query = `pool=${encodeURIComponent(pair[0])}&other=${encodeURIComponent(pair[1])}`;
    ask(`api/v1/compare?${query}`, token).then(setFound, (error) => setWrong(error.message));
  }, [pair, token, rhythm]);
  const chart = useMemo(() => (found ? drawn(found) : null), [found]);
  const columns = [
    { name: "job", value: (row) => row.job },
    { name: "first", numeric: true, value: (row) => row.first_ms, cell: (row) => span(row.first_ms) },
    { name: "second", numeric: true, value: (row) => row.second_ms, cell: (row) => span(row.second_ms) },
    { name: "second – first", numeric: true, value: (row) => difference(row), cell: (row) => signed(difference(row)) },
  ];
  if (pools.length < 2) return html`<section aria-labelledby="compare"><h2 id="compare">Compare</h2><p class="empty">There is one pool. Two recordings are compared by${" "}<code>steepest replay RECORDING --view --against OTHER</code>.</p></section>`;
  return html`<section aria-labelledby="compare"><h2 id="compare">Compare</h2>
    ${[0, 1].map((place) => html`<label class="filter">${place ? "second" : "first"} <select value=${pair[place]}
      onChange=${(event) => setPair(place ? [pair[0], event.target.value] : [event.target.value, pair[1]])}>
      ${pools.map((pool) => html`<option value=${pool.pool}>${text(pool.title, 80)}</option>`)}</select></label>`)}
    ${wrong ? html`<p role="alert">${text(wrong)}</p>` : ""}
    <${Both} key=${pair.join()} pair=${pair} token=${token} scheme=${scheme} narrow=${narrow} rhythm=${rhythm} />
    ${found ? html`<${Runs} found=${found} />
      <h3>Sum of the losses, each as a share of the job's first</h3>
      <${Chart} label="Sum of the losses of both runs over the time since their begin" data=${chart.data} series=${chart.series} time=${false} scheme=${scheme} />
      <h3>Completion times</h3>
      <${Table} label="Completion times" columns=${columns} rows=${found.jobs} keyOf=${(row) => row.job} />` : ""}</section>`;
}

/** Both timelines on one scale, each from its own begin; a window that is moved in one is moved in the other. */
function Both({ pair, token, scheme, narrow, rhythm }) {
  const [views, setViews] = useState([]);
  const [selected, setSelected] = useState(null);
  const apis = useRef([]);
  useEffect(() => {
    let left = false;
    Promise.all(pair.map((pool) => ask(`api/v1/timeline?${new URLSearchParams({ pool, from: "0", width: "3000" })}`, token))).then((found) => !left && setViews(found), () => {});
    return () => { left = true; };
  }, [token, rhythm]);
  const models = useMemo(() => {
    const found = views.map((view) => prepared(view)), longest = Math.max(...found.map((model) => model.until - model.begin));
    return found.map((model) => ({ ...model, start: model.begin, until: model.begin + longest }));
  }, [views]);
  const told = (place) => (range) => { if (range) apis.current[1 - place]?.show(...range.map((at) => at - models[place].begin + models[1 - place].begin)); };
  return html`${models.map((model, place) => html`<h3>${place ? "Second" : "First"}: ${text(pair[place], 63)}</h3>
    <${Timeline} model=${model} colour="category" selected=${selected} select=${setSelected} past=${true} follow=${false} onWindow=${told(place)} onReady=${(api) => { apis.current[place] = api; }} scheme=${scheme} narrow=${narrow} />`)}`;
}

function Runs({ found }) {
  const rows = [["jobs", (run) => run.jobs], ["over", (run) => run.ended], ["moves", (run) => run.moves],
    ["mean completion time", (run) => span(run.mean_ms)], ["makespan", (run) => span(run.makespan_ms)]];
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Both runs"><table>
    <thead><tr><th scope="col">of the run</th><th scope="col" class="number">first</th><th scope="col" class="number">second</th></tr></thead>
    <tbody>${rows.map(([name, of]) => html`<tr><th scope="row">${name}</th><td class="number">${of(found.first)}</td><td class="number">${of(found.second)}</td></tr>`)}</tbody></table></div>`;
}

function difference(row) {
  return row.first_ms === null || row.second_ms === null ? null : row.second_ms - row.first_ms;
}

function signed(ms) {
  return ms === null ? "" : `${ms < 0 ? "−" : "+"}${span(Math.abs(ms))}`;
}

function drawn(found) {
  const [first, second] = [found.first.summed_loss, found.second.summed_loss];
  const times = [...new Set([...first, ...second].map(([ms]) => ms / 1000))].sort((a, b) => a - b);
  const of = (points) => {
    const values = new Map(points.map(([ms, sum]) => [ms / 1000, sum]));
    return times.map((at) => values.get(at) ?? undefined);
  };
  return {
    data: [times, of(first), of(second)],
    series: [{ label: "first", colour: "--CC" }, { label: "second", colour: "--planned", dash: [6, 4] }],
  };
}
