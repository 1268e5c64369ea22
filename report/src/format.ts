// Figures for people: three digits and a unit, by the same rules as the text of the page.

import type { Unit } from "./model";

function grouped(n: number): string {
  return Math.round(n).toString().replace(/\B(?=(\d{3})+(?!\d))/g, ",");
}

export function digits(value: number): string {
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size < 0.0009995) return value.toExponential(1);
  if (size < 0.9995) return value.toFixed(3);
  if (size < 9.995) return value.toFixed(2);
  if (size < 99.95) return value.toFixed(1);
  return grouped(value);
}

export function duration(ns: number): string {
  const size = Math.abs(ns);
  if (size === 0) return "0 ns";
  if (size < 999.5) return `${digits(ns)} ns`;
  if (size < 999.5e3) return `${digits(ns / 1e3)} µs`;
  if (size < 999.5e6) return `${digits(ns / 1e6)} ms`;
  if (size < 119.5e9) return `${digits(ns / 1e9)} s`;
  const seconds = Math.round(ns / 1e9);
  const minutes = Math.floor(seconds / 60);
  return minutes < 120 ? `${minutes} m ${seconds % 60} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} m`;
}

export function rate(perSecond: number): string {
  const size = Math.abs(perSecond);
  if (size < 9999.5) return digits(perSecond);
  if (size < 999.5e3) return `${digits(perSecond / 1e3)} k`;
  return `${digits(perSecond / 1e6)} M`;
}

export function bytes(n: number): string {
  let size = n;
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (Math.abs(size) < 1023.5) return unit === "B" ? `${Math.round(size)} B` : `${digits(size)} ${unit}`;
    size /= 1024;
  }
  return `${digits(size)} TiB`;
}

/** A quantile q as a percentage, from 1 / (1 - q). */
function quantile(inverse: number): string {
  const share = 100 * (1 - 1 / inverse);
  const nines = Math.max(0, Math.round(Math.log10(inverse)) - 2);
  return `${share.toFixed(nines)} %`;
}

export function shown(value: number, unit: Unit): string {
  switch (unit) {
    case "seconds":
      return duration(value * 1e9);
    case "ns":
      return duration(value);
    case "per-second":
      return rate(value);
    case "bytes":
      return bytes(value);
    case "share":
      return `${digits(value * 100)} %`;
    case "ratio":
      return `×${digits(value)}`;
    case "quantile":
      return quantile(value);
    default:
      return digits(value);
  }
}

/** A shorter form, for the ticks of an axis. */
export function tick(value: number, unit: Unit): string {
  const text = shown(value, unit);
  // Ticks are at round numbers, so `1.00 ms` says no more than `1 ms`.
  return text.replace(/(\d)\.0+(?=\D|$)/, "$1").replace(/(\.\d*[1-9])0+(?=\D|$)/, "$1");
}
