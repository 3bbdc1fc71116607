// Lines and bands over time as a file. On the page uPlot draws them, onto a canvas only.
import { paint } from "../look";
import { csv, save, savePng } from "./files";
import { xOf, type Area } from "./lines";
import { axis, tickText } from "./scale";
import { asSvg, type Surface } from "./surface";

export interface Figure {
  title: string;
  // Seconds since 1970 where isDate, else from the beginning. In the order of time.
  times: number[];
  isDate: boolean;
  from: number;
  to: number;
  most: number;
  shown: (value: number) => string;
  bands: { words: string; low: (number | null)[]; high: (number | null)[]; colour: string; opacity: number }[];
  lines: { words: string; values: (number | null)[]; colour: string; dash?: number[] }[];
}

export type Kind = "PNG" | "SVG" | "CSV";

const WIDTH = 900;
const HEIGHT = 330;
const MAIN: Area = { x: 96, y: 36, width: WIDTH - 112, height: HEIGHT - 100 };

const timeText = (figure: Figure, ticks: number[], t: number) => (figure.isDate ? new Date(t * 1000).toISOString().slice(5, 16).replace("T", " ") : `${tickText(t, ticks)} s`);

// A tick for each day or hour, or for every few of them, when the axis has dates.
function timeTicks(figure: Figure): number[] {
  if (!figure.isDate) return axis(figure.from, figure.to, false, 9).ticks;
  const steps = [3600, 6 * 3600, 86400, 2 * 86400, 7 * 86400, 28 * 86400];
  const step = steps.find((s) => (figure.to - figure.from) / s <= 9) ?? 84 * 86400;
  const first = Math.ceil(figure.from / step);
  return Array.from({ length: Math.floor(figure.to / step) - first + 1 }, (_, i) => (first + i) * step);
}

// The value at a time between two that are known.
function between(figure: Figure, values: (number | null)[], t: number): number | null {
  const after = figure.times.findIndex((known) => known >= t);
  const [b, a] = [values[after], values[Math.max(after - 1, 0)]];
  if (after < 0 || a === null || a === undefined || b === null || b === undefined) return null;
  const [from, to] = [figure.times[Math.max(after - 1, 0)] ?? 0, figure.times[after] ?? 0];
  return to > from ? (t < from ? null : a + ((b - a) * (t - from)) / (to - from)) : t === to ? b : null;
}

function draw(surface: Surface, figure: Figure) {
  const [ink, soft, line] = [paint("ink"), paint("soft"), paint("line")];
  const values = axis(0, figure.most, false, 5);
  const x = xOf(MAIN, figure);
  const y = (v: number) => MAIN.y + MAIN.height * (1 - values.at(v));
  surface.text(MAIN.x, 16, figure.title, ink, "start", 13);
  surface.bars(values.ticks.flatMap((v) => [MAIN.x, Math.round(y(v)), MAIN.width, 1]), line);
  for (const v of values.ticks) surface.text(MAIN.x - 6, y(v), figure.shown(v), soft, "end");
  const ticks = timeTicks(figure);
  surface.bars(ticks.flatMap((t) => [Math.round(x(t)), MAIN.y, 1, MAIN.height]), line);
  for (const t of ticks) surface.text(x(t), MAIN.y + MAIN.height + 14, timeText(figure, ticks, t), soft, "middle", 11);
  surface.clipped(MAIN.x, MAIN.y, MAIN.width, MAIN.height, () => {
    for (const b of figure.bands) {
      const columns: number[] = [];
      for (let px = MAIN.x; px < MAIN.x + MAIN.width; px++) {
        const t = figure.from + ((px - MAIN.x) / MAIN.width) * (figure.to - figure.from);
        const [low, high] = [between(figure, b.low, t), between(figure, b.high, t)];
        if (low !== null && high !== null) columns.push(px, y(high), 1, y(low) - y(high));
      }
      surface.bars(columns, b.colour, b.opacity);
    }
    for (const l of figure.lines) {
      surface.path(figure.times.flatMap((t, i) => (typeof l.values[i] === "number" ? [x(t), y(l.values[i])] : [NaN, NaN])), l.colour, 2, l.dash);
      if (figure.times.length < 40) surface.bars(figure.times.flatMap((t, i) => (typeof l.values[i] === "number" ? [x(t) - 2.5, y(l.values[i]) - 2.5, 5, 5] : [])), l.colour);
    }
  });
  let at = MAIN.x;
  for (const l of [...figure.lines.map((l) => ({ ...l, opacity: 1, height: 3 })), ...figure.bands.map((b) => ({ ...b, height: 12 }))]) {
    surface.bars([at, HEIGHT - 22 - l.height / 2, 22, l.height], l.colour, l.opacity);
    surface.text(at + 28, HEIGHT - 22, l.words, ink);
    at += 52 + l.words.length * 7;
  }
}

function rows(figure: Figure): (string | number | null)[][] {
  const head = [figure.isDate ? "time" : "time_s", ...figure.lines.map((l) => l.words), ...figure.bands.flatMap((b) => [`${b.words}, from`, `${b.words}, to`])];
  const body = figure.times.map((t, i) => [
    figure.isDate ? new Date(t * 1000).toISOString() : t,
    ...figure.lines.map((l) => l.values[i] ?? null),
    ...figure.bands.flatMap((b) => [b.low[i] ?? null, b.high[i] ?? null]),
  ]);
  return [head, ...body];
}

export function saveFigure(kind: Kind, name: string, figure: Figure) {
  const drawn = (surface: Surface) => draw(surface, figure);
  if (kind === "CSV") save(`${name}.csv`, csv(rows(figure)), "text/csv");
  else if (kind === "SVG") save(`${name}.svg`, asSvg(WIDTH, HEIGHT, paint("paper"), figure.title, drawn), "image/svg+xml");
  else savePng(`${name}.png`, WIDTH, HEIGHT, paint("paper"), drawn);
}
