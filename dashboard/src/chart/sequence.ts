// The time-sequence graph of a subflow: what the API answers, as lines and bars.
import type { Sequence } from "../api";
import { colour, paint } from "../look";
import type { Bars } from "./bars";
import { count } from "../format";
import type { Line } from "./lines";

type Kind = Sequence["segments"][number]["kind"];
type What = Sequence["lines"][number]["what"];

const LINES: Record<What, { words: string; colour: string; dash: number[]; width: number }> = {
  acked: { words: "acknowledged", colour: "good", dash: [], width: 1.5 },
  edge: { words: "receiver's window", colour: "warn", dash: [6, 3], width: 1.25 },
  sent: { words: "sent", colour: "soft", dash: [2, 2], width: 1 },
  allowed: { words: "", colour: "", dash: [], width: 1.75 },
};

const BARS: Record<Kind, { words: string; colour: string; width: number; letter: string; ends: boolean }> = {
  data: { words: "data", colour: "ink", width: 1.5, letter: "", ends: false },
  sack: { words: "SACK blocks", colour: "accent", width: 1.5, letter: "", ends: true },
  retransmission: { words: "retransmissions", colour: "bad", width: 3, letter: "R", ends: false },
  reinjection: { words: "reinjections", colour: "warn", width: 3, letter: "J", ends: false },
  dsack: { words: "SACK of duplicates", colour: "bad", width: 1.5, letter: "D", ends: true },
};

// What a reader may hide, with the words of its button.
export const PARTS: Record<string, { words: string; has: (Kind | What)[] }> = {
  data: { words: "data", has: ["data", "sent"] },
  again: { words: "retransmissions", has: ["retransmission", "reinjection"] },
  sack: { words: "SACK", has: ["sack", "dsack"] },
  edge: { words: "receiver's window", has: ["edge"] },
};

const bytes = (v: number) => count(Math.round(v));

// shift_ns: from the beginning of the page's time to that of the answer. place: of an algorithm among the replays.
export function linesOf(graph: Sequence, shift_ns: number, hidden: (part: Kind | What) => boolean, place: (algorithm: string) => number): Line[] {
  const hasData = graph.segments.some((s) => s.kind === "data");
  return graph.lines
    .filter((l) => !hidden(l.what) && !(l.what === "sent" && hasData))
    .map((l) => ({
      key: `${l.what}:${l.algorithm ?? ""}`,
      words: l.what === "allowed" ? `una + cwnd of ${l.algorithm}` : LINES[l.what].words,
      group: "window",
      colour: l.algorithm === null ? paint(LINES[l.what].colour) : colour(place(l.algorithm)),
      dash: LINES[l.what].dash,
      width: LINES[l.what].width,
      isStep: true,
      isLoose: l.what === "edge" || l.what === "allowed",
      times: Float64Array.from(l.time_ns, (t) => (t + shift_ns) / 1e9),
      values: Float64Array.from(l.values, (v) => v ?? NaN),
      rows: l.rows,
      shown: bytes,
    }));
}

export function barsOf(graph: Sequence, shift_ns: number, hidden: (part: Kind | What) => boolean): Bars[] {
  return graph.segments
    .filter((s) => !hidden(s.kind))
    .map((s) => ({
      key: s.kind,
      ...BARS[s.kind],
      colour: paint(BARS[s.kind].colour),
      times: Float64Array.from(s.time_ns, (t) => (t + shift_ns) / 1e9),
      low: Float64Array.from(s.position),
      high: Float64Array.from(s.position, (p, i) => p + (s.bytes[i] ?? 0)),
      count: s.count,
    }));
}
