// Segments and SACK blocks: upright bars from a first to a last byte, at a time.
import { countUpTo, type Axis, type Span } from "./scale";
import type { Surface } from "./surface";
import { xOf, type Area } from "./lines";

export interface Bars {
  key: string;
  words: string; // "retransmissions"
  colour: string;
  width: number;
  // How kinds are told apart without colours: a letter above each bar, or strokes across its ends.
  letter: string;
  ends: boolean;
  times: Float64Array; // seconds, ascending
  low: Float64Array;
  high: Float64Array;
  count: number; // that they stand for
}

const LETTER_PX = 11;

export function places(bars: Bars, view: Span): [number, number] {
  return [countUpTo(bars.times, view.from - 1e-12), countUpTo(bars.times, view.to)];
}

export function extremes(bars: Bars, view: Span): [number, number] | undefined {
  const [begin, end] = places(bars, view);
  let [low, high] = [Infinity, -Infinity];
  for (let i = begin; i < end; i++) {
    low = Math.min(low, bars.low[i] ?? Infinity);
    high = Math.max(high, bars.high[i] ?? -Infinity);
  }
  return low <= high ? [low, high] : undefined;
}

export function drawBars(surface: Surface, bars: Bars, view: Span, area: Area, axis: Axis) {
  const [begin, end] = places(bars, view);
  const x = xOf(area, view);
  const y = (v: number) => area.y + area.height * (1 - axis.at(v));
  // Strokes are drawn where there is room for them.
  const isSparse = (end - begin) * LETTER_PX < area.width;
  const xywh: number[] = [];
  for (let i = begin; i < end; i++) {
    const [px, top, bottom] = [x(bars.times[i] ?? 0), y(bars.high[i] ?? 0), y(bars.low[i] ?? 0)];
    const height = Math.max(bottom - top, 1.5);
    xywh.push(px - bars.width / 2, bottom - height, bars.width, height);
    if (bars.ends && isSparse) xywh.push(px - 3, bottom - height, 6, 1, px - 3, bottom - 1, 6, 1);
  }
  surface.bars(xywh, bars.colour);
  let last = -Infinity;
  for (let i = begin; bars.letter && i < end; i++) {
    const px = x(bars.times[i] ?? 0);
    if (px - last < LETTER_PX) continue; // one letter for those beside each other
    surface.text(px, y(bars.high[i] ?? 0) - 7, bars.letter, bars.colour, "middle", LETTER_PX);
    last = px;
  }
}

// The last one that is not later.
export function barAt(bars: Bars, t: number): [number, number] | undefined {
  const i = countUpTo(bars.times, t) - 1;
  return i < 0 ? undefined : [bars.low[i] ?? 0, bars.high[i] ?? 0];
}
