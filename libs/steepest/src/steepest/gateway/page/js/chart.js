// A job's loss over time, and what was done to the job; its limit; several runs in one chart. Drawn by uPlot, in the page's colours.
import { html, useEffect, useRef } from "./html.js";
import { clock } from "./words.js";

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/**
 * @param stepped whether a value holds until the next one
 * @param high pixels
 * @param sync charts of the same name share their cursor; the first and the last time are those of `data`
 * @param series [{label, colour (a CSS variable), dash}]
 * @param data [times in seconds, values of each series]
 * @param bands [{from, to, colour}] behind the lines
 * @param marks [{at, label, colour}] vertical lines
 */
export function Chart({ label, data, series, bands = [], marks = [], time = true, scheme, stepped = false, high = 260, sync = "", log = false }) {
  const place = useRef(null);
  useEffect(() => {
    if (!place.current || !data[0].length) return undefined;
    const axis = { stroke: colour("--text"), grid: { stroke: colour("--line") }, ticks: { stroke: colour("--line") } };
    const options = {
      width: place.current.clientWidth || 300,
      height: high,
      scales: { x: { time }, y: { distr: log ? 3 : 1 } },
      axes: [{ ...axis, ...(time ? { values: (_, ticks) => ticks.map((at) => clock(1000 * at)), space: 75 } : {}) }, { ...axis, size: 60 }],
      legend: { show: series.length > 1 },
      cursor: { y: false, ...(sync ? { sync: { key: sync } } : {}) },
      series: [{}, ...series.map((one) => ({
        label: one.label, stroke: colour(one.colour), width: 2, dash: one.dash, spanGaps: one.spans, points: { show: !stepped && data[0].length < 60 },
        paths: stepped ? window.uPlot.paths.stepped({ align: 1 }) : undefined,
      }))],
      hooks: { drawClear: [(plot) => behind(plot, bands)], draw: [(plot) => lines(plot, marks)] },
    };
    const plot = new window.uPlot(options, data, place.current);
    const resized = new ResizeObserver(() => plot.setSize({ width: place.current?.clientWidth || 300, height: high }));
    resized.observe(place.current);
    return () => {
      resized.disconnect();
      plot.destroy();
    };
  }, [data, bands, marks, scheme, log]);
  if (!data[0].length) return html`<p class="empty">Nothing was measured yet.</p>`;
  return html`<div class="chart" style=${{ minHeight: `${high + 10}px` }} ref=${place} role="img" aria-label=${label}></div>`;
}

function behind(plot, bands) {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.globalAlpha = 0.16;
  for (const band of bands) {
    const from = Math.max(bbox.left, plot.valToPos(band.from, "x", true));
    const to = Math.min(bbox.left + bbox.width, plot.valToPos(band.to, "x", true));
    ctx.fillStyle = colour(band.colour);
    if (to > from) ctx.fillRect(from, bbox.top, to - from, bbox.height);
  }
  ctx.restore();
}

function lines(plot, marks) {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.textAlign = "left";
  ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
  marks.forEach((mark, number) => {
    const x = plot.valToPos(mark.at, "x", true);
    if (x < bbox.left || x > bbox.left + bbox.width) return;
    ctx.strokeStyle = ctx.fillStyle = colour(mark.colour);
    ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    ctx.fillText(mark.label, x + 3, bbox.top + (12 + 13 * (number % 6)) * devicePixelRatio);
  });
  ctx.restore();
}
