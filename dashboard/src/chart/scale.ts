// Periods and axes of charts over time. Times are seconds since the first ACK.

export interface Span {
  from: number;
  to: number;
}

const SPAN_MIN_S = 1e-6;

// Moves and shortens a period until it lies in the whole one.
export function within(span: Span, whole: Span): Span {
  const length = Math.min(Math.max(span.to - span.from, SPAN_MIN_S), whole.to - whole.from);
  const from = Math.min(Math.max(span.from, whole.from), whole.to - length);
  return { from, to: from + length };
}

// factor < 1: closer; what is at the time `at` stays where it is.
export function zoomed(span: Span, factor: number, at: number, whole: Span): Span {
  return within({ from: at - (at - span.from) * factor, to: at + (span.to - at) * factor }, whole);
}

export const moved = (span: Span, part: number, whole: Span): Span => {
  const by = (span.to - span.from) * part;
  return within({ from: span.from + by, to: span.to + by }, whole);
};

export interface Axis {
  low: number;
  high: number;
  log: boolean;
  // The place of a value, from 0 at the low end to 1 at the high end.
  at: (value: number) => number;
  of: (place: number) => number;
  ticks: number[];
}

export function axis(low: number, high: number, log: boolean, count: number): Axis {
  if (log) {
    const [a, b] = [Math.log10(Math.max(low, 1e-3)), Math.log10(Math.max(high, 2e-3))];
    return {
      low,
      high,
      log,
      at: (v) => (Math.log10(Math.max(v, 1e-3)) - a) / (b - a || 1),
      of: (p) => 10 ** (a + p * (b - a)),
      ticks: logTicks(low, high, count),
    };
  }
  return { low, high, log, at: (v) => (v - low) / (high - low || 1), of: (p) => low + p * (high - low), ticks: linearTicks(low, high, count) };
}

function linearTicks(low: number, high: number, count: number): number[] {
  const raw = (high - low) / Math.max(count, 1);
  if (!(raw > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw * 0.999) ?? power * 10;
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor(high / step + 1e-9);
  return Array.from({ length: Math.max(last - first + 1, 0) }, (_, i) => (first + i) * step);
}

function logTicks(low: number, high: number, count: number): number[] {
  const found: number[] = [];
  for (let power = Math.floor(Math.log10(Math.max(low, 1e-3))); 10 ** power <= high; power++)
    for (const m of [1, 2, 5]) {
      const v = m * 10 ** power;
      if (v >= low * 0.999 && v <= high * 1.001) found.push(v);
    }
  if (found.length < 2) return linearTicks(low, high, count);
  return found.length <= count * 1.6 ? found : found.filter((v) => /^1(0*|e.*)$|^0\.0*1$/.test(String(v)));
}

// A tick's text has as many digits as tell it from the next one.
export function tickText(value: number, ticks: number[]): string {
  const step = ticks.length > 1 ? Math.abs((ticks[1] ?? 0) - (ticks[0] ?? 0)) : Math.abs(value) || 1;
  const digits = Math.min(Math.max(0, -Math.floor(Math.log10(step) + 1e-9)), 9);
  return Math.abs(value) >= 1e4 ? value.toLocaleString("en", { maximumFractionDigits: digits }) : value.toFixed(digits);
}

// How many bytes the unit has in which an axis up to this value is labelled, and its name.
export const byteUnit = (high: number): readonly [number, string] => (high >= 1e9 ? [1e9, "GB"] : high >= 1e6 ? [1e6, "MB"] : high >= 1e3 ? [1e3, "kB"] : [1, "bytes"]);

export const tickTextLog = (value: number) => (value >= 1e4 ? value.toLocaleString("en") : String(Number(value.toPrecision(3))));

// The number of elements that are not greater than x, in ascending ones.
export function countUpTo(sorted: ArrayLike<number>, x: number): number {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((sorted[middle] ?? 0) <= x) low = middle + 1;
    else high = middle;
  }
  return low;
}
