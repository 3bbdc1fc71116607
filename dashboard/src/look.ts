// Each algorithm has a colour and each subflow a dash pattern, so that no legend of every pair is needed.
import { theme } from "./theme.svelte";

// Chosen for the largest least distance (OKLab) between any two as people with normal, red-, green- and blue-weak vision see
// them, among colours with a contrast of 3:1 to the paper.
const LIGHT = ["#0b5fae", "#c9731d", "#7f06f9", "#630303", "#1f8cf9", "#9e2e4a", "#101070", "#0505c7"];
const DARK = ["#6cb2ff", "#c76605", "#fcfc9c", "#ec79b3", "#6a6afb", "#06f9f9", "#ddb288", "#b7e236"];
const DASHES = [[], [7, 4], [2, 3], [10, 3, 2, 3], [4, 8], [14, 4], [2, 8], [6, 2]];

export const colour = (i: number) => {
  const colours = theme.dark ? DARK : LIGHT;
  return colours[(i < 0 ? 0 : i) % colours.length] ?? "#000";
};
export const dash = (subflow: number) => DASHES[subflow % DASHES.length] ?? [];
export const dashName = (subflow: number) => ["solid", "dashed", "dotted"][subflow] ?? `dash ${subflow}`;

// A colour of style.css, for what is drawn on a canvas. An effect that calls this runs again when the colours change.
export function paint(name: string): string {
  void theme.dark;
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

export const FONT = `system-ui, "DejaVu Sans", sans-serif`;
export const AXIS_FONT = `12px ${FONT}`;

// Called in an effect, which runs again when the colours change.
export function axisLook() {
  const [stroke, line] = [paint("soft"), paint("line")];
  return { stroke, font: AXIS_FONT, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 }, labelSize: 22 };
}

export const MARKS: Record<string, { glyph: string; colour: string; name: string }> = {
  fast_retransmit: { glyph: "▲", colour: "bad", name: "fast retransmit" },
  timeout: { glyph: "✕", colour: "ink", name: "timeout" },
  ece: { glyph: "◆", colour: "warn", name: "ECN" },
  tail_loss: { glyph: "▼", colour: "bad", name: "tail loss probe repaired" },
  undo: { glyph: "↶", colour: "good", name: "reduction undone" },
  join: { glyph: "⊢", colour: "accent", name: "joins" },
  leave: { glyph: "⊣", colour: "soft", name: "leaves" },
  idle: { glyph: "∅", colour: "soft", name: "restart after idle" },
};
