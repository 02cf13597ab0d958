// The timeline on its canvas: bars, waits, predictions, moves, names and marks. Everything here is in device pixels.
import { FAILED, FINISHED, firstOf, OPEN } from "./lanes.js";
import { clock, span, text } from "./words.js";

const MOVES_SHOWN = 120, MOVES_DENSE = 40, LABELS = 400, MARKS_SHOWN = 150, THIN = 14, TALL = 20, ROW = 15;
export const HUES = 8;

/** The page's colours, as its style sheet has them now. */
export function colours() {
  const style = getComputedStyle(document.documentElement), of = (name) => style.getPropertyValue(`--${name}`).trim();
  const each = (name, many) => Array.from({ length: many }, (_, k) => of(`${name}${k}`));
  return { cats: each("cat", 5), thin: each("thin", 5), edges: each("edge", 5), edge: of("edge"), hues: each("hue", HUES),
    text: of("text"), soft: of("soft"), line: of("line"), back: of("back"), panel: of("panel"), ink: of("ink"), bad: of("bad"), wait: of("wait") };
}

const font = (dpr, size = 11, weight = 400) => `${weight} ${size * dpr}px system-ui, "DejaVu Sans", sans-serif`;
/** The height of a lane without the gap below it. */
const insideOf = (size, n) => size.high[n] - (size.high[n] > TALL ? 3 : 1);

export function drawBack(u, { size, model, colours: c }) {
  const { ctx, bbox } = u, dpr = devicePixelRatio;
  for (let n = 0; n < model.lanes.length; n++) {
    const top = bbox.top + Math.round((size.top[n] + 1) * dpr), deep = insideOf(size, n) * dpr, gpus = model.byGpu ? model.view.nodes[n].gpus : 0;
    ctx.fillStyle = c.panel; ctx.fillRect(bbox.left, top, bbox.width, deep);
    ctx.fillStyle = c.line;
    if (gpus * 3 * dpr < deep) for (let k = 1; k < gpus; k++) ctx.fillRect(bbox.left, Math.round(top + deep * k / gpus), bbox.width, dpr);
  }
}

export function drawAll(u, state) {
  const { ctx, bbox } = u, dpr = devicePixelRatio, { model, size } = state;
  const low = u.scales.x.min, high = u.scales.x.max, per = bbox.width / (high - low), left = bbox.left, right = left + bbox.width;
  const grid = size.pitch >= THIN ? 1 : 2 * dpr; // thin lanes are drawn on a coarser grid: what is shorter is not seen
  const inside = (n) => insideOf(size, n) * dpr;
  const at = {
    low, high, per, dpr, inside, chosen: state.chosen,
    x: (t) => Math.min(right, Math.max(left, left + grid * Math.round((Math.min(t, model.now) - low) * per / grid))),
    bottom: (n) => bbox.top + Math.round((size.top[n] + 1) * dpr) + Math.round(inside(n)),
  };
  ctx.save();
  ctx.beginPath(); ctx.rect(left, bbox.top, bbox.width, bbox.height); ctx.clip();
  const chains = bars(u, state, at);
  if (high > model.now) predicted(u, state, at);
  if (model.waiting.steps) waitCurve(u, state, at); else waitRows(u, state, at);
  moves(u, state, at);
  const shown = marksOf(state, at);
  names(ctx, state, at, chains, shown);
  for (const mark of shown) drawMark(ctx, state, at, mark);
  if (high >= model.now && low <= model.now) {
    const x = at.x(model.now) + 0.5;
    ctx.strokeStyle = state.colours.text; ctx.lineWidth = 1.5 * dpr; ctx.beginPath(); ctx.moveTo(x, bbox.top); ctx.lineTo(x, bbox.top + bbox.height); ctx.stroke();
  }
  ctx.restore();
  if (high >= model.now && low <= model.now) flag(u, state, left + (model.now - low) * per, right);
}

function flag(u, { model, colours: c, past }, x, right) {
  const { ctx, bbox } = u, dpr = devicePixelRatio;
  ctx.save();
  ctx.font = font(dpr, 11, 600); ctx.textAlign = "center"; ctx.textBaseline = "middle";
  const word = `${past ? "then" : "now"} ${clock(1000 * model.now)}`, wide = ctx.measureText(word).width + 10 * dpr;
  const middle = Math.max(bbox.left + wide / 2, Math.min(right - wide / 2, x));
  ctx.fillStyle = c.text; ctx.fillRect(middle - wide / 2, bbox.top - 19 * dpr, wide, 17 * dpr);
  ctx.fillStyle = c.back; ctx.fillText(word, middle, bbox.top - 10 * dpr);
  ctx.restore();
}

/** The bars, gathered by colour, which is set once for all of them; the pieces on which names may lie, by run. */
function bars(u, state, at) {
  const { ctx } = u, { model, size, colours: c, colour, hues } = state, { dpr, low, high, chosen } = at, { runs, jobs } = model.view;
  const byCategory = colour === "category", palette = byCategory ? c.cats : c.hues;
  const keyOf = byCategory ? (lane, k) => lane.cat[k] : (lane, k) => hues.get(jobs[runs.job[lane.run[k]]][colour]);
  const bright = palette.map(() => []), dim = palette.map(() => []), lines = palette.map(() => []), thin = palette.map(() => []), thinDim = palette.map(() => []), outlined = [], chains = new Map();
  for (let n = 0; n < model.lanes.length; n++) {
    const lane = state.lanes[n], base = at.bottom(n), deep = at.inside(n), tall = size.high[n] >= THIN, { t0, t1, y0, y1, run } = lane;
    const mixed = !tall && byCategory && lane.mixT.length > 0; // jobs cannot be seen: categories are enough
    if (mixed) mix(lane, at, base, deep, chosen === null ? thin : thinDim);
    if (mixed && (chosen === null || !model.byJob[chosen].some((r) => runs.node[r] === n))) continue;
    for (let k = firstOf(lane, low); k < t0.length && t0[k] < high; k++) {
      if (t1[k] <= low) continue;
      const x0 = at.x(t0[k]), x1 = Math.max(at.x(t1[k]), x0 + (t1[k] === OPEN ? dpr : 0)), foot = base - Math.round(y0[k] * deep);
      const top = Math.min(base - Math.round(y1[k] * deep), tall ? foot - 2 * dpr : foot);
      const mine = chosen === null || runs.job[run[k]] === chosen;
      if (x1 <= x0 || foot <= top || (mixed && !mine)) continue;
      const key = keyOf(lane, k);
      if (chosen !== null && mine) outlined.push(tall ? [x0, top, x1 - x0, foot - top] : [x0, base - deep, x1 - x0, deep]);
      (mine ? bright : dim)[key].push(x0, tall || chosen === null ? top : base - deep, x1 - x0, tall || chosen === null ? foot - top : deep);
      if (!tall || !mine) continue;
      lines[key].push(x0, top, x1 - x0, dpr);
      if (t0[k] === model.begun(run[k])) lines[key].push(x0, top, dpr, foot - top);
      chained(chains, run[k], x0, x1, top, foot, 8 * dpr);
    }
  }
  const fill = (lists, tints) => lists.forEach((list, k) => {
    ctx.fillStyle = tints[k];
    for (let i = 0; i < list.length; i += 4) ctx.fillRect(list[i], list[i + 1], list[i + 2], list[i + 3]);
  });
  ctx.globalAlpha = 0.16; fill(dim, palette); fill(thinDim, c.thin); ctx.globalAlpha = 1;
  fill(bright, palette); fill(thin, c.thin);
  fill(lines, byCategory ? c.edges : palette.map(() => c.edge));
  ctx.strokeStyle = c.text; ctx.lineWidth = dpr;
  for (const [x, y, w, h] of outlined) { ctx.beginPath(); ctx.moveTo(x, y + 0.5); ctx.lineTo(x + w, y + 0.5); ctx.moveTo(x, y + h - 0.5); ctx.lineTo(x + w, y + h - 0.5); ctx.stroke(); }
  return chains;
}

/** A thin lane as areas of its categories; an area grows as long as it looks the same. */
function mix({ mixT, mixY }, { low, high, x }, base, deep, lists) {
  let from = 0, end = mixT.length;
  while (from < end) { const middle = (from + end) >> 1; if (mixT[middle] <= low) from = middle + 1; else end = middle; }
  const open = [-1, -1, -1, -1, -1];
  for (let i = Math.max(0, from - 1); i < mixT.length && mixT[i] < high; i++) {
    const x0 = x(mixT[i]), x1 = x(i + 1 < mixT.length ? mixT[i + 1] : OPEN);
    if (x1 <= x0) continue;
    for (let k = 0, foot = base; k < 5; k++) {
      const top = base - Math.round(mixY[5 * i + k] * deep), list = lists[k], b = open[k];
      if (foot > top) {
        if (b >= 0 && list[b] + list[b + 2] === x0 && list[b + 1] === top && list[b + 3] === foot - top) list[b + 2] += x1 - x0;
        else { open[k] = list.length; list.push(x0, top, x1 - x0, foot - top); }
      }
      foot = top;
    }
  }
}

/** The longest piece of a run on which a name can lie on one line: pieces are joined while they overlap in height. */
function chained(chains, run, x0, x1, top, foot, least) {
  const one = chains.get(run) ?? { x0: 0, x1: -1, top: 0, foot: 0, best: null };
  chains.set(run, one);
  const t = Math.max(one.top, top), f = Math.min(one.foot, foot);
  Object.assign(one, one.x1 === x0 && f - t >= least ? { x1, top: t, foot: f } : { x0, x1, top, foot });
  if (one.foot - one.top >= least && (!one.best || one.x1 - one.x0 > one.best.x1 - one.best.x0)) one.best = { x0: one.x0, x1: one.x1, top: one.top, foot: one.foot };
}

function names(ctx, { model, colours: c }, { dpr }, chains, spots) {
  if (chains.size >= LABELS) return;
  ctx.textBaseline = "middle"; ctx.textAlign = "left"; ctx.fillStyle = c.ink;
  for (const [run, { best }] of chains) {
    if (!best) continue;
    ctx.font = font(dpr, best.foot - best.top < 12 * dpr ? 9 : 11);
    const y = (best.top + best.foot) / 2 + 0.5 * dpr;
    let x = best.x0;
    for (const spot of spots) if (Math.abs(spot.y - y) < 11 * dpr && spot.x > x - 7 * dpr && spot.x < x + 60 * dpr) x = spot.x + 5 * dpr;
    const name = fitted(ctx, text(model.view.jobs[model.view.runs.job[run]].job, 40), best.x1 - x - 9 * dpr);
    if (name) ctx.fillText(name, x + 5 * dpr, y);
  }
}

const widths = new Map();
function widthOf(ctx, word) {
  const key = ctx.font + word;
  if (widths.size > 5000) widths.clear();
  if (!widths.has(key)) widths.set(key, ctx.measureText(word).width);
  return widths.get(key);
}

/** A name cut to the room that it has; its number stays, which tells jobs apart. */
function fitted(ctx, name, room) {
  const all = widthOf(ctx, name);
  if (all <= room) return name;
  const letters = Math.floor(name.length * room / all) - 1, tail = name.match(/-\d+$/)?.[0] ?? "";
  if (tail && letters >= tail.length + 2) return `${name.slice(0, letters - tail.length)}…${tail}`;
  return letters >= 4 ? `${name.slice(0, letters)}…` : "";
}

/** The middle of a job's bar on a node at a time, which may be its last moment; else that of the lane. */
function middle({ model, lanes }, at, node, job, t, ends) {
  const lane = lanes[node], near = 1e-6;
  for (let k = 0; k < lane.t0.length; k++) {
    const covers = ends ? lane.t0[k] < t - near && lane.t1[k] >= t - near : lane.t0[k] <= t + near && lane.t1[k] > t + near;
    if (covers && model.view.runs.job[lane.run[k]] === job) return at.bottom(node) - (lane.y0[k] + lane.y1[k]) / 2 * at.inside(node);
  }
  return at.bottom(node) - at.inside(node) / 2;
}

/** Right of now: a bar fades out over the interval of its end, with a tick at the median. */
function predicted(u, state, at) {
  const { ctx, bbox } = u, { model, colours: c, colour, hues, size } = state, { dpr, per, low, chosen } = at, { jobs, runs } = model.view;
  const x0 = Math.round(bbox.left + (model.now - low) * per), room = bbox.left + bbox.width - x0 - 12 * dpr;
  for (let n = 0; n < model.lanes.length; n++) {
    const lane = state.lanes[n];
    for (let k = 0; k < lane.t0.length; k++) {
      const place = runs.job[lane.run[k]], job = jobs[place];
      const top = at.bottom(n) - Math.round(lane.y1[k] * at.inside(n)) + 1, high = Math.round((lane.y1[k] - lane.y0[k]) * at.inside(n)) - 1;
      if (lane.t1[k] !== OPEN || !job.left || high < 1) continue;
      const [p50, first, last] = [job.left.p50, job.left.low, job.left.high].map((ms) => Math.round(Math.min(ms / 1000 * per, 4 * bbox.width)));
      const tint = colour === "category" ? c.cats[lane.cat[k]] : c.hues[hues.get(job[colour])], mine = chosen === null || chosen === place;
      const fade = ctx.createLinearGradient(x0, 0, x0 + Math.max(2, last), 0);
      fade.addColorStop(0, tint); fade.addColorStop(Math.min(0.98, first / Math.max(1, last)), tint); fade.addColorStop(1, "transparent");
      ctx.globalAlpha = mine ? 0.38 : 0.1; ctx.fillStyle = fade; ctx.fillRect(x0, top, Math.max(2, last), high);
      ctx.globalAlpha = mine ? 0.9 : 0.2; ctx.fillStyle = tint; ctx.fillRect(x0 + p50 - dpr, top, 2 * dpr, high);
      ctx.globalAlpha = 1;
      if (size.high[n] < TALL || high < 11 * dpr || !mine) continue;
      ctx.font = font(dpr); ctx.textBaseline = "middle"; ctx.textAlign = "left";
      const name = text(job.job, 40), full = `${name}  ${span(job.left.p50)}`, word = fitted(ctx, full, room) === full ? full : fitted(ctx, name, room);
      if (word) labelled(ctx, c, dpr, word, x0 + 4 * dpr, top + high / 2);
    }
  }
}

function labelled(ctx, c, dpr, word, x, y) {
  ctx.globalAlpha = 0.72; ctx.fillStyle = c.back; ctx.fillRect(x, y - 7 * dpr, widthOf(ctx, word) + 6 * dpr, 14 * dpr);
  ctx.globalAlpha = 1; ctx.fillStyle = c.text; ctx.fillText(word, x + 3 * dpr, y + 0.5 * dpr);
}

const hatches = new Map();
function hatch(ctx, colour, dpr) {
  const key = `${colour}${dpr}`;
  if (!hatches.has(key)) {
    const tile = document.createElement("canvas");
    tile.width = tile.height = 6 * dpr;
    const c = tile.getContext("2d");
    c.strokeStyle = colour;
    c.lineWidth = 1.6 * dpr;
    for (const by of [-6, 0, 6]) { c.beginPath(); c.moveTo((by - 1) * dpr, 7 * dpr); c.lineTo((by + 7) * dpr, -dpr); c.stroke(); }
    hatches.set(key, ctx.createPattern(tile, "repeat"));
  }
  return hatches.get(key);
}

function waitCurve({ ctx, bbox }, { model, size, colours: c }, { x, dpr, low, high }) {
  const { t, queued, suspended } = model.waiting.steps, tall = (size.wait - 3) * dpr, foot = bbox.top + size.wait * dpr;
  const scaled = (number) => Math.round(number / model.waiting.most * tall);
  for (const [list, below, fill] of [[queued, null, c.wait], [suspended, queued, hatch(ctx, c.wait, dpr)]]) {
    ctx.fillStyle = fill;
    for (let i = 0, past = -1; i < t.length && t[i] < high; i++) {
      const x0 = x(t[i]), x1 = x(i + 1 < t.length ? t[i + 1] : model.now);
      if ((i + 1 < t.length && t[i + 1] < low) || (x1 <= x0 && x0 === past)) continue;
      past = x0;
      const y = scaled(list[i]);
      ctx.fillRect(x0, foot - y - (below ? scaled(below[i]) : 0), Math.max(1, x1 - x0), y);
    }
  }
}

function waitRows({ ctx, bbox }, { model, colours: c }, { x, dpr, low, high, chosen }) {
  ctx.font = font(dpr, 10.5); ctx.textBaseline = "middle"; ctx.textAlign = "left";
  const seen = model.waiting.all.filter((one) => one.t1 > low && one.t0 < high && (one.t1 === OPEN || one.suspended || x(one.t1) - x(one.t0) >= 3 * dpr));
  for (const one of seen) {
    const x0 = x(one.t0), x1 = Math.max(x(one.t1), x0 + 2 * dpr), y = bbox.top + (2 + one.row * ROW) * dpr;
    ctx.globalAlpha = chosen === null || chosen === one.job ? 1 : 0.25;
    ctx.fillStyle = one.suspended ? hatch(ctx, c.wait, dpr) : c.wait;
    ctx.fillRect(x0, y, x1 - x0, 12 * dpr);
    const name = text(model.view.jobs[one.job].job, 30), wide = widthOf(ctx, name), after = seen.filter((other) => other.row === one.row && other.t0 >= one.t1);
    if (x1 - x0 > wide + 14 * dpr) {
      if (one.suspended) labelled(ctx, c, dpr, name, x0 + 4 * dpr, y + 6 * dpr);
      else { ctx.fillStyle = c.ink; ctx.fillText(name, x0 + 6 * dpr, y + 6.5 * dpr); }
    } else if (!after.some((other) => x(other.t0) < x1 + wide + 8 * dpr)) { ctx.fillStyle = c.text; ctx.fillText(name, x1 + 4 * dpr, y + 6.5 * dpr); }
  }
  ctx.globalAlpha = 1;
}

function moves({ ctx }, state, at) {
  const { model, size, colours: c } = state, { x, dpr, low, high, chosen } = at;
  const links = model.moves.filter((move) => move.t1 >= low && move.t0 <= high && (chosen === null || move.job === chosen));
  if (links.length > (size.pitch < THIN ? MOVES_DENSE : MOVES_SHOWN)) return; // nothing but lines would be seen
  ctx.strokeStyle = ctx.fillStyle = c.text; ctx.lineWidth = (chosen === null ? 1.25 : 2) * dpr;
  for (const move of links) {
    const x0 = x(move.t0), x1 = x(move.t1), from = middle(state, at, move.from, move.job, move.t0, true), to = middle(state, at, move.to, move.job, move.t1, false);
    const bend = Math.max(6 * dpr, (x1 - x0) / 2), d = 4 * dpr;
    ctx.beginPath(); ctx.moveTo(x0, from); ctx.bezierCurveTo(x0 + bend, from, x1 - bend, to, x1, to); ctx.stroke();
    ctx.beginPath(); ctx.arc(x0, from, d / 2, 0, 7); ctx.fill();
    ctx.beginPath(); ctx.moveTo(x1 + 1, to); ctx.lineTo(x1 - d, to - d * 0.8); ctx.lineTo(x1 - d, to + d * 0.8); ctx.fill();
  }
}

/** The marks in view with their places; where there are many, only what went wrong. */
function marksOf(state, at) {
  const { model, size } = state, inView = model.marks.filter((mark) => mark.t >= at.low && mark.t <= at.high && mark.node >= 0 && (at.chosen === null || mark.job === at.chosen));
  const few = inView.length <= MARKS_SHOWN;
  return inView.filter((mark) => mark.kind !== FINISHED || (few && size.high[mark.node] > TALL))
    .map((mark) => ({ kind: mark.kind, node: mark.node, x: at.x(mark.t), y: middle(state, at, mark.node, mark.job, mark.t, true) }));
}

function drawMark(ctx, { size, colours: c }, { dpr }, { kind, node, x, y }) {
  const r = (size.high[node] > TALL ? 5 : 4) * dpr;
  const line = (...points) => { ctx.beginPath(); points.forEach(([a, b]) => ctx.lineTo(x + a * r, y + b * r)); ctx.stroke(); };
  ctx.lineWidth = 1.6 * dpr;
  if (kind === FINISHED) {
    ctx.fillStyle = c.back; ctx.strokeStyle = c.text;
    ctx.beginPath(); ctx.arc(x, y, r, 0, 7); ctx.fill(); ctx.stroke();
    line([-0.5, 0], [-0.1, 0.4], [0.5, -0.4]);
  } else if (kind === FAILED) {
    ctx.fillStyle = c.bad; ctx.strokeStyle = c.back;
    ctx.beginPath(); ctx.arc(x, y, r + dpr, 0, 7); ctx.fill();
    line([-0.5, -0.5], [0.5, 0.5]); line([0.5, -0.5], [-0.5, 0.5]);
  } else {
    ctx.fillStyle = c.text; ctx.strokeStyle = c.back;
    ctx.beginPath(); ctx.moveTo(x, y - r - dpr); ctx.lineTo(x + r + dpr, y + r); ctx.lineTo(x - r - dpr, y + r); ctx.closePath(); ctx.fill(); ctx.stroke();
  }
}
