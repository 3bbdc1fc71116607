import { areColumns, CAPTURES, CONNECTIONS } from "./columns";
import { utc } from "./format";
import { known, measure } from "./measures";
import { uploaderName } from "./names.svelte";

// Filters of connections, as the address of a page and a request to the API both have them.

interface Range {
  words: string;
  unit: string;
  factor: number; // of the API's unit in the one that readers see
  most?: number; // in the API's unit
}

export const RANGES: Record<string, Range> = {
  bytes: { words: "bytes", unit: "", factor: 1 },
  duration_s: { words: "duration", unit: "s", factor: 1 },
  completion_s: { words: "completion", unit: "s", factor: 1 },
  rtt_us: { words: "median RTT", unit: "ms", factor: 1e3 },
  rtt_inflation: { words: "RTT inflation", unit: "", factor: 1 },
  retransmission_rate: { words: "retransmission rate", unit: "%", factor: 1e-2, most: 1 },
  goodput_bps: { words: "goodput", unit: "Mbit/s", factor: 1e6 },
  subflow_count: { words: "subflows", unit: "", factor: 1 },
};
const BOUNDS = Object.keys(RANGES).flatMap((r) => [`${r}_min`, `${r}_max`]);
const TIMES = ["from", "to", "since", "until"];
// Of these a connection has several values, or the API asks for each that is given: all of them hold.
const ALL = ["tag", "without_tag", "all_marks", "reliable", "measured"];
// One of the values that are given holds.
const NETWORKS = ["address", "src", "dst"];
export const SEVERAL = [...NETWORKS, "port", "sport", "dport", "sender_algorithm", "verdict", "mark", "capture_verdict", "uploader", ...ALL];
const NAMES = [...SEVERAL, "kind", "capture_id", "q", ...TIMES, ...BOUNDS];

export type Query = Record<string, string[]>;

export function filtersOf(query: URLSearchParams): Query {
  return Object.fromEntries(NAMES.filter((n) => query.has(n)).map((n) => [n, query.getAll(n)]));
}

export const STATES = ["queued", "running", "done", "failed"]; // of a capture's analysis
export const SPANS = { week: 7, "4 weeks": 28, "12 weeks": 84 } as const;
// Dimensions of a measure of connections; a measure of groups has those that are the same for a whole capture.
export const OF_CAPTURES = ["site", "uploader", "capture_verdict", "day", "hour"];
export const OF_CONNECTIONS = ["sender_algorithm", "kind", "subflow_count", "verdict", "mark", "prefix", "peer_prefix", "src", "dst", "sport", "dport"];

// What the addresses of pages with filters have besides, and whether a value of it is one.
type Parameters = Record<string, (value: string) => boolean>;
const whatever = () => true; // the server says what it takes
const isMeasure = (value: string) => known(value) !== undefined;
const isDimension = (value: string) => [...OF_CAPTURES, ...OF_CONNECTIONS].includes(value) || value.startsWith("tag:");
const isUnreliable = (value: string) => value === "counted";
export const PARAMETERS = {
  team: {
    span: (value) => value in SPANS, compare: (value) => value === "before", unreliable: isUnreliable,
    measure: isMeasure, rows: isDimension, columns: isDimension, values: whatever,
  },
  captures: { sort: whatever, values: whatever, columns: areColumns(CAPTURES), state: (value) => STATES.includes(value) },
  connections: { sort: whatever, values: whatever, columns: areColumns(CONNECTIONS) },
  comparison: { selection: whatever, baseline: whatever, measure: isMeasure, unreliable: isUnreliable },
} satisfies Record<string, Parameters>;

// What an address has that selects nothing: names that are neither filters nor parameters of the page, and parameters that have
// another value than they can.
export interface Unknown {
  name: string;
  value?: string; // undefined: the name is unknown
}
export const unknownIn = (query: URLSearchParams, own: Parameters): Unknown[] =>
  [...new Set(query.keys())].flatMap((name) => {
    if (NAMES.includes(name)) return [];
    const value = query.get(name) ?? "";
    return !(name in own) ? [{ name }] : own[name]?.(value) ? [] : [{ name, value }];
  });

// Each filter that holds, as the reader sees it.
export function told(filters: Query): { name: string; value: string; text: string }[] {
  return Object.entries(filters).flatMap(([name, values]) =>
    values.map((value) => {
      const range = RANGES[name.slice(0, -4)];
      const bound = range && `${range.words} ${name.endsWith("_min") ? "≥" : "≤"} ${Number.isNaN(Number(value)) ? value : `${inUnit(range, value)} ${range.unit}`.trim()}`;
      return { name, value, text: bound ?? `${wordsOf(name)}: ${shownValue(name, value)}` };
    }),
  );
}

// A bound as a reader sees it, and back. Both are exact to twelve digits.
export const inUnit = (range: Range, value: string) => String(Number((Number(value) / range.factor).toPrecision(12)));
export const ofUnit = (range: Range, value: number) => String(Number((value * range.factor).toPrecision(12)));

export const WORDS: Record<string, string> = {
  kind: "kind",
  sender_algorithm: "sender's algorithm",
  verdict: "verdict",
  mark: "finding",
  all_marks: "finding",
  reliable: "with a reliable value of",
  measured: "with a value of",
  without_tag: "without the tag",
  src: "source",
  dst: "destination",
  prefix: "source's prefix",
  peer_prefix: "destination's prefix",
  port: "port",
  sport: "source's port",
  dport: "destination's port",
  subflow_count: "subflows",
  uploader: "uploader",
  capture_verdict: "capture's verdict",
  site: "site",
  q: "text",
  from: "captured from",
  to: "captured before",
  since: "uploaded from",
  until: "uploaded before",
  hour: "hour",
  day: "day",
};

// What a filter or a dimension is called.
export const wordsOf = (name: string) => WORDS[name] ?? name.replace(/^tag:/, "tag ");

// A value of a filter or a dimension as the reader sees it; null: there is none.
export function shownValue(name: string, value: string | null): string {
  if (value === null) return "none";
  if (name === "uploader") return uploaderName(value);
  if (name === "day" || name === "hour") return utc(value, name);
  if (name === "reliable" || name === "measured") return measure(value).words;
  return value;
}

const PERIOD_MS: Record<string, number> = { hour: 3_600_000, day: 86_400_000 };
export const isTime = (dimension: string | undefined) => dimension !== undefined && dimension in PERIOD_MS;

// The filter that selects what has this value in this dimension of the API's aggregates; null: what has none.
export function filterFor(dimension: string, value: string | null): Query {
  const tag = dimension === "site" ? "site" : dimension.startsWith("tag:") ? dimension.slice(4) : undefined;
  if (tag !== undefined) return value === null ? { without_tag: [tag] } : { tag: [`${tag}=${value}`] };
  const one = value ?? "none";
  if (dimension === "prefix" || dimension === "peer_prefix") return { [dimension === "prefix" ? "src" : "dst"]: [one] };
  if (dimension === "mark") return { all_marks: [one] };
  if (dimension === "subflow_count") return { subflow_count_min: [one], subflow_count_max: [one] };
  const period = PERIOD_MS[dimension];
  if (period) {
    const begin = Date.parse(one);
    return { from: [new Date(begin).toISOString()], to: [new Date(begin + period).toISOString()] };
  }
  return { [dimension]: [one] };
}

// The connections that a measure's values are of, as aggregates count them. unreliable: those count, too.
export const counted = (filters: Query, name: string, unreliable: boolean) => and(filters, { [unreliable ? "measured" : "reliable"]: [name] });

// Is the first network a part of the second?
function isWithin(part: string, whole: string): boolean {
  const [a, b] = [bits(part), bits(whole)];
  return a !== undefined && b !== undefined && a.startsWith(b);
}

// An address or a prefix as the digits that it fixes, after its family; undefined: it is neither.
function bits(network: string): string | undefined {
  const [address = "", length] = network.trim().split("/");
  const words = address.includes(":") ? groups(address) : address.split(".");
  const [base, size, count] = address.includes(":") ? ([16, 16, 8] as const) : ([10, 8, 4] as const);
  const numbers = words.map((w) => parseInt(w, base));
  if (words.length !== count || numbers.some(Number.isNaN)) return undefined;
  const all = numbers.map((n) => n.toString(2).padStart(size, "0")).join("");
  return size + all.slice(0, length === undefined ? all.length : Number(length));
}

function groups(address: string): string[] {
  const [head = [], tail] = address.split("::").map((part) => part.split(":").filter(Boolean));
  return tail ? [...head, ...Array<string>(Math.max(8 - head.length - tail.length, 0)).fill("0"), ...tail] : head;
}

// What both have of one filter.
function common(name: string, mine: string[], more: string[]): string[] {
  if (ALL.includes(name)) return [...new Set([...mine, ...more])];
  if (NETWORKS.includes(name))
    return [...new Set(mine.flatMap((a) => more.flatMap((b) => (isWithin(a, b) ? [a] : isWithin(b, a) ? [b] : []))))];
  const [a = "", b = ""] = [mine[0], more[0]];
  const order = TIMES.includes(name) ? Date.parse(a) - Date.parse(b) : Number(a) - Number(b);
  if (name === "from" || name === "since" || name.endsWith("_min")) return [order > 0 ? a : b];
  if (name === "to" || name === "until" || name.endsWith("_max")) return [order < 0 ? a : b];
  return mine.filter((v) => more.includes(v));
}

// Both hold. Of a filter that cannot hold with both, that of `more` does.
export function and(filters: Query, more: Query): Query {
  const both = { ...filters };
  for (const [name, values] of Object.entries(more)) {
    const found = filters[name] ? common(name, filters[name], values) : values;
    both[name] = found.length ? found : values;
  }
  return both;
}

export function without(filters: Query, less: Query): Query {
  const left = Object.entries(filters).map(([name, values]) => [name, values.filter((v) => !less[name]?.includes(v))] as const);
  return Object.fromEntries(left.filter(([, values]) => values.length));
}

export const holds = (filters: Query, part: Query) =>
  Object.entries(part).every(([name, values]) => values.every((v) => filters[name]?.includes(v)));

export const textOf = (query: Query) => new URLSearchParams(Object.entries(query).flatMap(([n, values]) => values.map((v) => [n, v]))).toString();

// Without parameters that are not given.
export const queryOf = (values: Record<string, string | number | null | undefined>): Query =>
  Object.fromEntries(Object.entries(values).flatMap(([name, v]) => (v === undefined || v === null || v === "" ? [] : [[name, [String(v)]]])));

export function addressOf(path: string, query: Query): string {
  const text = textOf(query);
  return text ? `${path}?${text}` : path;
}

// Fields whose most frequent values the pages offer.
export const FIELDS_OF_CAPTURES = ["capture_verdict", "uploader"];
export const FIELDS = ["sender_algorithm", "kind", "verdict", "mark", "prefix", "peer_prefix", "dport", "subflow_count"];
