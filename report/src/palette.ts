// Colours of configurations, from the style sheet, so that both themes have their own.

import type { Configuration } from "./model";

/** How lines are broken where there are more configurations than colours. */
const DASHES: number[][] = [[], [8, 4], [2, 3], [10, 3, 2, 3]];

export function css(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

export function colour(configuration: Configuration | undefined): string {
  return css(`--c${configuration?.colour ?? 7}`);
}

export function dash(configuration: Configuration | undefined): number[] {
  return DASHES[configuration?.dash ?? 0] ?? [];
}

/** The same colour, seen through. */
export function faded(of: string, share: number): string {
  return `color-mix(in srgb, ${of} ${Math.round(share * 100)}%, transparent)`;
}
