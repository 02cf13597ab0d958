// From the server's answer to what is drawn: for each node, bars that are stacked to the node's height. It knows no screen.
const STOP = 0, START = 1, SHARE = 2, CATEGORY = 3;
const MANY_NODES = 16, WAIT_ROWS = 6, HELD = 0.06; // of a node: a job with so low a limit is held back
export const OPEN = Infinity;
export const FINISHED = 1, FAILED = 2, LOST = 3;

/** What the timeline is drawn from; times are seconds of the wall clock. `byGpu`: a lane's height are its GPUs, where it has any. */
export function prepared(view, byGpu = false) {
  const unit = view.unit_ms / 1000;
  const at = (t) => (t === null ? OPEN : view.begin_ms / 1000 + t * unit);
  const mine = view.nodes.map(() => []), byJob = view.jobs.map(() => []);
  view.runs.job.forEach((job, r) => {
    byJob[job].push(r);
    if (view.runs.t1[r] === null || view.runs.t1[r] > view.runs.t0[r]) mine[view.runs.node[r]].push(r);
  });
  if (byGpu) {
    const { share, gpus, gpu_ids: ids, node } = view.runs, many = (r) => view.nodes[node[r]].gpus;
    const held = share.map((steps, r) => (many(r) ? [steps[0], gpus[r]] : steps));
    const places = ids.map((mine, r) => (many(r) ? devices(mine, many(r), gpus[r] / 1000) : []));
    view = { ...view, runs: { ...view.runs, share: held, places } };
  }
  const last = new Float64Array(view.runs.job.length), now = at(view.now), start = at(view.start);
  return {
    view, byGpu, at, mine, byJob, last, now, start, begin: at(0), until: now + ahead(view, now - start),
    places: new Map(view.jobs.map((job, place) => [job.job, place])),
    begun: (r) => at(view.runs.t0[r]), ended: (r) => at(view.runs.t1[r]),
    lanes: mine.map((runs) => stacked(view, runs, at, last, view.nodes.length > MANY_NODES)),
    waiting: queued(view, at),
    moves: view.moves.map(([job, from, to, t0, t1]) => ({ job, from, to, t0: at(t0), t1: at(t1) })),
    marks: view.marks.map(([t, kind, job, node]) => ({ t: at(t), kind, job, node })),
  };
}

/** Where a node's GPUs lie in its lane: pairs of a foot and a height. Ids follow one another, so each has a place of its own modulo their number. */
function devices(ids, many, share) {
  const part = share * many - ids.length + 1; // of the last one: all of it, or a share
  return ids.map((id, k) => [(id % many) / many, Math.min(1, k === ids.length - 1 ? part : 1) / many]);
}

/** How far into the future the view looks: to most predicted ends, at most a third of what is past. */
function ahead(view, past) {
  const ends = view.jobs.filter((job) => job.left && job.phase === "running").map((job) => job.left.low / 1000).sort((a, b) => a - b);
  const most = ends[Math.floor(ends.length * 0.7)] ?? 0;
  return Math.max(1, Math.min(past / 3, Math.max(past / 12, most * 1.15)));
}

/** A lane again, its jobs in the order of their starts: of a node that was opened. */
export const laidOut = (model, node) => stacked(model.view, model.mine[node], model.at, model.last, false);

/** A lane as pieces of constant height. With many nodes jobs are ordered by category: of thin lanes only the mix is seen. */
function stacked({ runs }, mine, at, last, byCategory) {
  const events = [];
  for (const r of mine) {
    events.push([at(runs.t0[r]), START, r, 0]);
    for (let i = 0; i < runs.share[r].length; i += 2) events.push([at(runs.share[r][i]), SHARE, r, runs.share[r][i + 1] / 1000]);
    for (let i = 0; i < runs.category[r].length; i += 2) events.push([at(runs.category[r][i]), CATEGORY, r, runs.category[r][i + 1]]);
    if (runs.t1[r] !== null) events.push([at(runs.t1[r]), STOP, r, 0]);
  }
  events.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  const lane = { t0: [], t1: [], y0: [], y1: [], cat: [], run: [], longest: 0, now: 0, mixT: [], mixY: [] };
  const active = [], state = new Map(), tops = new Float64Array(5), filled = new Map();
  for (let i = 0; i < events.length;) {
    const t = events[i][0];
    for (; i < events.length && events[i][0] === t; i++) happened(lane, active, state, events[i]);
    if (byCategory) active.sort((a, b) => state.get(a).cat - state.get(b).cat || runs.t0[a] - runs.t0[b]);
    let sum = 0, y = 0;
    filled.clear();
    for (const r of active) sum += state.get(r).share;
    for (const r of active) if (runs.places?.[r].length) onDevices(lane, state.get(r), r, runs.places[r], filled, t);
    const scale = sum > 1 ? 1 / sum : 1;
    for (const r of active) {
      if (runs.places?.[r].length) { last[r] = state.get(r).share; y += last[r]; continue; }
      const one = state.get(r), top = y + one.share * scale, k = one.open;
      if (k < 0 || lane.y0[k] !== y || lane.y1[k] !== top || lane.cat[k] !== one.cat) {
        close(lane, one, t);
        one.open = lane.t0.length;
        lane.t0.push(t); lane.t1.push(OPEN); lane.y0.push(y); lane.y1.push(top); lane.cat.push(one.cat); lane.run.push(r);
      }
      last[r] = one.share;
      y = tops[one.cat] = top;
    }
    if (byCategory) { // what is seen of a thin lane: where each category ends
      lane.mixT.push(t);
      for (let k = 0, top = 0; k < 5; k++) lane.mixY.push(top = Math.max(top, tops[k]));
    }
    tops.fill(0);
    lane.now = y;
  }
  for (const one of state.values()) if (one.open >= 0 || one.many) lane.longest = OPEN;
  return lane;
}

/** A run's pieces on the GPUs that it has, one for each; the jobs that share one lie on each other, as `filled` has it. */
function onDevices(lane, one, r, places, filled, t) {
  const feet = places.map(([foot]) => filled.get(foot) ?? foot);
  places.forEach(([foot, high], k) => filled.set(foot, feet[k] + high));
  if (one.many && one.many.cat === one.cat && feet.every((foot, k) => foot === one.many.feet[k])) return;
  close(lane, one, t);
  one.many = { from: lane.t0.length, feet, cat: one.cat };
  places.forEach(([, high], k) => { lane.t0.push(t); lane.t1.push(OPEN); lane.y0.push(feet[k]); lane.y1.push(feet[k] + high); lane.cat.push(one.cat); lane.run.push(r); });
}

function happened(lane, active, state, [t, kind, r, value]) {
  if (kind === START) {
    active.push(r);
    state.set(r, { share: 0, cat: 0, open: -1 });
  } else if (kind === STOP) {
    active.splice(active.indexOf(r), 1);
    close(lane, state.get(r), t);
    state.delete(r);
  } else if (state.has(r)) state.get(r)[kind === SHARE ? "share" : "cat"] = value;
}

function close(lane, one, t) {
  for (let k = one.many?.from ?? 0; k < (one.many ? one.many.from + one.many.feet.length : 0); k++) { lane.t1[k] = t; lane.longest = Math.max(lane.longest, t - lane.t0[k]); }
  if (one.open < 0) return;
  lane.t1[one.open] = t;
  lane.longest = Math.max(lane.longest, t - lane.t0[one.open]);
}

/** Those that wait: a row each while they are few, a curve of their number once they are many. */
function queued({ waits, reasons }, at) {
  const all = waits.job.map((job, i) => ({ job, t0: at(waits.t0[i]), t1: at(waits.t1[i]), suspended: waits.suspended[i], why: reasons[waits.why[i]] }));
  all.sort((a, b) => a.t0 - b.t0);
  const ends = [];
  for (const one of all) {
    let row = ends.length <= WAIT_ROWS ? ends.findIndex((end) => end <= one.t0) : 0;
    if (row < 0) row = ends.push(0) - 1;
    ends[row] = one.t1;
    one.row = row;
  }
  if (ends.length <= WAIT_ROWS) return { rows: ends.length, all };
  const changes = all.flatMap((one) => [[one.t0, 1, one.suspended], ...(one.t1 === OPEN ? [] : [[one.t1, -1, one.suspended]])]).sort((a, b) => a[0] - b[0]);
  const steps = { t: [], queued: [], suspended: [] }, count = { queued: 0, suspended: 0 };
  let most = 1;
  for (const [t, by, suspended] of changes) {
    count[suspended ? "suspended" : "queued"] += by;
    most = Math.max(most, count.queued + count.suspended);
    steps.t.push(t); steps.queued.push(count.queued); steps.suspended.push(count.suspended);
  }
  return { rows: 0, all, steps, most };
}

/** The first piece of a lane that may reach into a view that begins at `t`. */
export function firstOf(lane, t) {
  let low = 0, high = lane.t0.length;
  const from = t - lane.longest;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (lane.t0[middle] < from) low = middle + 1; else high = middle;
  }
  return low;
}

/** The piece at a time and a height of a lane; -1 where there is none. */
export function barAt(lane, t, y) {
  for (let k = firstOf(lane, t); k < lane.t0.length && lane.t0[k] <= t; k++) if (lane.t1[k] > t && lane.y0[k] <= y && lane.y1[k] > y) return k;
  return -1;
}

/** What the first view says in words; `rows` are the jobs' rows by name. */
export function answers(model, rows) {
  const { view } = model, capacity = view.nodes.reduce((sum, node) => sum + node.cpu_m, 0) || 1;
  const running = view.jobs.map((job, place) => ({ ...job, place, row: rows.get(job.job) })).filter((job) => job.phase === "running");
  for (const job of running) {
    const mine = model.byJob[job.place].filter((r) => view.runs.t1[r] === null);
    job.nodes = mine.map((r) => view.nodes[view.runs.node[r]].node);
    job.share = mine.reduce((sum, r) => sum + model.last[r] * view.nodes[view.runs.node[r]].cpu_m, 0) / capacity;
    job.of = mine.length ? model.last[mine[0]] : 0;
    job.room = mine.length ? view.nodes[view.runs.node[mine[0]]].cpu_m : 0;
  }
  running.sort(SORTS.ends);
  const waiting = model.waiting.all.filter((one) => one.t1 === OPEN).map((one) => ({ ...one, name: view.jobs[one.job].job, since: 1000 * (model.now - one.t0) }));
  const past = model.now - model.begin;
  const recent = past > 2400 ? 600 : [10, 30, 60, 300].findLast((one) => one < past / 1.5) ?? 10;
  const lately = (one) => (one.t1 ?? one.t) > model.now - recent;
  const open = model.lanes.map((lane, n) => ({ lane, node: view.nodes[n] })).filter((one) => !one.node.gone && one.node.cpu_m);
  return {
    running, waiting, recent: 1000 * recent, open: open.length,
    used: open.reduce((sum, one) => sum + one.lane.now * one.node.cpu_m, 0) / (open.reduce((sum, one) => sum + one.node.cpu_m, 0) || 1),
    most: [...running].sort(SORTS.share)[0], moved: model.moves.filter(lately),
    failed: model.marks.filter((mark) => mark.kind === FAILED), lost: view.nodes.filter((node) => node.gone && node.cpu_m),
    lately, findings: running.filter((job) => Object.keys(job.row?.findings ?? {}).length), held: running.filter((job) => job.row?.limit_m && job.row.limit_m < HELD * job.room),
    full: open.filter((one) => one.lane.now > 0.95).length, free: open.sort((a, b) => a.lane.now - b.lane.now)[0],
  };
}

const natural = (a, b) => a.job.localeCompare(b.job, "en", { numeric: true });
export const SORTS = {
  ends: (a, b) => (a.left?.p50 ?? 1e15) - (b.left?.p50 ?? 1e15) || natural(a, b),
  share: (a, b) => b.share - a.share || natural(a, b),
  moves: (a, b) => (b.row?.moves ?? 0) - (a.row?.moves ?? 0) || natural(a, b),
  job: natural,
};
