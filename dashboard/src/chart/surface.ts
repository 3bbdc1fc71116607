// What charts are drawn on: a canvas, or the text of an SVG file. Coordinates are CSS pixels.

import { FONT } from "../look";

export type Anchor = "start" | "middle" | "end";

export interface Surface {
  // Upright bars: x, y, width, height of each, one after the other.
  bars(xywh: number[], colour: string, opacity?: number): void;
  // x, y of each corner, one after the other; NaN ends a part.
  path(xy: number[], colour: string, width: number, dash?: number[]): void;
  text(x: number, y: number, text: string, colour: string, anchor?: Anchor, size?: number): void;
  // Slanted lines over an area.
  hatch(x: number, y: number, width: number, height: number, colour: string): void;
  clipped(x: number, y: number, width: number, height: number, draw: () => void): void;
}

const DIGIT_EM = 0.64; // the width of a digit in the widest of FONT

// A label whose middle is below x. One that would reach beyond the end of the surface ends there.
export function below(surface: Surface, x: number, y: number, text: string, colour: string, end: number, size = 12) {
  const isWithin = x + (text.length * DIGIT_EM * size) / 2 <= end;
  surface.text(isWithin ? x : end, y, text, colour, isWithin ? "middle" : "end", size);
}

const HATCH_PX = 7;

export function onCanvas(ctx: CanvasRenderingContext2D): Surface {
  return {
    bars(xywh, colour, opacity = 1) {
      ctx.globalAlpha = opacity;
      ctx.fillStyle = colour;
      // One path of all bars would take several times as long.
      for (let i = 0; i < xywh.length; i += 4) ctx.fillRect(xywh[i] ?? 0, xywh[i + 1] ?? 0, xywh[i + 2] ?? 0, xywh[i + 3] ?? 0);
      ctx.globalAlpha = 1;
    },
    path(xy, colour, width, dash = []) {
      ctx.strokeStyle = colour;
      ctx.lineWidth = width;
      ctx.setLineDash(dash);
      ctx.beginPath();
      let isDown = false;
      for (let i = 0; i < xy.length; i += 2) {
        const [x, y] = [xy[i] ?? NaN, xy[i + 1] ?? NaN];
        if (Number.isNaN(x)) isDown = false;
        else if (isDown) ctx.lineTo(x, y);
        else {
          ctx.moveTo(x, y);
          isDown = true;
        }
      }
      ctx.stroke();
      ctx.setLineDash([]);
    },
    text(x, y, text, colour, anchor = "start", size = 12) {
      ctx.font = `${size}px ${FONT}`;
      ctx.fillStyle = colour;
      ctx.textAlign = anchor === "middle" ? "center" : anchor;
      ctx.textBaseline = "middle";
      ctx.fillText(text, x, y);
    },
    hatch(x, y, width, height, colour) {
      ctx.save();
      ctx.beginPath();
      ctx.rect(x, y, width, height);
      ctx.clip();
      this.path(hatching(x, y, width, height), colour, 1);
      ctx.restore();
    },
    clipped(x, y, width, height, draw) {
      ctx.save();
      ctx.beginPath();
      ctx.rect(x, y, width, height);
      ctx.clip();
      draw();
      ctx.restore();
    },
  };
}

// The lines keep their places on the page, so that areas that touch have one pattern.
function hatching(x: number, y: number, width: number, height: number): number[] {
  const lines: number[] = [];
  for (let sum = Math.floor((x + y) / HATCH_PX) * HATCH_PX; sum <= x + y + width + height; sum += HATCH_PX)
    lines.push(sum - y, y, sum - y - height, y + height, NaN, NaN);
  return lines;
}

const escaped = (text: string) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
const short = (n: number) => String(Math.round(n * 100) / 100);

// The last argument of `draw` is the surface; returns the file's text.
export function asSvg(width: number, height: number, ground: string, title: string, draw: (surface: Surface) => void): string {
  const parts: string[] = [];
  let clips = 0;
  const surface: Surface = {
    bars(xywh, colour, opacity = 1) {
      let d = "";
      for (let i = 0; i < xywh.length; i += 4)
        d += `M${short(xywh[i] ?? 0)} ${short(xywh[i + 1] ?? 0)}h${short(xywh[i + 2] ?? 0)}v${short(xywh[i + 3] ?? 0)}h${short(-(xywh[i + 2] ?? 0))}z`;
      if (d) parts.push(`<path d="${d}" fill="${escaped(colour)}"${opacity === 1 ? "" : ` opacity="${opacity}"`}/>`);
    },
    path(xy, colour, lineWidth, dash = []) {
      let d = "";
      let isDown = false;
      for (let i = 0; i < xy.length; i += 2) {
        const [x, y] = [xy[i] ?? NaN, xy[i + 1] ?? NaN];
        if (Number.isNaN(x)) isDown = false;
        else {
          d += `${isDown ? "L" : "M"}${short(x)} ${short(y)}`;
          isDown = true;
        }
      }
      const dashes = dash.length ? ` stroke-dasharray="${dash.join(" ")}"` : "";
      if (d) parts.push(`<path d="${d}" fill="none" stroke="${escaped(colour)}" stroke-width="${lineWidth}"${dashes}/>`);
    },
    text(x, y, text, colour, anchor = "start", size = 12) {
      parts.push(
        `<text x="${short(x)}" y="${short(y)}" fill="${escaped(colour)}" font-size="${size}" text-anchor="${anchor}" dominant-baseline="central">${escaped(text)}</text>`,
      );
    },
    hatch(x, y, w, h, colour) {
      this.clipped(x, y, w, h, () => this.path(hatching(x, y, w, h), colour, 1));
    },
    clipped(x, y, w, h, inner) {
      const id = `clip${++clips}`;
      parts.push(`<clipPath id="${id}"><rect x="${short(x)}" y="${short(y)}" width="${short(w)}" height="${short(h)}"/></clipPath><g clip-path="url(#${id})">`);
      inner();
      parts.push("</g>");
    },
  };
  draw(surface);
  const box = `xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="${escaped(FONT)}"`;
  return `<svg ${box}><title>${escaped(title)}</title><rect width="100%" height="100%" fill="${escaped(ground)}"/>${parts.join("")}</svg>\n`;
}
