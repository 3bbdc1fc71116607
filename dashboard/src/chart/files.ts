// Charts as files.
import { onCanvas, type Surface } from "./surface";

// A cell that a spreadsheet would take for a formula begins with an apostrophe (OWASP, CSV injection). Numbers are not touched.
export function cell(value: string | number | null): string {
  if (value === null) return "";
  if (typeof value === "number") return String(value);
  const safe = /^[=+\-@\t\r\n]/.test(value) ? `'${value}` : value;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

export const csv = (rows: (string | number | null)[][]) => rows.map((r) => r.map(cell).join(",")).join("\r\n") + "\r\n";

export function save(name: string, content: Blob | string, type = "text/plain") {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(typeof content === "string" ? new Blob([content], { type }) : content);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

// Twice as many pixels as on the page, for paper and for screens that show that many.
export function savePng(name: string, width: number, height: number, ground: string, draw: (surface: Surface) => void) {
  const canvas = document.createElement("canvas");
  canvas.width = width * 2;
  canvas.height = height * 2;
  const ctx = canvas.getContext("2d");
  if (!ctx) return;
  ctx.scale(2, 2);
  const surface = onCanvas(ctx);
  surface.bars([0, 0, width, height], ground);
  draw(surface);
  canvas.toBlob((blob) => blob && save(name, blob));
}
