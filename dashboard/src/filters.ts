// Filters of connections, as the address of a page and a request to the API both have them.

const RANGES = ["bytes", "duration_s", "completion_s", "rtt_us", "rtt_inflation", "retransmission_rate", "goodput_bps", "subflow_count"];
const NAMES = [
  ...["address", "port", "kind", "sender_algorithm", "verdict", "mark", "tag", "uploader", "capture_id", "q", "from", "to", "since", "until"],
  ...RANGES.flatMap((r) => [`${r}_min`, `${r}_max`]),
];
// Of these only one value is possible.
const SINGLE = new Set(["kind", "capture_id", "q", "from", "to", "since", "until", ...RANGES.flatMap((r) => [`${r}_min`, `${r}_max`])]);

export type Query = Record<string, string[]>;

export function filtersOf(query: URLSearchParams): Query {
  return Object.fromEntries(NAMES.filter((n) => query.has(n)).map((n) => [n, query.getAll(n)]));
}

// Each filter that holds, as the reader sees it.
export function told(filters: Query): { name: string; value: string; text: string }[] {
  return Object.entries(filters).flatMap(([name, values]) =>
    values.map((value) => {
      const range = /^(.+)_(min|max)$/.exec(name);
      const text = range ? `${WORDS[range[1] ?? ""] ?? range[1]} ${range[2] === "min" ? "≥" : "≤"} ${value}` : `${WORDS[name] ?? name}: ${value}`;
      return { name, value, text };
    }),
  );
}

export const WORDS: Record<string, string> = {
  kind: "kind",
  sender_algorithm: "sender's algorithm",
  verdict: "verdict",
  mark: "finding",
  src: "source",
  dst: "destination",
  prefix: "source's prefix",
  peer_prefix: "destination's prefix",
  port: "port",
  dport: "destination's port",
  subflow_count: "subflows",
  uploader: "uploader",
  site: "site",
  q: "text",
  from: "captured from",
  to: "captured before",
  since: "uploaded from",
  until: "uploaded before",
  rtt_us: "median RTT, µs",
  rtt_inflation: "RTT inflation",
  retransmission_rate: "retransmission rate",
  goodput_bps: "goodput, bit/s",
  completion_s: "completion, s",
  duration_s: "duration, s",
  bytes: "bytes",
  hour: "hour",
  day: "day",
};

const PERIOD_MS: Record<string, number> = { hour: 3_600_000, day: 86_400_000 };

// The filter that selects what has this value in this dimension of the API's aggregates; undefined: there is none.
export function filterFor(dimension: string, value: string | null): Query | undefined {
  if (value === null) return undefined;
  if (dimension === "site") return { tag: [`site=${value}`] };
  if (dimension.startsWith("tag:")) return { tag: [`${dimension.slice(4)}=${value}`] };
  if (["src", "dst", "prefix", "peer_prefix"].includes(dimension)) return { address: [value] };
  if (dimension === "sport" || dimension === "dport") return { port: [value] };
  if (dimension === "subflow_count") return { subflow_count_min: [value], subflow_count_max: [value] };
  const period = PERIOD_MS[dimension];
  if (period) {
    const begin = Date.parse(value);
    return { from: [new Date(begin).toISOString()], to: [new Date(begin + period).toISOString()] };
  }
  return { [dimension]: [value] };
}

// Both hold. What can have one value only has that of `more`.
export function and(filters: Query, more: Query): Query {
  const both = { ...filters };
  for (const [name, values] of Object.entries(more))
    both[name] = SINGLE.has(name) ? values : [...new Set([...(both[name] ?? []), ...values])];
  return both;
}

export function without(filters: Query, less: Query): Query {
  const left = Object.entries(filters).map(([name, values]) => [name, values.filter((v) => !less[name]?.includes(v))] as const);
  return Object.fromEntries(left.filter(([, values]) => values.length));
}

export const holds = (filters: Query, part: Query) =>
  Object.entries(part).every(([name, values]) => values.every((v) => filters[name]?.includes(v)));

export function addressOf(path: string, query: Query): string {
  const text = new URLSearchParams(Object.entries(query).flatMap(([n, values]) => values.map((v) => [n, v]))).toString();
  return text ? `${path}?${text}` : path;
}

// Fields whose most frequent values the pages offer.
export const FIELDS = ["sender_algorithm", "kind", "verdict", "site", "prefix", "peer_prefix", "dport", "subflow_count"];
