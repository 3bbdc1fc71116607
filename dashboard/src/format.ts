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

// Times are those of UTC on every page, as days and hours of the API are: a link shows the same to each reader.
// Date and time as ISO 8601 has them: a column's head says the zone.
export const stamp = (time: string | number) => new Date(time).toISOString().slice(0, 19).replace("T", " ");
export const moment = (time: string | number) => `${stamp(time)} UTC`;
export const day = (time: string | number) => stamp(time).slice(0, 10);
// The begin of a day or hour of the API.
export const utc = (time: string | number, unit: string) => (unit === "hour" ? `${stamp(time).slice(0, 16)} UTC` : day(time));
// What the reader's own clocks show, with the name of their zone.
export const ownTime = (time: string | number) => `your time: ${new Date(time).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "long" })}`;

// The text of a form's field for date and time, whose zone is UTC, and the time of such a text. Empty: no time.
export function fieldOf(time: string | undefined): string {
  const at = new Date(time ?? "");
  return Number.isNaN(at.getTime()) ? "" : at.toISOString().slice(0, -1);
}
export const timeOf = (field: string): string | undefined => (field ? new Date(`${field}Z`).toISOString() : undefined);

export const endpoint = (address: string, port: number) => (address.includes(":") ? `[${address}]:${port}` : `${address}:${port}`);
export const percent = (part: number | null) => (part === null ? "–" : `${(100 * part).toFixed(1)} %`);
export const words = (name: string) => name.replaceAll("_", " ");
export const kind = (c: { kind: string; version: number | null }) =>
  c.kind === "mptcp" ? `MPTCP${c.version === null ? "" : ` v${c.version}`}` : "TCP";
export const count = (n: number | null) => (n === null ? "–" : n.toLocaleString("en"));
export const several = (n: number, what: string) => `${count(n)} ${what}${n === 1 ? "" : "s"}`;
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
