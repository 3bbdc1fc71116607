// The columns of the lists of connections and of captures. An address names those that its reader chose: `columns=src,bytes`.

export interface Column {
  id: string; // as the API calls its value
  label: string;
  sort?: "ascending" | "descending"; // the list can be sorted by it; the direction of the first click
  also?: { name: string; label: string; first: "ascending" | "descending" }; // a second value of the column, by which the list can be sorted
  kind?: "n" | "ends" | "findings" | "wrap" | "tags" | "soft" | "wrap soft"; // the style of its cells
  isFixed?: boolean; // always shown
  isExtra?: boolean; // shown only where it is chosen
}

export const CONNECTIONS: readonly Column[] = [
  { id: "first_ns", label: "captured (UTC)", sort: "descending", isFixed: true },
  { id: "src", label: "from", sort: "ascending", also: { name: "dst", label: "to", first: "ascending" }, kind: "ends" },
  { id: "kind", label: "kind", sort: "descending" },
  { id: "subflow_count", label: "subflows", sort: "descending", kind: "n" },
  { id: "sender_algorithm", label: "sender", sort: "ascending" },
  { id: "verdict", label: "verdict", sort: "descending", kind: "findings" },
  { id: "bytes", label: "bytes", sort: "descending", kind: "n" },
  { id: "duration_s", label: "duration", sort: "descending", kind: "n", isExtra: true },
  { id: "goodput_bps", label: "goodput", sort: "descending", kind: "n" },
  { id: "completion_s", label: "completion", sort: "descending", kind: "n" },
  { id: "retransmission_rate", label: "retransmitted", sort: "descending", kind: "n" },
  { id: "retransmitted_packets", label: "retransmitted packets", kind: "n", isExtra: true },
  { id: "rtt_us", label: "RTT", sort: "descending", kind: "n" },
  { id: "rtt_min_us", label: "smallest RTT", kind: "n", isExtra: true },
  { id: "rtt_inflation", label: "inflation", sort: "descending", kind: "n" },
  { id: "filename", label: "capture", sort: "ascending", kind: "wrap" },
  { id: "uploaded_at", label: "uploaded (UTC)", sort: "descending", isExtra: true },
  { id: "uploader", label: "uploader", sort: "ascending", kind: "wrap", isExtra: true },
  { id: "tags", label: "tags", kind: "tags" },
];

export const CAPTURES: readonly Column[] = [
  { id: "filename", label: "file", sort: "ascending", kind: "wrap", isFixed: true },
  { id: "state", label: "state", sort: "ascending", kind: "wrap" },
  { id: "created_at", label: "uploaded (UTC)", sort: "descending", kind: "soft" },
  { id: "first_ns", label: "captured (UTC)", sort: "descending", kind: "soft" },
  { id: "bytes", label: "size", sort: "descending", kind: "n" },
  { id: "packets", label: "packets", sort: "descending", kind: "n" },
  { id: "verdict", label: "capture", sort: "descending" },
  { id: "connections", label: "connections (bytes)", sort: "descending", kind: "wrap" },
  { id: "vantage", label: "capture point" },
  { id: "tags", label: "tags", kind: "tags" },
  { id: "notes", label: "notes", kind: "wrap soft" },
  { id: "actions", label: "actions", isFixed: true },
];

const BETWEEN = ",";

export const areColumns = (of: readonly Column[]) => (text: string) => text.split(BETWEEN).every((id) => of.some((c) => c.id === id));

// Whether each column is shown. text: of the address.
export function visibilityOf(columns: readonly Column[], text: string | null): Record<string, boolean> {
  const chosen = text?.split(BETWEEN).filter((id) => columns.some((c) => c.id === id)) ?? [];
  return Object.fromEntries(columns.map((c) => [c.id, c.isFixed || (chosen.length ? chosen.includes(c.id) : !c.isExtra)]));
}

// The text for an address; undefined: those that are shown to everybody.
export function textOf(columns: readonly Column[], visibility: Record<string, boolean>): string | undefined {
  const isShown = (c: Column) => visibility[c.id] !== false;
  if (columns.every((c) => c.isFixed || isShown(c) !== Boolean(c.isExtra))) return undefined;
  const shown = columns.filter(isShown);
  return (shown.some((c) => !c.isFixed) ? shown.filter((c) => !c.isFixed) : shown).map((c) => c.id).join(BETWEEN);
}
