// The views of the whole pool: cluster, jobs, queue, decisions, dead letters.
import { html, useEffect, useState } from "./html.js";
import { Decisions, JobChip, Legend, Table, jobColumns } from "./parts.js";
import { ask } from "./stream.js";
import { jobLink, span, text } from "./words.js";

const CHIPS = 60;
const NODES = 200;

export function Cluster({ state }) {
  const nodes = [...state.nodes.values()];
  const newest = state.decisions.filter((one) => one.type !== "ReallocationRequested").slice(-25).reverse();
  return html`<div class="columns">
    <section aria-labelledby="nodes">
      <h2 id="nodes">Nodes</h2>
      ${nodes.length ? "" : html`<p class="empty">No node has joined yet.</p>`}
      <div class="nodes">${nodes.slice(0, NODES).map((node) => html`<${NodeCard} key=${node.node} node=${node} jobs=${state.jobs} />`)}</div>
      ${nodes.length > NODES ? html`<p>${nodes.length - NODES} more nodes are in <code>/api/v1/nodes</code>.</p>` : ""}
      <${Legend} />
    </section>
    <section aria-labelledby="newest"><h2 id="newest">Newest decisions</h2><${Decisions} entries=${newest} /></section>
  </div>`;
}

function NodeCard({ node, jobs }) {
  const shown = node.jobs.slice(0, CHIPS);
  const capacity = node.capacity.cpu_m || 1;
  const status = node.lost ? "lost" : node.takes_jobs ? "ready" : "reports only";
  return html`<article class="node ${node.lost ? "lost" : ""}">
    <header><h3>${text(node.node, 63)}</h3><span class="status">${status}</span></header>
    <${Meter} label="reserved" value=${node.reserved.cpu_m} of=${capacity} />
    <${Meter} label="used" value=${node.used.cpu_m} of=${capacity} />
    ${node.gpus.total ? html`<p class="small">GPUs: ${node.gpus.reserved} of ${node.gpus.total} reserved</p>` : ""}
    <p class="small">score ${node.score} · ${node.replicas.PC} P, ${node.replicas.WC} W, ${node.replicas.CC} C${node.replicas.unknown ? `, ${node.replicas.unknown} ?` : ""}</p>
    <ul class="chips">${shown.map((name) => {
      const job = jobs.get(name);
      return html`<li key=${name}><${JobChip} name=${name} job=${job} arriving=${job && !job.nodes.includes(node.node)} /></li>`;
    })}</ul>
    ${node.jobs.length > CHIPS ? html`<p class="small">and ${node.jobs.length - CHIPS} more</p>` : ""}
  </article>`;
}

function Meter({ label, value, of }) {
  return html`<div class="meter"><span>${label}</span>
    <progress aria-label="CPU ${label}" value=${Math.min(value, of)} max=${of}></progress><span>${value}m / ${of}m</span></div>`;
}

export function Jobs({ state, filter, setFilter }) {
  const wanted = filter.trim().toLowerCase();
  const rows = [...state.jobs.values()].filter((job) => !wanted || says(job).includes(wanted));
  return html`<section aria-labelledby="jobs"><h2 id="jobs">Jobs</h2>
    <label class="filter">Filter <input type="search" id="filter" value=${filter} placeholder="name, node, phase, category"
      onInput=${(event) => setFilter(event.target.value)} /></label>
    <p class="small" role="status">${rows.length} of ${state.totals?.jobs ?? state.jobs.size} jobs</p>
    <${Table} label="Jobs" columns=${jobColumns()} rows=${rows} keyOf=${(job) => job.job} />
    <${Legend} /></section>`;
}

function says(job) {
  return `${job.job} ${job.nodes.join(" ")} ${job.outcome ?? job.phase} ${job.category} ${job.what}`.toLowerCase();
}

export function Queue({ state }) {
  const columns = [
    { name: "position", numeric: true, value: (row) => row.position },
    { name: "job", value: (row) => row.job, cell: (row) => html`<a href=${jobLink(row.job)}>${text(row.job, 63)}</a>` },
    { name: "queue", value: (row) => text(row.queue, 63) },
    { name: "priority", numeric: true, value: (row) => row.priority },
    { name: "waits for", value: (row) => row.waits_for },
    { name: "may start in", numeric: true, value: (row) => row.start_ms, cell: (row) => span(row.start_ms) },
    { name: "why", value: (row) => text(row.reason, 200) },
  ];
  return html`<section aria-labelledby="queue"><h2 id="queue">Queue</h2>
    ${state.queue.length
      ? html`<${Table} label="Queue" columns=${columns} rows=${state.queue} keyOf=${(row) => row.job} />`
      : html`<p class="empty">No job waits.</p>`}</section>`;
}

export function AllDecisions({ state }) {
  const [word, setWord] = useState("");
  const wanted = word.trim().toLowerCase();
  const entries = state.decisions.filter((one) => !wanted || `${one.sentence} ${one.type} ${one.void ?? ""}`.toLowerCase().includes(wanted));
  return html`<section aria-labelledby="decisions"><h2 id="decisions">Decisions</h2>
    <label class="filter">Filter <input type="search" id="filter" value=${word} placeholder="job, node, kind" onInput=${(event) => setWord(event.target.value)} /></label>
    <${Decisions} entries=${entries.slice(-300).reverse()} /></section>`;
}

export function Letters({ state, pool, token }) {
  const [letters, setLetters] = useState(null);
  const [wrong, setWrong] = useState("");
  const count = state.totals?.dead_letters ?? 0;
  useEffect(() => {
    ask(`api/v1/dead-letters?pool=${encodeURIComponent(pool)}`, token).then((found) => setLetters(found.letters), (error) => setWrong(error.message));
  }, [pool, token, count]);
  const columns = [
    { name: "record", value: (row) => text(row.record, 120) },
    { name: "key", value: (row) => text(row.key, 63) },
    { name: "bytes", numeric: true, value: (row) => row.bytes },
    { name: "why it could not be read", value: (row) => text(row.reason, 300) },
  ];
  return html`<section aria-labelledby="letters"><h2 id="letters">Dead letters</h2>
    ${wrong ? html`<p role="alert">${text(wrong)}</p>` : ""}
    ${letters?.length
      ? html`<${Table} label="Dead letters" columns=${columns} rows=${letters} keyOf=${(row) => row.record} />`
      : html`<p class="empty">${letters ? "Every record could be read." : "Loading …"}</p>`}</section>`;
}
