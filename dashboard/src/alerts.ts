// Rules of alerts, in words.
import type { Alert } from "./api";
import { filtersOf, type Query } from "./filters";
import { several } from "./format";
import { known } from "./measures";

export const STATISTICS: Record<Alert["statistic"], string> = {
  p50: "median",
  p5: "5th percentile",
  p25: "25th percentile",
  p75: "75th percentile",
  p95: "95th percentile",
  p99: "99th percentile",
  mean: "mean",
  min: "smallest",
  max: "largest",
  count: "number of values",
  unreliable_share: "part that is unreliable",
};
export const CONDITIONS: Record<Alert["condition"], string> = { above: "is above", below: "is below", rises: "rises by more than", falls: "falls by more than", changes: "changes by more than" };
export const WINDOWS = { 3600: "hour", 21600: "6 hours", 86400: "day", 604800: "week", 2419200: "4 weeks" };
export const INTERVALS = { 60: "minute", 300: "5 minutes", 900: "15 minutes", 3600: "hour", 86400: "day" };
const UNITS: Record<string, string> = { goodput_bps: "bit/s", completion_short_s: "s", completion_long_s: "s", rtt_us: "µs", window: "segments" };
const TIMES = ["from", "to", "since", "until"];

type Rule = Pick<Alert, "measure" | "statistic" | "condition">;

// Seconds, as one of these choices calls them, or in the largest unit of which they are whole ones.
export function lasting(s: number, choices: Record<number, string>): string {
  const [unit, words] = ([[86_400, "day"], [3600, "hour"], [60, "minute"], [1, "second"]] as const).find(([u]) => s % u === 0) ?? [1, "second"];
  return choices[s] ?? several(s / unit, words);
}

export const wordsOf = (name: string) => known(name)?.words ?? name;

export const unitOf = (a: Rule): string =>
  ["rises", "falls", "changes"].includes(a.condition) ? "%" : ["count", "unreliable_share"].includes(a.statistic) ? "" : (UNITS[a.measure.split(":")[0] ?? ""] ?? "");

// The filters of the address or of an alert; which time they are about its window says.
export const filtersIn = (query: URLSearchParams): Query => Object.fromEntries(Object.entries(filtersOf(query)).filter(([n]) => !TIMES.includes(n)));
