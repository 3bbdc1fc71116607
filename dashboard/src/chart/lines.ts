// Lines over time, drawn so that no extreme of a pixel is lost.
import { countUpTo, type Axis, type Span } from "./scale";
import type { Surface } from "./surface";

export interface Line {
  key: string;
  words: string; // "cubic, subflow 0"
  group: "window" | "rtt";
  colour: string;
  dash: number[];
  width: number;
  isStep: boolean; // a value holds until the next one
  times: Float64Array; // seconds, ascending
  values: Float64Array; // NaN: none
  rows: number; // ACKs that it stands for
  // It may leave the picture: an axis that does not begin at 0 follows the other lines.
  isLoose?: boolean;
  shown: (value: number) => string;
}

export interface Area {
  x: number;
  y: number;
  width: number;
  height: number;
}

export const xOf = (area: Area, view: Span) => {
  const scale = area.width / (view.to - view.from);
  return (t: number) => area.x + (t - view.from) * scale;
};

const yOf = (area: Area, axis: Axis) => (v: number) => area.y + area.height * (1 - axis.at(v));

// The places of the points in a view, with one more on each side.
function places(line: Line, view: Span): [number, number] {
  return [Math.max(countUpTo(line.times, view.from) - 1, 0), Math.min(countUpTo(line.times, view.to) + 1, line.times.length)];
}

export function extremes(line: Line, view: Span): [number, number] | undefined {
  const [begin, end] = places(line, view);
  let [low, high] = [Infinity, -Infinity];
  for (let i = begin; i < end; i++) {
    const v = line.values[i] ?? NaN;
    if (v < low) low = v;
    if (v > high) high = v;
  }
  return low <= high ? [low, high] : undefined;
}

// The value at a time: of a step line the last one before, of samples the last one, too.
export function valueAt(line: Line, t: number): number | undefined {
  let i = countUpTo(line.times, t) - 1;
  while (i > 0 && Number.isNaN(line.values[i])) i--;
  const v = line.values[i];
  if (v === undefined || Number.isNaN(v)) return undefined;
  return i === line.times.length - 1 && t > (line.times[i] ?? 0) + 1e-9 && !line.isStep ? undefined : v;
}

export function drawLine(surface: Surface, line: Line, view: Span, area: Area, axis: Axis) {
  const [begin, end] = places(line, view);
  if (end - begin < 1) return;
  const [x, y] = [xOf(area, view), yOf(area, axis)];
  if (end - begin > 2 * area.width) drawBand(surface, line, begin, end, area, x, y);
  else if (line.isStep) drawSteps(surface, line, begin, end, x, y);
  else drawSamples(surface, line, begin, end, x, y);
}

function drawSteps(surface: Surface, line: Line, begin: number, end: number, x: (t: number) => number, y: (v: number) => number) {
  const xy: number[] = [];
  let before = NaN;
  for (let i = begin; i < end; i++) {
    const v = line.values[i] ?? NaN;
    if (Number.isNaN(v)) {
      xy.push(NaN, NaN);
      before = NaN;
      continue;
    }
    const [px, py] = [x(line.times[i] ?? 0), y(v)];
    if (!Number.isNaN(before)) xy.push(px, before);
    xy.push(px, py);
    before = py;
  }
  surface.path(xy, line.colour, line.width, line.dash);
}

function drawSamples(surface: Surface, line: Line, begin: number, end: number, x: (t: number) => number, y: (v: number) => number) {
  const size = end - begin > 400 ? 2 : 3;
  const xywh: number[] = [];
  for (let i = begin; i < end; i++) {
    const v = line.values[i] ?? NaN;
    if (!Number.isNaN(v)) xywh.push(x(line.times[i] ?? 0) - size / 2, y(v) - size / 2, size, size);
  }
  surface.bars(xywh, line.colour);
}

// From the least to the greatest value in each column of pixels. The gaps of the line's dash pattern are paler, not left out.
function drawBand(surface: Surface, line: Line, begin: number, end: number, area: Area, x: (t: number) => number, y: (v: number) => number) {
  const count = Math.ceil(area.width) + 1;
  const low = new Float64Array(count).fill(Infinity);
  const high = new Float64Array(count).fill(-Infinity);
  let before = NaN;
  let last = -1;
  const take = (column: number, v: number) => {
    if (v < (low[column] ?? 0)) low[column] = v;
    if (v > (high[column] ?? 0)) high[column] = v;
  };
  for (let i = begin; i < end; i++) {
    const v = line.values[i] ?? NaN;
    const column = Math.min(Math.max(Math.floor(x(line.times[i] ?? 0) - area.x), -1), count - 1);
    if (line.isStep && !Number.isNaN(before)) for (let c = Math.max(last, 0); c <= column; c++) take(c, before);
    if (!Number.isNaN(v) && column >= 0) take(column, v);
    before = v;
    last = column;
  }
  const period = line.dash.reduce((a, b) => a + b, 0);
  const strong: number[] = [];
  const pale: number[] = [];
  for (let c = 0; c < count; c++) {
    if (!((low[c] ?? 0) <= (high[c] ?? 0))) continue;
    const [top, bottom] = [y(high[c] ?? 0), y(low[c] ?? 0)];
    const height = Math.max(bottom - top, line.width);
    let isGap = false;
    if (period) {
      let rest = c % period;
      for (const [i, part] of line.dash.entries()) {
        if (rest < part) {
          isGap = i % 2 === 1;
          break;
        }
        rest -= part;
      }
    }
    (isGap ? pale : strong).push(area.x + c, top - (height - (bottom - top)) / 2, 1, height);
  }
  surface.bars(strong, line.colour);
  surface.bars(pale, line.colour, 0.35);
}
