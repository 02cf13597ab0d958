// All jobs: sorted, grouped and filtered as the address says; those that are chosen have their curves in one chart.
import { html, useEffect, useMemo, useRef, useState } from "./html.js";
import { Acts } from "./acts.js";
import { Curves } from "./curves.js";
import { Category, Legend, order } from "./parts.js";
import { category, jobLink, limit, span, text } from "./words.js";

const PAGE = 100, BEAT_MS = 500, MOST = 8;
const RANK = { running: 0, stopped: 1, suspended: 2, waiting: 3 };
const EVERY = ["suspend", "resume", "move", "hold", "release", "priority", "cancel", "retry"];
const GROUPS = { none: () => "", array: (job) => job.array, queue: (job) => job.queue, user: (job) => job.user, model: (job) => job.model };
const PHASES = { all: () => true, open: (job) => !job.outcome, running: (job) => job.phase === "running", waiting: (job) => !job.outcome && job.phase !== "running", over: (job) => job.outcome, failed: (job) => job.outcome === "failed" };

/** The highest rung that a trial has reached; -1: none. */
const rungOf = (job) => Math.max(-1, ...Object.keys(job.rungs).map(Number));

/** A number by which trials are sorted: the higher the rung the smaller it is, and at one rung the better the value. */
function standing(job) {
  const rung = rungOf(job), value = job.rungs[rung];
  return rung < 0 ? null : (value === null ? 0.5 : Math.atan(job.rises ? -value : value) / Math.PI) - rung;
}

const EVERY_COLUMN = [
  { name: "job", value: (job) => job.job, cell: (job) => html`<a href=${jobLink(job.job)}>${text(job.job, 63)}</a>` },
  { name: "user", value: (job) => job.user },
  { name: "phase", value: (job) => job.outcome ?? job.phase, cell: (job) => `${job.outcome ?? job.phase}${job.held && !job.outcome ? ", held" : ""}` },
  { name: "node", value: (job) => job.nodes.join(", ") },
  { name: "category", value: (job) => category(job), cell: (job) => html`<${Category} job=${job} />` },
  { name: "growth", numeric: true, value: (job) => job.growth, cell: (job) => (job.growth === null ? "" : `${(100 * job.growth).toFixed(2)} %`) },
  { name: "steps", numeric: true, value: (job) => job.step, cell: (job) => html`${job.steps}${job.step !== null && job.steps_total && !job.outcome ? html` <progress aria-label="progress" max=${job.steps_total} value=${job.step} />` : ""}` },
  { name: "left", numeric: true, value: (job) => job.remaining_ms?.p50 ?? null, cell: (job) => (job.remaining_ms ? span(job.remaining_ms.p50) : "") },
  { name: "loss", numeric: true, value: (job) => job.loss, cell: (job) => (job.loss === null ? "" : String(Number(job.loss.toPrecision(4)))) },
  { name: "rung", numeric: true, value: standing, cell: (job) => { const rung = rungOf(job), value = job.rungs[rung]; return rung < 0 ? "" : `${rung}: ${value === null ? "not finite" : Number(value.toPrecision(4))}`; } },
  { name: "limit", value: (job) => limit(job) },
  { name: "moves", numeric: true, value: (job) => job.moves || null },
  { name: "queue", value: (job) => job.queue },
  { name: "what", value: (job) => text(job.what, 60) },
  { name: "reason", value: (job) => text(job.waits_because || job.reason, 160) },
];

/** The columns of these jobs: the user where there are several, the rung where there are trials. */
function columnsOf(jobs) {
  const shown = { user: new Set(jobs.map((job) => job.user)).size > 1, rung: jobs.some((job) => rungOf(job) >= 0) };
  return EVERY_COLUMN.filter((one) => shown[one.name] ?? true);
}

/** The parameters behind the `?` of the address, and how to change them. */
export function useAddress() {
  const read = () => new URLSearchParams(location.hash.split("?")[1] ?? "");
  const [given, setGiven] = useState(read);
  useEffect(() => {
    const changed = () => setGiven(read());
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return [given, (changes) => {
    const after = read();
    for (const [key, value] of Object.entries(changes)) if (value) after.set(key, value); else after.delete(key);
    const query = after.toString();
    history.replaceState(null, "", `${location.hash.split("?")[0]}${query ? `?${query}` : ""}`);
    setGiven(after);
  }];
}

/** A number that grows after changes of a value, but no more often than that: thousands of rows are not sorted for each record. */
function useBeat(value) {
  const [beat, setBeat] = useState(0), known = useRef({ last: 0, timer: null });
  useEffect(() => {
    const memory = known.current;
    clearTimeout(memory.timer);
    memory.timer = setTimeout(() => { memory.last = performance.now(); setBeat((before) => before + 1); }, Math.max(0, memory.last + BEAT_MS - performance.now()));
    return () => clearTimeout(memory.timer);
  }, [value]);
  return beat;
}

export function Jobs({ state, pool, token, scheme, acting }) {
  const [given, give] = useAddress();
  const [page, setPage] = useState(0);
  const beat = useBeat(state.offset), wanted = (given.get("q") ?? "").trim().toLowerCase(), phase = given.get("phase") ?? "all", group = given.get("group") ?? "none", sort = given.get("sort") ?? "";
  const chosen = (given.get("jobs") ?? "").split(",").filter(Boolean);
  const rows = useMemo(() => {
    const groupOf = GROUPS[group] ?? GROUPS.none, down = sort.startsWith("-"), column = EVERY_COLUMN.find((one) => one.name === sort.replace("-", ""));
    const found = [...state.jobs.values()].filter((job) => (PHASES[phase] ?? PHASES.all)(job) && (!wanted || says(job).includes(wanted)));
    const by = column ? (a, b) => order(column.value(a), column.value(b), down) : (a, b) => (RANK[a.phase] ?? 4) - (RANK[b.phase] ?? 4) || order(a.job, b.job);
    return found.sort((a, b) => order(groupOf(a), groupOf(b)) || by(a, b)).map((job) => ({ job, group: groupOf(job) }));
  }, [beat, wanted, phase, group, sort, state.pool]);
  const columns = useMemo(() => columnsOf([...state.jobs.values()]), [beat, state.pool]);
  const counts = useMemo(() => { const found = new Map(); for (const row of rows) found.set(row.group, (found.get(row.group) ?? 0) + 1); return found; }, [rows]);
  const pages = Math.max(1, Math.ceil(rows.length / PAGE)), at = Math.min(page, pages - 1), shown = rows.slice(at * PAGE, (at + 1) * PAGE);
  const choose = (name) => give({ jobs: (chosen.includes(name) ? chosen.filter((one) => one !== name) : [...chosen, name]).join(",") });
  const select = (key, names, label) => html`<label class="filter">${label} <select value=${given.get(key) ?? names[0]} onChange=${(event) => { setPage(0); give({ [key]: event.target.value === names[0] ? "" : event.target.value }); }}>${names.map((name) => html`<option>${name}</option>`)}</select></label>`;
  return html`<section aria-labelledby="jobs"><h2 id="jobs">Jobs</h2>
    <label class="filter">Filter <input type="search" id="filter" value=${given.get("q") ?? ""} placeholder="name, node, phase, category" onInput=${(event) => { setPage(0); give({ q: event.target.value }); }} /></label>
    ${select("phase", Object.keys(PHASES), "show")}${select("group", Object.keys(GROUPS), "group by")}
    <p class="small" role="status">${rows.length} of ${state.totals?.jobs ?? state.jobs.size} jobs${chosen.length ? `, ${chosen.length} chosen` : ""}</p>
    ${chosen.length ? html`<div class="chosenjobs">${acting ? html`<${Acts} key=${chosen.join()} kinds=${EVERY} target=${{ jobs: chosen }} ...${acting} />` : ""}
      <button type="button" class="plain" onClick=${() => give({ jobs: "" })}>choose none</button>
      <${Curves} names=${chosen.slice(0, MOST)} beat=${beat} rows=${state.jobs} pool=${pool} token=${token} scheme=${scheme} given=${given} give=${give} />
      ${chosen.length > MOST ? html`<p class="small">The curves of the first ${MOST}.</p>` : ""}</div>` : ""}
    <div class="scroll" tabindex="0" role="region" aria-label="Table: Jobs"><table class="jobs">
      <thead><tr><th scope="col"><span class="hidden">chosen</span></th>${columns.map((one) => html`<th scope="col" class=${one.numeric ? "number" : ""} aria-sort=${sort === one.name ? "ascending" : sort === `-${one.name}` ? "descending" : "none"}>
        <button type="button" onClick=${() => give({ sort: sort === one.name ? `-${one.name}` : sort === `-${one.name}` ? "" : one.name })}>${one.name}</button></th>`)}</tr></thead>
      <tbody>${shown.map(({ job, group: mine }, place) => html`${group !== "none" && (place === 0 || shown[place - 1].group !== mine) ? html`<tr class="group" key=${`group ${mine}`}><th scope="colgroup" colspan=${columns.length + 1}>${group} <b>${text(mine, 63) || "none"}</b> <small>${counts.get(mine)}</small></th></tr>` : ""}
        <tr key=${job.job} class=${chosen.includes(job.job) ? "chosen" : ""}><td><input type="checkbox" aria-label="choose ${text(job.job, 63)}" checked=${chosen.includes(job.job)} onChange=${() => choose(job.job)} /></td>
          ${columns.map((one, k) => html`<${k ? "td" : "th"} ...${k ? {} : { scope: "row" }} class="${one.numeric ? "number" : ""} of-${one.name}">${(one.cell ?? one.value)(job)}</>`)}</tr>`)}</tbody></table></div>
    ${pages > 1 ? html`<nav class="pages" aria-label="Pages of Jobs"><button type="button" disabled=${at === 0} onClick=${() => setPage(at - 1)}>Previous</button> <span>${at + 1} of ${pages} (${rows.length} rows)</span> <button type="button" disabled=${at >= pages - 1} onClick=${() => setPage(at + 1)}>Next</button></nav>` : ""}
    <${Legend} /></section>`;
}

function says(job) {
  return `${job.job} ${job.nodes.join(" ")} ${job.outcome ?? job.phase} ${job.category} ${job.what} ${job.queue} ${job.array} ${job.user}`.toLowerCase();
}
