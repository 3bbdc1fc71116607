import type { ModelCheck } from "./api";

export function si(value: number | null | undefined, unit: string): string {
  if (value === null || value === undefined) return "–";
  for (const [factor, prefix] of [
    [1e12, "T"],
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "k"],
  ] as const)
    if (value >= factor) return `${(value / factor).toFixed(2)} ${prefix}${unit}`;
  return `${value.toFixed(0)} ${unit}`;
}

export const ms = (us: number | null) => (us === null ? "–" : `${(us / 1000).toFixed(1)} ms`);
export const seconds = (s: number | null) => (s === null ? "–" : `${s.toFixed(2)} s`);
// A moment in the reader's zone, to the second.
export const moment = (time: string | number | null) => (time === null ? "–" : new Date(time).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" }));
// The same in a column: the date as ISO 8601 has it, in the reader's zone.
export const stamp = (time: string | number | null) => (time === null ? "–" : new Date(time).toLocaleString("sv"));
// The begin of a day or hour of the API, which are those of UTC.
export const utc = (time: string | number, unit: string) =>
  unit === "hour"
    ? `${new Date(time).toLocaleString(undefined, { timeZone: "UTC", year: "numeric", month: "numeric", day: "numeric", hour: "numeric", minute: "2-digit" })} UTC`
    : new Date(time).toLocaleDateString(undefined, { timeZone: "UTC" });
export const endpoint = (address: string, port: number) => (address.includes(":") ? `[${address}]:${port}` : `${address}:${port}`);
export const percent = (part: number | null) => (part === null ? "–" : `${(100 * part).toFixed(1)} %`);
export const words = (name: string) => name.replaceAll("_", " ");
export const kind = (c: { kind: string; version: number | null }) =>
  c.kind === "mptcp" ? `MPTCP${c.version === null ? "" : ` v${c.version}`}` : "TCP";
export const count = (n: number | null) => (n === null ? "–" : n.toLocaleString("en"));
export const assignments = (constants: Record<string, number>) =>
  Object.entries(constants)
    .map(([name, value]) => `${name} = ${value}`)
    .join(", ");

// The subject of a check: a configuration of a specification, or a controller's steps on a connection.
export const checkName = (c: Pick<ModelCheck, "spec" | "configuration" | "algorithm" | "capture_filename" | "connection_number">) =>
  c.algorithm ? `${c.algorithm} on connection ${c.connection_number} of ${c.capture_filename}` : `${c.spec} ${c.configuration}`;

// Text of a TLA+ value that was converted to JSON: sets and sequences in [], records and functions in ().
export function value(v: unknown): string {
  if (Array.isArray(v)) return `[${v.map(value).join(", ")}]`;
  if (v !== null && typeof v === "object")
    return `(${Object.entries(v)
      .map(([k, x]) => `${k}: ${value(x)}`)
      .join(", ")})`;
  return typeof v === "boolean" ? (v ? "TRUE" : "FALSE") : String(v);
}

// The lines of a table cell: a function's values by argument (TLA+ counts from 1), or the value itself.
export function parts(v: unknown): [string, string][] {
  if (Array.isArray(v) && v.some((x) => x !== null && typeof x === "object")) return v.map((x, i) => [`${i + 1}`, value(x)]);
  return v !== null && typeof v === "object" && !Array.isArray(v)
    ? Object.entries(v).map(([k, x]) => [k, value(x)])
    : [["", value(v)]];
}
