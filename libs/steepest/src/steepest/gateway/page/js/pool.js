// The first view: six answers in words, the timeline, and under it what runs and what waits, with the reasons.
import { html, useEffect, useMemo, useRef, useState } from "./html.js";
import { answers, OPEN, prepared, SORTS } from "./lanes.js";
import { Badge } from "./parts.js";
import { ask } from "./stream.js";
import { Timeline } from "./timeline.js";
import { clock, CODES, ENDS, interval, jobLink, number, span, text, whole } from "./words.js";

const SILENT_MS = 30_000, BEHIND = 2_000;
const SOONEST_MS = 500, RATIO = 8, SETTLED_MS = 150, SHOWN = 10, SHOWN_MOST = 300, REASONS = 6, OF_EACH = 8, PAGE = 50;

/**
 * The timeline of a pool, asked for again as its log goes on: the longer an answer takes to get and to draw, the less often.
 * @param range the times in seconds that are in view; null: those that suit the pool
 */
function useTimeline(pool, at, live, token, range) {
  const [found, setFound] = useState({ view: null, wrong: "" });
  const known = useRef({ live, last: 0, cost: 0, now: 0, wake: null });
  useEffect(() => {
    const memory = known.current;
    let left = false, timer = null, seen = -1;
    const due = (ms) => { timer = setTimeout(load, ms); };
    const load = async () => {
      const began = performance.now();
      seen = memory.live;
      try {
        const answer = await ask(`api/v1/timeline?${query(pool, at, range, memory.now)}`, token);
        if (left) return;
        if (at === null) memory.now = (answer.begin_ms + answer.now * answer.unit_ms) / 1000;
        setFound({ view: answer, wrong: "" });
      } catch (error) {
        if (!left) setFound((before) => ({ ...before, wrong: error.message }));
      }
      setTimeout(() => { // once it is drawn
        Object.assign(memory, { last: performance.now(), cost: performance.now() - began });
        timer = null;
        memory.wake?.();
      }, 0);
    };
    memory.wake = () => {
      if (!left && timer === null && at === null && seen !== memory.live) due(Math.max(0, memory.last + Math.max(SOONEST_MS, RATIO * memory.cost) - performance.now()));
    };
    due(memory.last ? SETTLED_MS : 0);
    return () => {
      left = true;
      clearTimeout(timer);
    };
  }, [pool, at, token, range]);
  useEffect(() => {
    known.current.live = live;
    known.current.wake?.();
  }, [live]);
  return found;
}

/** What is asked: from half a window before the window on, with as many pixels as all of that would have. */
function query(pool, at, range, now) {
  const asked = new URLSearchParams({ pool });
  let width = innerWidth * devicePixelRatio;
  if (range) {
    const [low, high] = range, from = low - (high - low) / 2;
    asked.set("from", String(Math.max(0, Math.round(1000 * from))));
    width *= Math.max(1, (now - from) / (high - low));
  }
  asked.set("width", String(Math.round(Math.min(10_000, Math.max(100, width)))));
  if (at !== null) asked.set("at", String(at));
  return asked;
}

export function Pool({ state, pool, token, at, live, scheme, narrow, onRange, ...system }) {
  const [range, setRange] = useState(null);
  const [selected, setSelected] = useState(null);
  const [colour, setColour] = useState("category");
  const [api, setApi] = useState(null);
  useEffect(() => onRange(range), [range]);
  const { view, wrong } = useTimeline(pool, at, live, token, range);
  const [byGpu, setByGpu] = useState(false);
  const byCpu = useMemo(() => (view ? prepared(view) : null), [view]), model = useMemo(() => (byGpu && view ? prepared(view, true) : byCpu), [byCpu, byGpu]);
  const found = useMemo(() => (byCpu ? answers(byCpu, state.jobs) : null), [byCpu, state]);
  if (!model) return wrong ? html`<p role="alert">${text(wrong)}</p>` : html`<p role="status">Loading the timeline …</p>`;
  const policy = system.strip?.periods.at(-1)?.policy;
  const select = (name) => setSelected((before) => (name === before ? null : name));
  const ready = (given) => {
    setApi(given);
    requestAnimationFrame(() => { // for those who watch the page from outside
      performance.mark("drawn");
      document.documentElement.dataset.drawn = "1";
    });
  };
  if (!state.jobs.size && !model.view.jobs.length) return html`<${Empty} model=${model} past=${at !== null} />`;
  const rows = html`<div class=${found.waiting.length && found.running.length ? "columns" : ""}>
    <${found.running.length || found.waiting.length ? Running : Over} found=${found} model=${model} rows=${state.jobs} selected=${selected} select=${select} /><${Waiting} found=${found} queue=${state.queue} selected=${selected} /></div>`;
  return html`<${Answers} found=${found} model=${model} select=${select} state=${state} at=${at} narrow=${narrow} ...${system} />
    ${wrong ? html`<p role="alert">${text(wrong)}</p>` : ""}
    ${narrow ? rows : ""}
    <section aria-labelledby="timeline"><header class="bar"><h2 id="timeline">Timeline</h2><${Signs} colour=${colour} dense=${model.lanes.length > 24} />
      <span class="tools">${model.view.nodes.some((node) => node.gpus) ? html`<label><small>height</small> <select value=${byGpu ? "gpus" : "cpu"} onChange=${(event) => setByGpu(event.target.value === "gpus")}><option value="cpu">CPU in use</option><option value="gpus">GPUs held</option></select></label>` : ""}<label><small>colour</small> <select value=${colour} onChange=${(event) => setColour(event.target.value)}><option value="category">category</option><option value="what">model</option><option value="queue">queue</option><option value="user">user</option></select></label>
        <button type="button" aria-label="Zoom out" onClick=${() => api?.zoom(1.5)}>−</button> <button type="button" aria-label="Zoom in" onClick=${() => api?.zoom(0.66)}>+</button>
        <button type="button" onClick=${() => { setRange(null); api?.home(); }}>Now</button> <button type="button" onClick=${() => api?.all()}>All</button></span></header>
      ${model.view.nodes.length ? html`<${Timeline} model=${model} colour=${colour} selected=${selected} select=${setSelected} past=${at !== null} follow=${range === null}
        onWindow=${setRange} onReady=${ready} scheme=${scheme} narrow=${narrow} />` : html`<p class="empty">No node has joined yet.</p>`}
      ${colour === "category" && policy && !/specon|flowcon|steepest/.test(policy) ? html`<p class="small">The policy ${text(policy, 40)} does not look at categories: the colours say how jobs learn, not what is decided.</p>` : ""}
      <${Chosen} model=${model} selected=${selected} clear=${() => setSelected(null)} narrow=${narrow} />
    </section>
    ${narrow ? "" : rows}
    <${Runs} model=${model} />`;
}

/** What a pool without jobs says. */
function Empty({ model, past }) {
  const nodes = model.view.nodes.length;
  return html`<section aria-labelledby="empty"><h2 id="empty">${past ? "No job had been submitted by then" : "No job has been submitted yet"}</h2>
    <p>${nodes ? `${nodes} ${nodes === 1 ? "node is" : "nodes are"} ready.` : "No node has joined yet."} Submit a training program with its own arguments:</p>
    <pre><code>steepest submit -- python train.py --epochs 10</code></pre>
    <p class="small">It appears here within a second. A job is followed from its submission on: one that runs elsewhere already, in Slurm or in a terminal, cannot be taken over; submit it here instead.</p></section>`;
}

function Answers({ found, model, select, ...system }) {
  const { view } = model, link = (name) => html`<button type="button" class="plain" onClick=${() => select(name)}>${text(name, 40)}</button>`;
  const [next, after] = found.running.filter((job) => job.left), move = found.moved.at(-1);
  const bad = found.failed.filter(found.lately), longest = [...found.waiting].sort((a, b) => b.since - a.since)[0];
  const more = (list) => (list.length > 1 ? ` and ${list.length - 1} more` : "");
  const trouble = bad.length ? [`${bad.length} failed`, html`${link(view.jobs[bad.at(-1).job].job)}${more(bad)}`]
    : found.lost.length ? [`${found.lost.length} ${found.lost.length > 1 ? "nodes" : "node"} lost`, html`${text(found.lost[0].node, 40)}${more(found.lost)}`]
      : found.findings.length ? [`${found.findings.length} with findings`, html`${link(found.findings[0].job)}: ${text(Object.values(found.findings[0].row.findings)[0], 100)}${more(found.findings)}`]
        : found.held.length ? [`${found.held.length} held back`, html`${link(found.held[0].job)}${more(found.held)}`]
          : ["none", found.failed.length ? `${found.failed.length} failed before that` : "nothing has failed"];
  const tiles = [
    ["Running", found.running.length, "", html`${whole(found.used)} of the pool in use${found.most ? html`; ${text(found.most.job, 24)} holds most, ${whole(found.most.share)}` : ""}`],
    ["Waiting", found.waiting.length, "", longest ? html`${link(longest.name)} for ${span(longest.since)}${longest.why ? `: ${text(longest.why, 100)}` : ""}` : "nobody waits"],
    ["Ends next", next ? `in ${span(next.left.p50)}` : "–", "", next ? html`${link(next.job)}${after ? html`, then ${link(after.job)} in ${span(after.left.p50)}` : ""}` : found.running.length ? "no end can be predicted yet" : "nothing runs"],
    [`Moved, last ${span(found.recent)}`, found.moved.length, "", move ? html`${link(view.jobs[move.job].job)} ${text(view.nodes[move.from].node, 20)} → ${text(view.nodes[move.to].node, 20)} ${span(1000 * (model.now - move.t1))} ago` : "nothing was moved"],
    ["Trouble", trouble[0], bad.length || found.lost.length || found.findings.length ? "bad" : "", trouble[1]],
    ["Full nodes", `${found.full} of ${found.open}`, "", found.free ? `most room: ${text(found.free.node.node, 20)}, ${whole(1 - found.free.lane.now)} free` : ""],
    ["System", ...wellOf(system)],
    ["Policy", ...policyOf(system.strip)],
  ];
  return html`<dl class="answers" aria-label="At a glance" tabindex=${system.narrow ? "0" : null}>${tiles.map(([what, much, kind, said]) => html`<div class=${kind}><dt>${what}</dt><dd class="much">${much}</dd><dd>${said}</dd></div>`)}</dl>`;
}

/** Whether the system itself is well: how, whether that is bad, and why. */
function wellOf({ state, at, link, recording, info }) {
  const letters = state.totals?.dead_letters ?? 0, age = info?.age_ms ?? 0, lost = [...state.nodes.values()].filter((node) => node.lost).length;
  if (recording || at !== null) return [recording ? "a recording" : "the past", "", "nothing here changes any more"];
  if (link !== "live") return ["no connection", "bad", `the gateway does not answer; this is the pool of ${clock(state.at_ms)}`];
  if (!info?.up) return ["down", "bad", html`no system runs on the pool; <code>steepest up</code> starts one`];
  if (age > SILENT_MS) return ["silent", "bad", `no record for ${span(age)}`];
  if (info.behind > BEHIND) return ["behind", "bad", `the gateway has ${info.behind} records to read`];
  return ["well", "", `last record ${span(age)} ago; ${lost ? `${lost} nodes lost` : `${state.nodes.size} ${state.nodes.size === 1 ? "node reports" : "nodes report"}`}${letters ? html`; <a href="#/letters">${letters} dead letters</a>` : ""}`];
}

/** How jobs fare under the policy, and how they fared under the one before. */
function policyOf(strip) {
  const periods = (strip?.periods ?? []).filter((one, place, all) => one.finished || place === all.length - 1), now = periods.at(-1), before = periods.at(-2);
  if (!now) return ["–", "", ""];
  const waited = (one) => (one.took_ms ? whole(one.waited_ms / one.took_ms) : "–"), since = `since ${clock(now.since_ms)}`;
  if (!before) return [text(now.policy, 24), "", `${since}; no other policy ran before`];
  if (!now.finished) return [text(now.policy, 24), "", `${since}; no job has finished yet (before, ${text(before.policy, 24)}: jobs waited ${waited(before)} of their time)`];
  const better = now.waited_ms * before.took_ms < before.waited_ms * now.took_ms;
  return [better ? "better" : "not better", "", `${text(now.policy, 24)} ${since}: jobs waited ${waited(now)} of their time (${now.finished}), ${waited(before)} under ${text(before.policy, 24)} (${before.finished} other jobs)`];
}

function Signs({ colour, dense }) {
  const swatch = (kind, words) => html`<li><i class="sw ${kind}"></i>${words}</li>`, glyph = (sign, words) => html`<li><i class="glyph">${sign}</i>${words}</li>`;
  return html`<ul class="legend" aria-label="Legend">${colour === "category" ? [1, 2, 3, 0].map((code) => swatch(`c${code}`, CODES[code][1])) : html`<li>a colour for each ${colour === "what" ? "model" : colour}</li>`}
    ${swatch("hatched", "suspended")}${glyph("▸", "moved")}${swatch("fade", "predicted")}${dense ? "" : glyph("✓", "finished")}${glyph("✕", "failed")}${glyph("▲", "finding, node lost")}</ul>`;
}

function Chosen({ model, selected, clear, narrow }) {
  const place = model.places.get(selected), runs = place === undefined ? [] : model.byJob[place];
  const nodes = [...new Set(runs.map((r) => model.view.nodes[model.view.runs.node[r]].node))].slice(0, 12).join(" → ");
  return html`<p class="small" aria-live="polite">${place !== undefined ? html`<b>${text(selected, 63)}</b> ran ${runs.length} ${runs.length === 1 ? "time" : "times"}${nodes ? ` on ${nodes}` : ""}.${" "}
      <a href=${jobLink(selected)}>Open</a> <button type="button" class="plain" onClick=${clear}>clear</button>`
    : narrow ? "Drag to pan, pinch to zoom, tap a bar to open its job."
      : html`Drag to pan, <kbd>Ctrl</kbd> and wheel to zoom, click a bar to open its job, a node to make it taller. By keyboard: <kbd>←</kbd> <kbd>→</kbd> <kbd>+</kbd> <kbd>−</kbd> <kbd>0</kbd> <kbd>n</kbd>, <kbd>↑</kbd> <kbd>↓</kbd> from job to job, <kbd>Enter</kbd>.`}
    ${model.view.more_runs ? ` ${model.view.more_runs} older runs of this time are not shown.` : ""}</p>`;
}

function Spark({ values, code }) {
  if (!values?.length) return html`<span class="empty">no loss yet</span>`;
  const points = values.map((v, k) => [(k * 96 / Math.max(1, values.length - 1) + 2).toFixed(1), (21 - v * 0.18).toFixed(1)]), [x, y] = points.at(-1);
  return html`<svg class="spark" viewBox="0 0 100 24" aria-hidden="true"><polyline points=${points.map((point) => point.join(",")).join(" ")} /><circle class="c${code}" cx=${x} cy=${y} r="2.6" /></svg>`;
}

function Progress({ job }) {
  const { step, steps_total: total, steps } = job.row ?? {};
  if (!total) return html`<span class="empty">${text(steps, 30) || "no total known"}</span>`;
  const share = Math.min(1, (step ?? 0) / total);
  return html`<div class="progress"><div role="progressbar" aria-label="Steps of ${text(job.job, 63)}" aria-valuemin="0" aria-valuemax="100" aria-valuenow=${Math.round(100 * share)}><i class="c${job.category}" style=${{ width: `${100 * share}%` }}></i></div><span>${whole(share)}</span></div>`;
}

function Running({ found, selected, select }) {
  const [all, setAll] = useState(false);
  const [by, setBy] = useState("ends");
  const rows = [...found.running].sort(SORTS[by]), shown = rows.slice(0, all ? SHOWN_MOST : SHOWN);
  if (!rows.length) return "";
  return html`<section aria-labelledby="running"><header class="bar"><h2 id="running">Running <small>${rows.length}</small></h2>
      <label><small>sorted by</small> <select value=${by} onChange=${(event) => setBy(event.target.value)}><option value="ends">what ends next</option><option value="share">who holds most</option><option value="moves">most moved</option><option value="job">name</option></select></label></header>
    <table class="running"><thead><tr><th scope="col">job</th><th scope="col">loss</th><th scope="col">progress</th><th scope="col">left</th><th scope="col">node</th><th scope="col">share of node</th><th scope="col" class="number">moves</th></tr></thead>
    <tbody>${shown.map((job) => html`<tr key=${job.job} class=${job.job === selected ? "chosen" : ""} onClick=${(event) => event.target.tagName !== "A" && select(job.job)}>
      <th scope="row"><${Badge} code=${job.category} /> <a href=${jobLink(job.job)}>${text(job.job, 63)}</a> <small>${text(job.what || job.row?.what, 40)}</small></th>
      <td class="loss"><${Spark} values=${job.spark} code=${job.category} /><span>${number(job.row?.loss)}</span></td><td class="done"><${Progress} job=${job} /></td>
      <td class="left">${job.left ? html`<b>${span(job.left.p50)}</b> <small>${interval(job.left)}</small>` : html`<span class="empty">not yet known</span>`}</td>
      <td class="on">${job.nodes.length ? text(job.nodes.join(", "), 60) : "on its way"}</td>
      <td class="share"><span class="meter"><i style=${{ width: `${100 * Math.min(1, job.of)}%` }}></i></span> ${whole(job.of)}${job.row?.limit_m ? html` <small title="its CPU limit">≤ ${job.row.limit_m}m</small>` : ""}</td>
      <td class="number moves">${job.row?.moves || ""}</td></tr>`)}</tbody></table>
    ${rows.length > SHOWN ? html`<button type="button" onClick=${() => setAll(!all)}>${all ? "fewer" : `all ${rows.length}`}</button>` : ""}
    ${all && rows.length > SHOWN_MOST ? html`<p class="small">The first ${SHOWN_MOST}; all are in <a href="#/jobs">Jobs</a>.</p>` : ""}</section>`;
}

/** Where nothing runs and nothing waits: how it went. */
function Over({ model, rows }) {
  const over = model.view.jobs.map((job, place) => ({ ...job, row: rows.get(job.job), runs: model.byJob[place] })).filter((job) => job.row?.ended_ms).sort((a, b) => b.row.ended_ms - a.row.ended_ms);
  const nodes = (job) => [...new Set(job.runs.map((r) => model.view.nodes[model.view.runs.node[r]].node))].slice(0, 8).join(" → ");
  return html`<section aria-labelledby="over"><h2 id="over">Over <small>${over.length}, the last to end first</small></h2>
    <div class="scroll" tabindex="0" role="region" aria-label="Jobs that are over"><table><thead><tr><th scope="col">job</th><th scope="col">how</th><th scope="col">ended</th><th scope="col">took</th><th scope="col">loss</th><th scope="col">nodes</th><th scope="col" class="number">moves</th></tr></thead>
    <tbody>${over.slice(0, PAGE).map((job) => html`<tr key=${job.job}><th scope="row"><${Badge} code=${job.category} /> <a href=${jobLink(job.job)}>${text(job.job, 63)}</a> <small>${text(job.what, 40)}</small></th>
      <td>${job.phase}</td><td>${clock(job.row.ended_ms)}</td><td>${span(job.row.ended_ms - job.row.submitted_ms)}</td><td>${number(job.row.loss)}</td><td>${text(nodes(job), 80)}</td><td class="number">${job.row.moves || ""}</td></tr>`)}</tbody></table></div></section>`;
}

/** A reason is said once, with all whom it holds up, first who is first in the queue. */
function Waiting({ found, queue, selected }) {
  if (!found.waiting.length) return "";
  const groups = new Map(), standing = new Map(queue.map((row) => [row.job, row])), rows = found.waiting.map((one) => ({ ...one, at: standing.get(one.name) }));
  rows.sort((a, b) => (a.at?.position ?? 1e9) - (b.at?.position ?? 1e9));
  for (const one of rows) {
    const why = one.at?.reason || one.why || "no reason is known yet";
    if (!groups.has(why)) groups.set(why, []);
    groups.get(why).push(one);
  }
  return html`<section aria-labelledby="waits"><h2 id="waits">Waiting <small>${found.waiting.length}</small></h2>
    <ol class="waiting">${[...groups].sort((a, b) => b[1].length - a[1].length).slice(0, REASONS).map(([why, mine]) => html`<li key=${why}><p class="why">${text(why, 200)} <small>${mine.length}</small></p>
      <ul>${mine.slice(0, OF_EACH).map((one) => html`<li key=${one.name} class=${one.name === selected ? "chosen" : ""}><i class=${one.suspended ? "sw hatched" : "sw queued"}></i><a href=${jobLink(one.name)}>${text(one.name, 63)}</a>
        <small>${one.suspended ? "suspended" : "queued"}${one.at ? `, ${one.at.position} of ${queue.length}` : ""}${one.at?.start_ms != null ? `, may start in ${span(one.at.start_ms)}` : ""}</small><span>${span(one.since)}</span></li>`)}</ul>
      ${mine.length > OF_EACH ? html`<p class="small">and ${mine.length - OF_EACH} more</p>` : ""}</li>`)}</ol>
    ${groups.size > REASONS ? html`<p class="small">${groups.size - REASONS} more reasons are in <a href="#/jobs">Jobs</a>.</p>` : ""}</section>`;
}

/** The same as on the canvas, for those who cannot see it, and for those who want to read. */
function Runs({ model }) {
  const [open, setOpen] = useState(false);
  const [page, setPage] = useState(0);
  const { jobs, nodes, runs } = model.view;
  const lines = useMemo(() => (open ? linesOf(model) : []), [open, model]), pages = Math.max(1, Math.ceil(lines.length / PAGE)), at = Math.min(page, pages - 1);
  return html`<details onToggle=${(event) => setOpen(event.target.open)}><summary>The timeline as a table: ${runs.job.length} runs, ${model.waiting.all.length} waits and ${model.moves.length} moves, the newest first</summary>
    ${open ? html`<div class="scroll" tabindex="0" role="region" aria-label="Table of runs, waits and moves"><table><thead><tr><th scope="col">job</th><th scope="col">where</th><th scope="col">from</th><th scope="col">to</th><th scope="col">share of node</th><th scope="col">category</th><th scope="col">then</th></tr></thead>
      <tbody>${lines.slice(at * PAGE, (at + 1) * PAGE).map(({ job, where, t0, t1, share, cat, then }) => html`<tr><th scope="row"><a href=${jobLink(jobs[job].job)}>${text(jobs[job].job, 63)}</a></th><td>${text(where(nodes), 160)}</td><td>${clock(1000 * t0)}</td><td>${t1 === OPEN ? "now" : clock(1000 * t1)}</td>
        <td>${share}</td><td>${cat}</td><td>${then}</td></tr>`)}</tbody></table></div>
      <nav class="pages" aria-label="Pages of the table"><button type="button" disabled=${at === 0} onClick=${() => setPage(at - 1)}>Newer</button> <span>${at + 1} of ${pages}</span> <button type="button" disabled=${at >= pages - 1} onClick=${() => setPage(at + 1)}>Older</button></nav>` : ""}</details>`;
}

function linesOf(model) {
  const { runs } = model.view;
  return [
    ...runs.job.map((job, r) => ({ job, where: (nodes) => nodes[runs.node[r]].node, t0: model.begun(r), t1: model.ended(r), share: whole(model.last[r]), cat: CODES[runs.category[r].at(-1) ?? 0][1], then: ENDS[runs.end[r]] || "runs" })),
    ...model.waiting.all.map((one) => ({ job: one.job, where: () => `${one.suspended ? "suspended" : "waits"}${one.why ? `: ${one.why}` : ""}`, t0: one.t0, t1: one.t1, share: "", cat: "", then: one.t1 === OPEN ? "waits" : "" })),
    ...model.moves.map((one) => ({ job: one.job, where: (nodes) => `${nodes[one.from].node} → ${nodes[one.to].node}`, t0: one.t0, t1: one.t1, share: "", cat: "", then: "moved" })),
  ].sort((a, b) => b.t0 - a.t0);
}
