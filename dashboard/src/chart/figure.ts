// Charts as files that are drawn anew for them: on the page uPlot draws onto a canvas only, and bars are parts of a table.
import { paint } from "../look";
import { csv, save, savePng } from "./files";
import { xOf, type Area } from "./lines";
import { axis, tickText } from "./scale";
import { asSvg, below, type Surface } from "./surface";

// What a file is made of: a picture, WIDTH wide if it does not say how wide, and the rows of its CSV, whose first one has the names.
export interface Figure {
  title: string;
  width?: number;
  height: number;
  draw: (surface: Surface) => void;
  rows: (string | number | null)[][];
}

export interface OverTime {
  title: string;
  // Seconds since 1970 where isDate, else from the beginning, or numbers of what `along` names. In ascending order.
  times: number[];
  isDate: boolean;
  along?: string;
  from: number;
  to: number;
  most: number;
  shown: (value: number) => string;
  bands: { words: string; low: (number | null)[]; high: (number | null)[]; colour: string; opacity: number }[];
  lines: { words: string; values: (number | null)[]; colour: string; dash?: number[]; isStep?: boolean }[]; // isStep: a value holds until the next one
}

// Spans below one another, each on its row: from, to and marks are values, on the scale from `least` to the row's `most`.
export interface Spans {
  title: string;
  least: number;
  axis?: { most: number; text: (value: number) => string }; // where all rows have the same scale
  rows: { words: string; told: string; from: number; to: number; most: number; colour: string; marks: { at: number; colour: string }[] }[];
  table: (string | number | null)[][];
}

// A table of values in colours. cells: by row and column; undefined: there is no value.
export interface Cells {
  title: string;
  rows: string[];
  columns: string[];
  cells: ({ words: string; told: string; colour: string } | undefined)[][];
  table: (string | number | null)[][];
}

export type Kind = "PNG" | "SVG" | "CSV";

export const WIDTH = 900;
const HEIGHT = 330;
const MAIN: Area = { x: 96, y: 36, width: WIDTH - 112, height: HEIGHT - 100 };

const timeText = (figure: OverTime, ticks: number[], t: number) =>
  figure.isDate ? new Date(t * 1000).toISOString().slice(5, 16).replace("T", " ") : `${tickText(t, ticks)}${figure.along ? "" : " s"}`;

// A tick for each day or hour, or for every few of them, when the axis has dates.
function timeTicks(figure: OverTime): number[] {
  if (!figure.isDate) return axis(figure.from, figure.to, false, 9).ticks;
  const steps = [3600, 6 * 3600, 86400, 2 * 86400, 7 * 86400, 28 * 86400];
  const step = steps.find((s) => (figure.to - figure.from) / s <= 9) ?? 84 * 86400;
  const first = Math.ceil(figure.from / step);
  return Array.from({ length: Math.floor(figure.to / step) - first + 1 }, (_, i) => (first + i) * step);
}

// The value at a time between two that are known.
function between(figure: OverTime, values: (number | null)[], t: number): number | null {
  const after = figure.times.findIndex((known) => known >= t);
  const [b, a] = [values[after], values[Math.max(after - 1, 0)]];
  if (after < 0 || a === null || a === undefined || b === null || b === undefined) return null;
  const [from, to] = [figure.times[Math.max(after - 1, 0)] ?? 0, figure.times[after] ?? 0];
  return to > from ? (t < from ? null : a + ((b - a) * (t - from)) / (to - from)) : t === to ? b : null;
}

function drawOverTime(surface: Surface, figure: OverTime) {
  const [ink, soft, line] = [paint("ink"), paint("soft"), paint("line")];
  const values = axis(0, figure.most, false, 5);
  const x = xOf(MAIN, figure);
  const y = (v: number) => MAIN.y + MAIN.height * (1 - values.at(v));
  surface.text(MAIN.x, 16, figure.title, ink, "start", 13);
  surface.bars(values.ticks.flatMap((v) => [MAIN.x, Math.round(y(v)), MAIN.width, 1]), line);
  for (const v of values.ticks) surface.text(MAIN.x - 6, y(v), figure.shown(v), soft, "end");
  const ticks = timeTicks(figure);
  surface.bars(ticks.flatMap((t) => [Math.round(x(t)), MAIN.y, 1, MAIN.height]), line);
  for (const t of ticks) below(surface, x(t), MAIN.y + MAIN.height + 14, timeText(figure, ticks, t), soft, WIDTH, 11);
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
      const corners = figure.times.flatMap((t, i) => {
        const [value, earlier] = [l.values[i], l.values[i - 1]];
        if (typeof value !== "number") return [NaN, NaN];
        return l.isStep && typeof earlier === "number" ? [x(t), y(earlier), x(t), y(value)] : [x(t), y(value)];
      });
      surface.path(corners, l.colour, 2, l.dash);
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

function rowsOverTime(figure: OverTime): (string | number | null)[][] {
  const head = [figure.along ?? (figure.isDate ? "time" : "time_s"), ...figure.lines.map((l) => l.words), ...figure.bands.flatMap((b) => [`${b.words}, from`, `${b.words}, to`])];
  const body = figure.times.map((t, i) => [
    figure.isDate ? new Date(t * 1000).toISOString() : t,
    ...figure.lines.map((l) => l.values[i] ?? null),
    ...figure.bands.flatMap((b) => [b.low[i] ?? null, b.high[i] ?? null]),
  ]);
  return [head, ...body];
}

export const overTime = (figure: OverTime): Figure => ({ title: figure.title, height: HEIGHT, draw: (surface) => drawOverTime(surface, figure), rows: rowsOverTime(figure) });

const ROW = 30;
const [NAMES, VALUES] = [300, 240]; // what rows are called, on the left, and what they say, on the right
const cut = (text: string, most: number) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

function drawSpans(surface: Surface, figure: Spans) {
  const [ink, soft, line] = [paint("ink"), paint("soft"), paint("line")];
  const [left, width] = [NAMES, WIDTH - NAMES - VALUES];
  const bottom = 36 + figure.rows.length * ROW;
  surface.text(16, 16, figure.title, ink, "start", 13);
  const x = (value: number, most: number) => left + (width * (Math.min(Math.max(value, figure.least), most) - figure.least)) / (most - figure.least || 1);
  if (figure.axis) {
    const { most, text } = figure.axis;
    for (const tick of axis(figure.least, most, false, 4).ticks) {
      surface.bars([Math.round(x(tick, most)), 36, 1, bottom - 36], line);
      surface.text(x(tick, most), bottom + 14, text(tick), soft, "middle", 11);
    }
  }
  figure.rows.forEach((row, i) => {
    const y = 36 + i * ROW + ROW / 2;
    surface.bars([left, y, width, 1], line);
    surface.text(16, y, cut(row.words, 42), ink);
    surface.bars([x(row.from, row.most), y - 6, Math.max(x(row.to, row.most) - x(row.from, row.most), 1), 12], row.colour, 0.6);
    for (const mark of row.marks) surface.bars([x(mark.at, row.most) - 1, y - 11, 2.5, 22], mark.colour);
    surface.text(left + width + 12, y, cut(row.told, 38), soft, "start", 11);
  });
}

export const spans = (figure: Spans): Figure => ({
  title: figure.title,
  height: 36 + figure.rows.length * ROW + (figure.axis ? 34 : 12),
  draw: (surface) => drawSpans(surface, figure),
  rows: figure.table,
});

const [CELL_NAMES, CELL, HEAD] = [200, 116, 64]; // names of rows, a cell's width, and what is above the first row

function drawCells(surface: Surface, figure: Cells) {
  const [ink, soft] = [paint("ink"), paint("soft")];
  const left = (column: number) => CELL_NAMES + column * CELL;
  surface.text(16, 16, figure.title, ink, "start", 13);
  surface.bars([16, HEAD - 4, left(figure.columns.length) - 20, 1], paint("line"));
  figure.columns.forEach((words, c) => surface.text(left(c) + 4, 46, cut(words, 17), soft, "start", 11));
  figure.rows.forEach((words, r) => {
    const y = HEAD + r * ROW;
    surface.text(16, y + ROW / 2, cut(words, 28), ink);
    figure.cells[r]?.forEach((cell, c) => {
      if (cell) surface.bars([left(c), y + 2, CELL - 4, ROW - 4], cell.colour);
      surface.text(left(c) + 6, y + ROW / 2, cut(cell?.words ?? "–", 13), cell ? ink : soft, "start", 11);
      if (cell) surface.text(left(c) + CELL - 10, y + ROW / 2, cell.told, soft, "end", 10);
    });
  });
}

export const cells = (figure: Cells): Figure => ({
  title: figure.title,
  width: Math.max(WIDTH, CELL_NAMES + figure.columns.length * CELL + 16),
  height: HEAD + figure.rows.length * ROW + 12,
  draw: (surface) => drawCells(surface, figure),
  rows: figure.table,
});

export function saveFigure(kind: Kind, name: string, figure: Figure) {
  const { width = WIDTH, height, title, draw } = figure;
  if (kind === "CSV") save(`${name}.csv`, csv(figure.rows), "text/csv");
  else if (kind === "SVG") save(`${name}.svg`, asSvg(width, height, paint("paper"), title, draw), "image/svg+xml");
  else savePng(`${name}.png`, width, height, paint("paper"), draw);
}
