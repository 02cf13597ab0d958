// The nodes: what each has, holds and uses, and whether it takes jobs.
import { html } from "./html.js";
import { Acts } from "./acts.js";
import { Table } from "./parts.js";
import { jobLink, text, whole } from "./words.js";

const JOBS_SHOWN = 6;

export function Nodes({ state, acting }) {
  const columns = [
    { name: "node", value: (row) => row.node },
    { name: "state", value: (row) => (row.lost ? "lost" : row.drained ? `drained${row.slow ? `: ${row.slow}` : ""}` : row.takes_jobs ? "takes jobs" : "takes no jobs") },
    { name: "capacity", value: (row) => row.capacity.cpu_m, cell: (row) => text(row.capacity.text, 60) },
    { name: "reserved", numeric: true, value: (row) => share(row, "reserved"), cell: (row) => whole(share(row, "reserved")) },
    { name: "used", numeric: true, value: (row) => share(row, "used"), cell: (row) => whole(share(row, "used")) },
    { name: "GPUs", numeric: true, value: (row) => row.gpus.reserved, cell: (row) => (row.gpus.total ? `${row.gpus.reserved} of ${row.gpus.total}` : "") },
    { name: "jobs", value: (row) => row.jobs.length, cell: (row) => html`${row.jobs.slice(0, JOBS_SHOWN).map((job, place) => html`${place ? ", " : ""}<a href=${jobLink(job)}>${text(job, 63)}</a>`)}${row.jobs.length > JOBS_SHOWN ? ` and ${row.jobs.length - JOBS_SHOWN} more` : ""}` },
    ...(acting ? [{ name: "act", value: (row) => row.drained, cell: (row) => html`<${Acts} kinds=${[row.drained ? "undrain" : "drain", "move"]} target=${{ node: row.node }} ...${acting} />` }] : []),
  ];
  return html`<section aria-labelledby="nodes"><h2 id="nodes">Nodes</h2>
    ${state.nodes.size ? html`<${Table} label="Nodes" columns=${columns} rows=${[...state.nodes.values()]} keyOf=${(row) => row.node} />` : html`<p class="empty">No node has joined yet.</p>`}</section>`;
}

const share = (row, what) => (row.capacity.cpu_m ? row[what].cpu_m / row.capacity.cpu_m : 0);
