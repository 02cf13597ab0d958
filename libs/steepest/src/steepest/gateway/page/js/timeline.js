// The timeline: a lane for each node, a bar for each run. uPlot has the axis and the scale; the bars are drawn in its hooks.
import { html, useEffect, useMemo, useRef, useState } from "./html.js";
import { colours, drawAll, drawBack, HUES } from "./draw.js";
import { barAt, firstOf, laidOut, OPEN } from "./lanes.js";
import { Badge } from "./parts.js";
import { clock, CODES, ENDS, gpus, interval, jobLink, span, text, whole } from "./words.js";

const AXIS = 24, GAP = 6, OPENED = 76, ROW = 15, FEW = 8, SETTLED_MS = 150;
const HELP = "Arrows pan and choose a job, plus and minus zoom, 0 shows all, n goes to now, o makes the job's node taller, Enter opens the job. The same is in the table below.";

/** Where each lane lies; a node that was opened gets the height that names need. */
function sizes(nodes, rows, narrow, opened) {
  const pitch = nodes <= FEW ? (narrow ? 44 : 58) : Math.max(narrow ? 6 : 8, Math.min(48, Math.floor((narrow ? 384 : 512) / nodes)));
  const wait = rows === 0 ? 40 : rows * ROW + 4, high = Array.from({ length: nodes }, (_, n) => (opened.has(n) ? Math.max(pitch, OPENED) : pitch));
  let y = wait + GAP;
  const top = high.map((one) => (y += one) - one);
  return { pitch, wait, high, top, height: y };
}

/** `past`: the model is of an earlier moment, which moves within the window; `follow`: the window is the model's own. */
export function Timeline({ model, colour, selected, select, past, follow, onWindow, onReady, scheme, narrow }) {
  const box = useRef(null), place = useRef(null), plot = useRef(null), now = useRef({ window: null });
  const [card, setCard] = useState(null);
  const [opened, setOpened] = useState(new Set());
  const turn = (n) => setOpened((before) => { const after = new Set(before); if (!after.delete(n)) after.add(n); return after; });
  const nodes = model.lanes.length, rows = model.waiting.steps ? 0 : Math.max(1, model.waiting.rows);
  const size = useMemo(() => sizes(nodes, rows, narrow, opened), [nodes, rows, narrow, opened]);
  const hues = useMemo(() => new Map([...new Set(model.view.jobs.map((job) => job[colour]))].map((who, k) => [who, k % HUES])), [model, colour]);
  const lanes = useMemo(() => (opened.size ? model.lanes.map((lane, n) => (opened.has(n) ? laidOut(model, n) : lane)) : model.lanes), [model, opened]);
  const chosen = model.places.get(selected) ?? null, state = now.current;
  const shift = past || state.live === undefined ? 0 : model.now - state.live;
  if (!past) state.live = model.now;
  state.furthest = Math.max(state.furthest ?? 0, model.until);
  Object.assign(state, { model, lanes, colour, chosen, size, hues, past, onWindow, select });

  useEffect(() => {
    state.colours = colours();
    const axis = { side: 0, size: AXIS, stroke: state.colours.soft, font: "11px system-ui, sans-serif", gap: 3, space: 70, grid: { stroke: state.colours.line, width: 1 }, ticks: { show: false },
      values: (u, splits, _, __, step) => splits.map((s) => (hasRoom(u, state, s) ? clock(1000 * s).slice(0, step < 60 ? 8 : 5) : "")) };
    const u = new window.uPlot({
      width: place.current.clientWidth || 300, height: size.height + AXIS, padding: [0, 0, 0, 0],
      scales: { x: { time: true, auto: false, range: (_, low, high) => [low, high] }, y: { auto: false, range: [0, 1] } },
      legend: { show: false }, cursor: { y: false, drag: { x: false, y: false, setScale: false }, points: { show: false } },
      axes: [axis, { show: false }], series: [{}, { show: false }],
      hooks: { drawClear: [(plot_) => drawBack(plot_, state)], draw: [(plot_) => drawAll(plot_, state)] },
    }, [[model.begin, model.until], [null, null]], place.current);
    plot.current = u;
    state.window = state.window ?? [model.start, model.until];
    u.setScale("x", { min: state.window[0], max: state.window[1] });
    const resized = new ResizeObserver(() => u.setSize({ width: place.current?.clientWidth || 300, height: size.height + AXIS }));
    resized.observe(place.current);
    const undo = gestures(u, box.current, state, setCard);
    const api = {
      zoom: (by) => zoom(u, state, by), pan: (by) => pan(u, state, by), all: () => go(u, state, state.model.begin, state.furthest),
      home: () => go(u, state, state.model.start, state.model.until, false),
      show: (low, high) => go(u, state, low, high, false),
      drawn: () => { u.redraw(false, false); u.ctx.getImageData(0, 0, 1, 1); },
    };
    box.current.api = api;
    onReady?.(api);
    return () => { undo(); resized.disconnect(); u.destroy(); };
  }, [size, scheme]);

  useEffect(() => {
    const u = plot.current, [low, high] = state.window;
    if (follow && !past && !state.touched) go(u, state, model.start, model.until, false);
    else if (shift > 0 && low < model.now && high > model.now - shift) go(u, state, low + shift, high + shift, state.touched);
    else u.redraw(false, true);
  }, [model, colour, selected, follow]);

  const keys = (event) => {
    const api = box.current.api, runs = model.view.runs;
    const does = {
      ArrowLeft: () => api.pan(-0.15), ArrowRight: () => api.pan(0.15), "+": () => api.zoom(0.7), "=": () => api.zoom(0.7), "-": () => api.zoom(1.4), 0: api.all, n: () => { api.home(); onWindow(null); },
      ArrowDown: () => select(next(state, 1)), ArrowUp: () => select(next(state, -1)), Escape: () => select(null),
      o: () => chosen !== null && model.byJob[chosen].length && turn(runs.node[model.byJob[chosen].at(-1)]), Enter: () => { if (chosen !== null) location.hash = jobLink(selected); },
    }[event.key];
    if (!does || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    does();
  };
  const every = Math.ceil(14 / size.pitch), waiting = model.waiting.all.filter((one) => one.t1 === OPEN).length;
  return html`<div class="timeline" ref=${box} tabindex="0" role="group" aria-label="Timeline of ${nodes} nodes. ${HELP}" onKeyDown=${keys}>
    <div class="gutter" aria-hidden="true" style=${{ paddingTop: `${AXIS}px` }}>
      <div class="lane waits" style=${{ height: `${size.wait}px`, marginBottom: `${GAP}px` }}><b>waiting</b><span>${waiting}</span>${model.waiting.steps && !narrow ? html`<em>at most ${model.waiting.most}</em>` : ""}</div>
      ${lanes.map((lane, n) => html`<div class="lane ${lane.now > 0.95 ? "full" : ""} ${size.high[n] < 14 ? "dense" : ""}" title="${text(model.view.nodes[n].node, 63)}: ${whole(lane.now)}" onClick=${() => turn(n)} style=${{ height: `${size.high[n]}px` }}>
        <b>${n % every && !opened.has(n) ? "" : short(text(model.view.nodes[n].node, 63))}</b>${size.high[n] >= 14 && !narrow ? html`<span>${model.view.nodes[n].gone ? "lost" : whole(lane.now)}</span>` : ""}
        <i><s style=${{ width: whole(lane.now).replace(" ", "") }}></s></i></div>`)}
    </div>
    <div class="canvas" ref=${place} role="img" aria-label="Runs on nodes over time, the same as in the table below"></div>
    ${card ? html`<${Card} ...${card} model=${model} />` : ""}
  </div>`;
}

/** The end of a long name, which tells nodes apart. */
const short = (name) => (name.length > 7 ? `…${name.slice(-6)}` : name);

function Card({ job, run, share, cat, wait, x, y, right, model }) {
  const { view } = model, one = view.jobs[job];
  if (!one) return "";
  const until = run >= 0 ? model.ended(run) : wait.t1, begun = run >= 0 ? model.begun(run) : wait.t0;
  const when = `${clock(1000 * begun)} – ${until === OPEN ? "now" : clock(1000 * until)}, ${span(1000 * (Math.min(until, model.now) - begun))}`;
  const lines = run >= 0
    ? [["on", `${text(view.nodes[view.runs.node[run]].node, 63)}${gpus(view.runs.gpu_ids[run])}`], ["when", when], ["then", `${CODES[cat][1]}, ${whole(share)} of the node`], ["end", ENDS[view.runs.end[run]]],
      ["left", until === OPEN && one.left ? `${span(one.left.p50)} (${interval(one.left)})` : ""]]
    : [[wait.suspended ? "suspended" : "waits", when], ["why", text(wait.why, 160)]];
  return html`<div class="card ${right ? "left" : ""}" style=${{ left: `${x}px`, top: `${y}px` }}><p><${Badge} code=${one.category} /> <b>${text(one.job, 63)}</b> <small>${text(one.what, 40)}</small></p>
    <dl>${lines.filter(([, value]) => value).map(([key, value]) => html`<div><dt>${key}</dt><dd>${value}</dd></div>`)}</dl></div>`;
}

/** Whether a label of the axis is cut by no edge and lies under no *now*. */
function hasRoom(u, state, s) {
  const x = u.valToPos(s, "x"), wide = u.over.clientWidth, here = u.valToPos(state.model.now, "x");
  return x > 26 && x < wide - 20 && (here < 0 || here > wide || Math.abs(x - Math.min(wide - 42, here)) > 72);
}

/* The window. What a person does to it is told to the page, which asks for what is missing. */

function go(u, state, low, high, told = true) {
  const { begin } = state.model, all = state.furthest - begin;
  const width = Math.min(Math.max(high - low, all / 2000), all * 1.04);
  const from = Math.max(begin - width * 0.02, Math.min(low, state.furthest + width * 0.02 - width));
  state.window = [from, from + width];
  u.setScale("x", { min: from, max: from + width });
  clearTimeout(state.timer);
  state.touched = told;
  if (told) state.timer = setTimeout(() => state.onWindow(state.window), SETTLED_MS);
}

function zoom(u, state, by, t) {
  const [low, high] = state.window, at = t ?? Math.min(high, Math.max(low, state.model.now));
  go(u, state, at - (at - low) * by, at + (high - at) * by);
}

function pan(u, state, by) {
  const [low, high] = state.window;
  go(u, state, low + by * (high - low), high + by * (high - low));
}

/** The job after the chosen one, of those whose bars are in view. */
function next({ model, chosen, window }, by) {
  const jobs = [...new Set(model.lanes.flatMap((lane) => {
    const found = [];
    for (let k = firstOf(lane, window[0]); k < lane.t0.length && lane.t0[k] < window[1]; k++) if (lane.t1[k] > window[0]) found.push(model.view.runs.job[lane.run[k]]);
    return found;
  }))];
  const place = jobs.indexOf(chosen);
  return jobs.length ? model.view.jobs[jobs[(place + by + jobs.length + (place < 0 && by < 0 ? 1 : 0)) % jobs.length]].job : null;
}

function hit(u, { model, lanes, size }, event) {
  const bounds = u.over.getBoundingClientRect(), y = event.clientY - bounds.top, t = u.posToVal(event.clientX - bounds.left, "x");
  if (y < size.wait) {
    const wait = model.waiting.steps ? null : model.waiting.all.find((one) => one.row === Math.floor((y - 2) / ROW) && one.t0 <= t && one.t1 > t && t <= model.now);
    return wait ? { job: wait.job, run: -1, wait } : null;
  }
  const n = size.top.findLastIndex((top) => top <= y);
  if (n < 0) return null;
  const lane = lanes[n], k = barAt(lane, Math.min(t, model.now - 1e-3), 1 - (y - size.top[n] - 1) / (size.high[n] - 2));
  return k < 0 ? null : { job: model.view.runs.job[lane.run[k]], run: lane.run[k], share: lane.y1[k] - lane.y0[k], cat: lane.cat[k] };
}

/** Drag pans, two fingers and Ctrl with the wheel zoom, a click opens the job. The wheel alone scrolls the page. */
function gestures(u, box, state, setCard) {
  const el = u.over, pointers = new Map(), time = (event) => u.posToVal(event.clientX - el.getBoundingClientRect().left, "x");
  let moved = 0;
  const up = (event) => {
    const was = pointers.delete(event.pointerId);
    if (!was || moved > 3 || event.type !== "pointerup") return;
    const found = hit(u, state, event);
    if (found) location.hash = jobLink(state.model.view.jobs[found.job].job); else state.select(null);
  };
  const move = (event) => {
    const before = pointers.get(event.pointerId);
    if (!before) {
      const found = hit(u, state, event), bounds = box.getBoundingClientRect(), x = event.clientX - bounds.left;
      el.style.cursor = found ? "pointer" : "grab";
      setCard(found ? { ...found, x, y: event.clientY - bounds.top, right: x > bounds.width * 0.6 } : null);
      return;
    }
    if (pointers.size === 2) {
      const other = [...pointers].find(([id]) => id !== event.pointerId)[1], was = Math.abs(before.clientX - other.clientX), is = Math.abs(event.clientX - other.clientX);
      if (was > 20 && is > 20) zoom(u, state, was / is, (time(event) + time(other)) / 2);
    } else {
      moved += Math.abs(event.clientX - before.clientX);
      if (moved > 3) { pan(u, state, (before.clientX - event.clientX) / el.clientWidth); setCard(null); el.style.cursor = "grabbing"; }
    }
    pointers.set(event.pointerId, event);
  };
  const wheel = (event) => {
    if (event.ctrlKey || event.metaKey) zoom(u, state, Math.exp(event.deltaY * 0.002), time(event));
    else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan(u, state, (event.deltaX || event.deltaY) / el.clientWidth);
    else return;
    event.preventDefault();
    setCard(null);
  };
  const all = {
    pointerdown: (event) => { pointers.set(event.pointerId, event); moved = 0; el.setPointerCapture?.(event.pointerId); },
    pointermove: move, pointerup: up, pointercancel: up, pointerleave: () => setCard(null), wheel,
  };
  for (const [name, does] of Object.entries(all)) el.addEventListener(name, does, { passive: false });
  return () => { for (const [name, does] of Object.entries(all)) el.removeEventListener(name, does); };
}
