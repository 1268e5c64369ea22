// Colours of configurations. They come from the style sheet, so that each theme has its own.

import type { Configuration } from "./model";

export function css(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** A hue for each store; a value of a factor has part of it. */
export function colour(configuration: Configuration | undefined): string {
  const hue = css(`--c${configuration?.colour ?? 7}`);
  const shade = configuration?.shade ?? 100;
  return shade === 100 ? hue : `color-mix(in oklab, ${hue} ${shade}%, ${css("--ground")})`;
}

/** A colour as `rgb(…)`, which every program that shows SVG knows. */
export function plain(of: string): string {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 1;
  const ctx = canvas.getContext("2d");
  if (!ctx) return of;
  ctx.fillStyle = of;
  ctx.fillRect(0, 0, 1, 1);
  const [r, g, b] = ctx.getImageData(0, 0, 1, 1).data;
  return `rgb(${r}, ${g}, ${b})`;
}

/** A translucent colour. */
export function faded(of: string, share: number): string {
  return `color-mix(in srgb, ${of} ${Math.round(share * 100)}%, transparent)`;
}
