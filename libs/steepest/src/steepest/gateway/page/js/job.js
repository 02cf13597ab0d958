// One job: its loss with what was done to it, what it waits for, and every decision with what else could have been decided.
import { html, useEffect, useMemo, useState } from "./html.js";
import { Acts, kindsOf } from "./acts.js";
import { Chart } from "./chart.js";
import { Category } from "./parts.js";
import { Printed } from "./printed.js";
import { ask } from "./stream.js";
import { clock, gpus, interval, limit, number, percent, span, text } from "./words.js";

const MARKS = {
  MigrationPlanned: ["move", "--planned"],
  TransitionPlanned: ["transition", "--planned"],
  JobSuspended: ["suspended", "--bad"],
  JobPlaced: ["placed", "--text"],
  JobEnded: ["end", "--text"],
};

const isLimit = (one) => one.type.startsWith("Limits");
/** What is folded: what is done step by step, and what changes every second. */
const isFolded = (one) => one.step || isLimit(one) || one.type === "CategoryChanged";

/** The entries in their order; those that are folded are one line a minute. */
function lines(entries) {
  const found = [];
  for (const one of entries) {
    const last = found.at(-1), minute = Math.floor(one.at_ms / 60_000);
    if (!isFolded(one)) found.push({ one });
    else if (last?.minute === minute) last.all.push(one);
    else found.push({ minute, all: [one] });
  }
  return found;
}

export function JobView({ name, state, pool, token, at, scheme, acting, setToken, recording }) {
  const [found, setFound] = useState({ curve: null, story: null, wrong: "" });
  const job = state.jobs.get(name);
  const rhythm = job ? `${job.growth} ${job.phase} ${job.plan} ${job.moves} ${job.limit_m} ${job.category}` : "";
  useEffect(() => {
    let left = false;
    const query = `pool=${encodeURIComponent(pool)}`;
    const base = `api/v1/jobs/${encodeURIComponent(name)}`;
    Promise.all([
      ask(`${base}/curve?${query}`, token),
      ask(`${base}/explain?${query}${at === null ? "" : `&at=${at}`}`, token).catch((error) => ({ entries: [], now: error.message })),
    ]).then(([curve, story]) => !left && setFound({ curve, story, wrong: "" }), (error) => !left && setFound({ curve: null, story: null, wrong: error.message }));
    return () => {
      left = true;
    };
  }, [name, pool, token, at, rhythm]);
  const chart = useMemo(() => drawn(found.curve, found.story, job, state.at_ms), [found]);
  if (found.wrong) return html`<section><h2>${text(name, 63)}</h2><p role="alert">${text(found.wrong)}</p></section>`;
  const entries = found.story?.entries ?? [], limits = chart?.limits, failed = job?.outcome === "failed" || job?.phase === "stopped";
  const printed = !recording && at === null && job ? html`<${Printed} name=${name} pool=${pool} token=${token} setToken=${setToken} replica=${found.story?.stop_replica ?? 0} failed=${failed} command=${`steepest logs ${name} --follow`} />` : "";
  return html`<section aria-labelledby="job" class="job">
    <h2 id="job">${text(name, 63)} ${job ? html`<${Category} job=${job} />` : ""}</h2>
    ${job ? html`<${Facts} job=${job} />` : ""}
    ${job && acting ? html`<${Acts} kinds=${kindsOf(job)} target=${{ jobs: [name] }} ...${acting} />` : ""}
    <p class="now">${text(found.story?.now ?? "")}</p>
    ${found.story?.progress ? html`<p>${text(found.story.progress)}</p>` : ""}
    ${failed ? printed : ""}
    <h3>Loss</h3>
    ${chart ? html`<${Chart} label=${chart.label} data=${chart.data} series=${chart.series} bands=${chart.bands} marks=${chart.marks} sync="job" scheme=${scheme} />
      ${chart.data[0].length ? html`<p class="small">Behind the curve: <span class="badge PC">P</span> progressing, <span class="badge WC">W</span> watched,${" "}<span class="badge CC">C</span> converged. ${chart.left ? `Predicted end: in ${chart.left}; the grey band is its interval.` : "The end cannot be predicted yet, or is over."}</p>` : ""}` : ""}
    ${limits ? html`<h3>CPU limit of a replica <small>in cores; none where there is no line</small></h3>
      <${Chart} label=${limits.label} data=${limits.data} series=${limits.series} stepped=${true} high=${120} sync="job" scheme=${scheme} />` : ""}
    ${failed ? "" : printed}
    <header class="bar"><h3>Decisions</h3><code>steepest explain ${text(name, 63)} --verbose</code></header>
    <ol class="story">${lines(entries).map((line) => (line.one ? html`<${Entry} key=${line.one.offset} one=${line.one} />` : html`<${Folded} key=${line.all[0].offset} all=${line.all} />`))}</ol>
  </section>`;
}

/** What was done within a minute that is no news, in one line. */
function Folded({ all }) {
  const [open, setOpen] = useState(false);
  const count = (is, word) => { const many = all.filter(is).length; return many ? `${many} ${word}${many === 1 ? "" : "s"}` : ""; };
  const kinds = [count(isLimit, "limit"), count((one) => one.type === "CategoryChanged", "change").replace("change", "category change"), count((one) => one.step, "step")];
  return html`<li class="folded"><details onToggle=${(event) => setOpen(event.target.open)}><summary><time>${clock(all[0].at_ms)}</time> ${kinds.filter(Boolean).join(", ")}: ${text(all.at(-1).sentence, 120)}</summary>
    ${open ? html`<ol class="story">${all.map((one) => html`<${Entry} key=${one.offset} one=${one} />`)}</ol>` : ""}</details></li>`;
}

function Facts({ job }) {
  const facts = [
    ["phase", job.outcome ?? job.phase], ["user", job.user], ["node", job.nodes.map((node) => `${node}${gpus(job.gpus[node])}`).join(", ")], ["steps", job.steps], ["loss", number(job.loss)],
    ["growth", percent(job.growth)], ["limit", limit(job)], ["moves", job.moves], ["waited", span(job.waited_ms)],
    ["running", span(job.running_ms)], ["queue", job.queue_position ? `${job.queue_position} of ${job.queue_length}` : ""],
    ["reason", text(job.reason, 300)],
  ];
  return html`<dl class="facts">${facts.filter(([, value]) => value).map(([key, value]) => html`<div><dt>${key}</dt><dd>${value}</dd></div>`)}</dl>`;
}

function Entry({ one }) {
  const inputs = Object.entries(one.inputs ?? {}).filter(([key]) => key !== "rule");
  const more = one.formula || inputs.length || one.alternatives?.length;
  return html`<li class=${one.void ? "void" : ""}><time title="offset ${one.offset}">${clock(one.at_ms)}</time> ${text(one.sentence)}
    ${one.void ? html`<p><em>void: ${text(one.void)}</em></p>` : ""}
    ${more ? html`<details><summary>why, and what else</summary>
      ${one.rule ? html`<p><b>Rule.</b> ${text(one.rule)}</p>` : ""}
      ${one.formula && one.formula !== one.rule ? html`<p><b>Formula.</b> ${text(one.formula)}</p>` : ""}
      ${one.details?.length ? html`<ul>${one.details.map((line) => html`<li>${text(line)}</li>`)}</ul>` : ""}
      ${one.alternatives?.length ? html`<div class="scroll" tabindex="0" role="region" aria-label="Alternatives"><table>
        <thead><tr><th scope="col">instead</th><th scope="col" class="number">score</th><th scope="col">not chosen because</th><th scope="col">chosen if</th></tr></thead>
        <tbody>${one.alternatives.map((other) => html`<tr><th scope="row">${text(other.option, 120)}</th><td class="number">${number(other.score)}</td>
          <td>${text(other.lost_because)}</td><td>${text(other.wins_if)}</td></tr>`)}</tbody></table></div>` : ""}
    </details>` : ""}</li>`;
}

function drawn(curve, story, job, now) {
  if (!curve) return null;
  const points = curve.points;
  const times = points.map(([ms]) => ms / 1000);
  const last = times.at(-1) ?? now / 1000;
  const bands = curve.categories.map(([from, name], place) => ({
    from: from / 1000, to: (curve.categories[place + 1]?.[0] ?? last * 1000) / 1000, colour: `--${name}`,
  }));
  const marks = (story?.entries ?? []).filter((one) => MARKS[one.type] && !one.void)
    .map((one) => ({ at: one.at_ms / 1000, label: MARKS[one.type][0], colour: MARKS[one.type][1] }));
  const data = [[...times], points.map(([, loss]) => loss)];
  let left = "";
  if (job?.remaining_ms && !job.outcome && times.length) {
    const { p50, low, high } = job.remaining_ms;
    left = `${span(p50)} (${interval(job.remaining_ms)})`;
    bands.push({ from: (now + low) / 1000, to: (now + high) / 1000, colour: "--text" });
    marks.push({ at: (now + p50) / 1000, label: "predicted end", colour: "--text" });
    data[0].push((now + high) / 1000);
    data[1].push(null);
  }
  const label = `Loss of ${text(curve.job, 63)}: ${points.length} intervals, from ${number(points[0]?.[1])} to ${number(points.at(-1)?.[1])}`;
  return { label, data, series: [{ label: "loss", colour: "--loss" }], bands, marks, left, limits: limitsOf(curve, data[0], now) };
}

/** The limit as steps over the time of the curve above it; null where there never was one. */
function limitsOf(curve, times, now) {
  if (!curve.limits.length) return null;
  const cores = (limit) => (limit === null ? null : limit / 1000), until = times.at(-1) ?? now / 1000, last = curve.limits.at(-1);
  const steps = [[times[0], null], ...curve.limits.map(([ms, limit]) => [ms / 1000, cores(limit)])].filter(([at]) => at !== undefined);
  if (last[0] / 1000 < Math.min(until, now / 1000)) steps.push([Math.min(until, now / 1000), cores(last[1])]);
  if (until > steps.at(-1)[0]) steps.push([until, null]);
  steps.sort((a, b) => a[0] - b[0]);
  return { label: `CPU limit of a replica of ${text(curve.job, 63)}: ${curve.limits.length} changes, now ${last[1] === null ? "none" : `${last[1]}m`}`,
    data: [steps.map(([at]) => at), steps.map(([, limit]) => limit)], series: [{ label: "limit", colour: "--planned" }] };
}
