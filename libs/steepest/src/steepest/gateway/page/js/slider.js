// The time slider: the pool as it was at any position of its log.
import { html, useEffect, useState } from "./html.js";
import { clock } from "./words.js";

const STEP_MS = 200;
const STEPS = 300;

export function Slider({ begin, end, at, at_ms, setAt, recording }) {
  const [playing, setPlaying] = useState(false);
  useEffect(() => {
    if (!playing) return undefined;
    const timer = setInterval(() => setAt((before) => next(before ?? begin, begin, end, () => setPlaying(false))), STEP_MS);
    return () => clearInterval(timer);
  }, [playing, begin, end]);
  const value = at ?? end;
  return html`<div class="slider">
    <button type="button" aria-pressed=${playing} onClick=${() => setPlaying(!playing)}>${playing ? "Pause" : "Play"}</button>
    <input type="range" aria-label="Position in the log" min=${begin} max=${end} step="1" value=${value}
      aria-valuetext="offset ${value}, ${clock(at_ms)}" onInput=${(event) => setAt(Number(event.target.value) >= end ? null : Number(event.target.value))} />
    <output>${clock(at_ms)} · ${value} of ${end}</output>
    <button type="button" disabled=${at === null} onClick=${() => { setPlaying(false); setAt(null); }}>${recording ? "To the end" : "Back to now"}</button>
  </div>`;
}

function next(before, begin, end, stop) {
  const after = before >= end ? begin : before + Math.max(1, Math.round((end - begin) / STEPS));
  if (after < end) return after;
  stop();
  return null;
}
