// How numbers, times and names are written: the same words as on the terminal.
const STEERING = /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]+/g;

export const CATEGORIES = { PC: "progressing", WC: "watched", CC: "converged" };

/** Text from outside, short enough to be shown, without characters that would turn a line around. */
export function text(value, most = 400) {
  const clean = String(value ?? "").replace(STEERING, " ");
  return clean.length > most ? `${clean.slice(0, most)}…` : clean;
}

export function span(ms) {
  if (ms === null || ms === undefined) return "";
  const seconds = ms / 1000;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  const minutes = Math.floor(Math.round(seconds) / 60);
  const rest = Math.round(seconds) % 60;
  if (minutes === 0) return `${rest} s`;
  if (minutes < 60) return `${minutes} min ${String(rest).padStart(2, "0")} s`;
  return `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} min`;
}

export function clock(ms) {
  return ms ? new Date(ms).toLocaleTimeString([], { hour12: false }) : "";
}

export function percent(share) {
  if (share === null || share === undefined) return "";
  return `${(100 * share).toFixed(share < 0.1 ? 2 : 0)} %`;
}

/** The bounds of an estimate; one of them where they read the same. */
export function interval({ low, high }) {
  return span(low) === span(high) ? span(low) : `${span(low)} – ${span(high)}`;
}

/** A share of a whole without decimals. */
export const whole = (share) => `${Math.round(100 * share)} %`;

export function number(value, digits = 4) {
  return value === null || value === undefined ? "" : String(Number(value.toPrecision(digits)));
}

export function category(job) {
  if (job.unknown) return "unknown";
  return job.measured ? job.category : "new";
}

/** One letter beside the colour, so that the colour is never the only sign. */
export const LETTERS = { PC: "P", WC: "W", CC: "C", unknown: "?", new: "·" };

/** Categories as the timeline counts them, in words. */
export const CODES = [["new", "not measured yet"], ["PC", "progressing"], ["WC", "watched"], ["CC", "converged"], ["unknown", "growth unknown"]];

/** How a run ended, as the timeline counts it. */
export const ENDS = ["", "moved away", "suspended", "finished", "failed", "cancelled", "lost with its node", "its process stopped"];

export function limit(job) {
  if (!job.limited) return "";
  const cpu = job.limit_m === null ? "none" : `${job.limit_m}m`;
  return job.growth_list ? `${job.growth_list} ${cpu}` : cpu;
}

export function jobLink(name) {
  return `#/job/${encodeURIComponent(name)}`;
}

/** The GPUs of a node by their ids, as they follow its name. */
export const gpus = (ids) => (ids?.length ? `, GPU${ids.length > 1 ? "s" : ""} ${ids.join(", ")}` : "");
