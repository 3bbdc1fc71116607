// Each algorithm has a colour and each subflow a dash pattern, so that no legend of every pair is needed.
const COLOURS = ["#0b5fae", "#c8501c", "#1b8a5a", "#8a3fa8", "#a3861a", "#c2185b", "#00838f", "#5d4037"];
const DASHES = [[], [7, 4], [2, 3], [10, 3, 2, 3], [4, 8], [14, 4], [2, 8], [6, 2]];

export const colour = (i: number) => COLOURS[(i < 0 ? 0 : i) % COLOURS.length] ?? "#000";
export const dash = (subflow: number) => DASHES[subflow % DASHES.length] ?? [];
export const dashName = (subflow: number) => ["solid", "dashed", "dotted"][subflow] ?? `dash ${subflow}`;

export const MARKS: Record<string, { glyph: string; colour: string; name: string }> = {
  fast_retransmit: { glyph: "▲", colour: "#c62828", name: "fast retransmit" },
  timeout: { glyph: "✕", colour: "#000000", name: "timeout" },
  ece: { glyph: "◆", colour: "#e07b00", name: "ECN" },
  tail_loss: { glyph: "▼", colour: "#c62828", name: "tail loss probe repaired" },
  undo: { glyph: "↶", colour: "#1b7f4b", name: "reduction undone" },
  join: { glyph: "⊢", colour: "#0b5fae", name: "joins" },
  leave: { glyph: "⊣", colour: "#5c6b7d", name: "leaves" },
  idle: { glyph: "∅", colour: "#5c6b7d", name: "restart after idle" },
};
