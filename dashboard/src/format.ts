export function si(value: number | null | undefined, unit: string): string {
  if (value === null || value === undefined) return "–";
  for (const [factor, prefix] of [
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "k"],
  ] as const)
    if (value >= factor) return `${(value / factor).toFixed(2)} ${prefix}${unit}`;
  return `${value.toFixed(0)} ${unit}`;
}

export const ms = (us: number | null) => (us === null ? "–" : `${(us / 1000).toFixed(1)} ms`);
export const seconds = (s: number | null) => (s === null ? "–" : `${s.toFixed(2)} s`);
export const endpoint = (address: string, port: number) => (address.includes(":") ? `[${address}]:${port}` : `${address}:${port}`);
export const words = (name: string) => name.replaceAll("_", " ");
export const kind = (c: { kind: string; version: number | null }) =>
  c.kind === "mptcp" ? `MPTCP${c.version === null ? "" : ` v${c.version}`}` : "TCP";
