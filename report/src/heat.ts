// The heat map: counts in cells of time and latency, on uPlot's axes.

import uPlot from "../vendor/uplot/uPlot.esm.js";
import { tick } from "./format";
import { logSplits } from "./lines";
import { type Configuration, type Chart, type Heat, type Shown, isChosen } from "./model";
import { css } from "./palette";

/** Rows per doubling, as in crates/report/src/charts/percentiles.rs. */
export const ROWS = 4;

/** The visible cells: those of the first visible configuration. */
export function cellsOf(chart: Chart, state: Shown): Heat | undefined {
  return (chart.heat ?? []).find((h) => isChosen(h.of, chart, state) && !state.hidden.has(h.configuration));
}

/** How dark a cell is, on a logarithmic scale. */
export function darkness(count: number, most: number): number {
  return most <= 1 ? 1 : 0.12 + (0.88 * Math.log1p(count)) / Math.log1p(most);
}

export function drawHeat(place: HTMLElement, chart: Chart, _configurations: Configuration[], state: Shown): uPlot {
  const heat = cellsOf(chart, state);
  const cells = heat?.cells ?? [];
  const step = heat?.step ?? 1;
  let [least, greatest, most] = [Number.POSITIVE_INFINITY, 0, 0];
  for (let at = 0; at < cells.length; at += 3) {
    const row = cells[at + 1] ?? 0;
    least = Math.min(least, row);
    greatest = Math.max(greatest, row + 1);
    most = Math.max(most, cells[at + 2] ?? 0);
  }
  if (!Number.isFinite(least)) [least, greatest] = [0, 1];
  const end = step * (heat?.columns ?? 1);
  const value = (row: number) => 2 ** (row / ROWS);
  const text = css("--dim");
  const options: uPlot.Options = {
    width: Math.max(280, place.clientWidth),
    height: Math.round(Math.min(340, Math.max(220, place.clientWidth * 0.36))),
    legend: { show: false },
    cursor: { drag: { x: false, y: false }, points: { show: false } },
    scales: {
      x: { time: false, range: [0, end] },
      y: { distr: 3, range: [value(least), value(greatest)] },
    },
    axes: [
      { stroke: text, grid: { show: false }, label: chart.x.label, labelSize: 22, labelFont: "12px sans-serif", font: "12px sans-serif", values: (_, all) => all.map((v) => tick(v, chart.x.unit)) },
      {
        stroke: text,
        grid: { show: false },
        label: chart.ys[0]?.label ?? "",
        labelSize: 20,
        labelFont: "12px sans-serif",
        font: "12px sans-serif",
        size: (_, values) => 24 + 7 * Math.max(3, ...(values ?? []).map((v) => (v ?? "").length)),
        splits: (_, __, min, max) => logSplits(min, max),
        filter: (_, all) => all,
        values: (_, all) => all.map((v) => (v === null ? "" : tick(v, "ns"))),
      },
    ],
    series: [{}, { paths: () => null, points: { show: false } }],
    hooks: {
      draw: [
        (u) => {
          const { ctx } = u;
          const rgb = css("--heat");
          ctx.save();
          for (let at = 0; at < cells.length; at += 3) {
            const column = cells[at] ?? 0;
            const row = cells[at + 1] ?? 0;
            const [x0, x1] = [u.valToPos(column * step, "x", true), u.valToPos((column + 1) * step, "x", true)];
            const [y0, y1] = [u.valToPos(value(row + 1), "y", true), u.valToPos(value(row), "y", true)];
            ctx.fillStyle = `rgb(${rgb} / ${darkness(cells[at + 2] ?? 0, most).toFixed(3)})`;
            ctx.fillRect(x0, y0, Math.max(1, x1 - x0 - 0.5), Math.max(1, y1 - y0));
          }
          ctx.restore();
        },
      ],
    },
  };
  return new uPlot(options, [[0, end], [value(least), value(greatest)]], place);
}
