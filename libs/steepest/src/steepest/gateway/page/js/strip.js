// The whole log as a strip: the pool's use by category, what went wrong, and a cursor that shows the pool as it was then.
import { html, useEffect, useRef, useState } from "./html.js";
import { ask } from "./stream.js";
import { clock } from "./words.js";

const STEP_MS = 200, STEPS = 300, AGAIN_MS = 5_000, WIDE = 600, HIGH = 40;
const ORDER = [1, 2, 3, 4, 0]; // categories from the foot up

/** What the gateway says of the whole log; asked for again as it grows. */
export function useStrip(pool, token, offset) {
  const [strip, setStrip] = useState(null);
  const known = useRef({ pool: null, last: -Infinity, timer: null });
  useEffect(() => {
    const memory = known.current;
    if (pool === null) return;
    if (memory.pool !== pool) { Object.assign(memory, { pool, last: -Infinity }); setStrip(null); }
    clearTimeout(memory.timer);
    memory.timer = setTimeout(() => {
      memory.last = performance.now();
      ask(`api/v1/strip?pool=${encodeURIComponent(pool)}`, token).then((found) => memory.pool === pool && setStrip(found.points.length > 1 ? found : null), () => {});
    }, Math.max(0, memory.last + AGAIN_MS - performance.now()));
  }, [pool, token, offset]);
  return strip;
}

/** Between two moments, as if the records between them were evenly spread. */
function between(points, value, from, to) {
  let k = points.findLastIndex((point) => point[from] <= value);
  k = Math.min(Math.max(0, k), points.length - 2);
  const [a, b] = [points[k], points[k + 1]], wide = b[from] - a[from];
  return Math.round(a[to] + (wide > 0 ? (b[to] - a[to]) * Math.min(1, Math.max(0, (value - a[from]) / wide)) : 0));
}

/** The position at a time; at the beginning, before the first record. */
const offsetAt = ({ points }, ms) => (ms <= points[0][1] ? points[0][0] : between(points, ms, 1, 0));

export function Strip({ strip, at, at_ms, setAt, recording, range }) {
  const [playing, setPlaying] = useState(false);
  const { points, trouble } = strip, begin = points[0][1], end = Math.max(begin + 1, points.at(-1)[1]);
  const value = at === null ? end : between(points, at, 0, 1), go = (ms) => setAt(ms >= end ? null : offsetAt(strip, ms));
  useEffect(() => {
    if (!playing) return undefined;
    const timer = setTimeout(() => {
      const next = (at === null ? begin : value) + Math.max(1, (end - begin) / STEPS);
      if (next >= end) setPlaying(false);
      go(next);
    }, STEP_MS);
    return () => clearTimeout(timer);
  }, [playing, at]);
  const x = (ms) => (WIDE * (ms - begin) / (end - begin)).toFixed(1), low = range ? Math.max(begin, 1000 * range[0]) : 0, high = range ? Math.min(end, 1000 * range[1]) : 0;
  return html`<div class="slider">
    <button type="button" aria-pressed=${playing} onClick=${() => setPlaying(!playing)}>${playing ? "Pause" : "Play"}</button>
    <div class="strip"><svg viewBox="0 0 ${WIDE} ${HIGH}" preserveAspectRatio="none" aria-hidden="true">
        ${ORDER.map((code, place) => html`<path class="c${code}" d=${area(points, x, place)} />`)}
        ${trouble.map((ms) => html`<line class="trouble" x1=${x(ms)} x2=${x(ms)} y1="0" y2="9" />`)}
        ${high > low ? html`<rect class="window" x=${x(low)} width=${Math.max(2, x(high) - x(low))} y="0.5" height=${HIGH - 1} />` : ""}</svg>
      <input type="range" aria-label="Position in the log" min=${begin} max=${end} step=${Math.max(1, Math.floor((end - begin) / 1000))} value=${value}
        aria-valuetext=${clock(at_ms)} onInput=${(event) => go(Number(event.target.value))} /></div>
    <output>${at === null ? "" : "as it was at "}${clock(at_ms)}</output>
    <button type="button" disabled=${at === null} onClick=${() => { setPlaying(false); setAt(null); }}>${recording ? "To the end" : "Back to now"}</button>
  </div>`;
}

/** The area of the categories up to a place in the order, as steps; those below it are drawn over it. */
function area(points, x, place) {
  const top = (use) => (HIGH - HIGH * Math.min(1000, ORDER.slice(0, place + 1).reduce((sum, code) => sum + use[code], 0)) / 1000).toFixed(1);
  const foot = (use) => (place ? (HIGH - HIGH * Math.min(1000, ORDER.slice(0, place).reduce((sum, code) => sum + use[code], 0)) / 1000).toFixed(1) : HIGH);
  const there = points.map(([, ms, use]) => `H${x(ms)}V${top(use)}`).join("");
  const back = [...points].reverse().map(([, ms, use]) => `V${foot(use)}H${x(ms)}`).join("");
  return `M0 ${foot(points[0][2])}${there}H${WIDE}${back}Z`;
}
