// Lines and points, drawn by uPlot.

import uPlot from "../vendor/uplot/uPlot.esm.js";
import { shown, tick } from "./format";
import { type Configuration, type Chart, type Mark, type Num, type Series, type Shown, isChosen } from "./model";
import { colour, css, faded } from "./palette";
import type { Range } from "./together";

/** A drawn series and its column in uPlot's data. */
export interface Drawn {
  series: Series;
  at: number;
}

/** Ticks of a quantile axis: 0, 50, 90, 99 … */
const QUANTILES = [1, 2, 10, 100, 1e3, 1e4, 1e5, 1e6];

/** The series shown under the current choices. */
export function visible(chart: Chart, state: Shown): Series[] {
  return chart.series.filter((s) => isChosen(s.of, chart, state) && !state.hidden.has(s.configuration));
}

/** The y axis of these series. */
export function axisOf(chart: Chart, series: Series[]) {
  return chart.ys[series[0]?.axis ?? 0] ?? { label: "", unit: "plain" as const, scale: "linear" as const };
}

/** Whether the y axis is logarithmic. */
export function isLog(chart: Chart, series: Series[], state: Shown): boolean {
  const wanted = state.log ?? axisOf(chart, series).scale === "log";
  // A logarithmic axis needs a value above zero.
  return wanted && series.some((s) => s.y.some((v) => v !== null && v > 0));
}

type Column = (number | null | undefined)[];

/** The columns for uPlot: x, then each line, with the ends of its band after it. */
function joined(chart: Chart, series: Series[], log: boolean): { data: uPlot.AlignedData; drawn: Drawn[] } {
  const positive = (values: Num[]): Num[] => (log ? values.map((v) => (v !== null && v > 0 ? v : null)) : values);
  const tables: uPlot.AlignedData[] = [];
  const drawn: Drawn[] = [];
  let at = 1;
  for (const s of series) {
    const x = (chart.xs[s.x] ?? []) as number[];
    const table: Column[] = [x, positive(s.y)];
    drawn.push({ series: s, at });
    if (s.low && s.high) table.push(positive(s.high), positive(s.low));
    at += table.length - 1;
    tables.push(table as unknown as uPlot.AlignedData);
  }
  if (tables.length === 0) return { data: [[]] as unknown as uPlot.AlignedData, drawn };
  const data = tables.length === 1 ? (tables[0] as uPlot.AlignedData) : uPlot.join(tables);
  for (const column of data.slice(1) as Column[]) widen(column);
  return { data, drawn };
}

/** Extends each break of a line from its last value to its next. In between, other lines may have places, and uPlot
 * breaks a line only where neighbouring places are null. */
function widen(column: Column): void {
  for (let at = 0; at < column.length; at += 1) {
    if (column[at] !== null) continue;
    for (let back = at - 1; back >= 0 && column[back] === undefined; back -= 1) column[back] = null;
    while (at + 1 < column.length && (column[at + 1] === undefined || column[at + 1] === null)) {
      at += 1;
      column[at] = null;
    }
  }
}

/** Positions of values whose neighbours have no value. */
function alone(column: Column): number[] {
  const found: number[] = [];
  let before = false;
  for (let at = 0; at < column.length; at += 1) {
    if (column[at] === undefined) continue;
    if (column[at] === null) {
      before = false;
      continue;
    }
    let next = at + 1;
    while (next < column.length && column[next] === undefined) next += 1;
    const after = next < column.length && column[next] !== null;
    if (!before && !after) found.push(at);
    before = true;
  }
  return found;
}

/** A range that includes zero. */
function from(low: number, high: number): [number, number] {
  if (low >= 0) return [0, high > 0 ? high * 1.06 : 1];
  return [low * 1.06, Math.max(0, high * 1.06)];
}

/** The y axis contains every visible value and limit, and intervals unless they reach far beyond. */
function rangeOf(shown: Series[], chart: Chart, state: Shown, log: boolean, x: Range): [number, number] {
  const usable = (v: Num | undefined): v is number => v !== null && v !== undefined && (!log || v > 0);
  const inside = (s: Series, nth: number) => {
    const at = chart.xs[s.x]?.[nth];
    return at !== null && at !== undefined && at >= x.min && at <= x.max;
  };
  let values = shown.flatMap((s) => s.y.filter((_, nth) => inside(s, nth))).filter(usable);
  if (values.length === 0) values = shown.flatMap((s) => s.y).filter(usable);
  values.push(...(chart.lines ?? []).filter((l) => isChosen(l.of, chart, state)).map((l) => l.at).filter(usable));
  if (values.length === 0) return [log ? 1 : 0, log ? 10 : 1];
  let [low, high] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (const v of values) [low, high] = [Math.min(low, v), Math.max(high, v)];
  const [beyond, below] = [high * (log ? 4 : 1.6), log ? low / 4 : low - Math.abs(high - low)];
  for (const series of shown) {
    series.high?.forEach((v, nth) => {
      if (v !== null && inside(series, nth)) high = Math.max(high, Math.min(v, beyond));
    });
    series.low?.forEach((v, nth) => {
      if (usable(v) && inside(series, nth)) low = Math.min(low, Math.max(v, below));
    });
  }
  if (log) return [low / 1.25, high * 1.25];
  if (axisOf(chart, shown).scale !== "near") return from(low, high);
  // At least a tenth of the level, so that noise does not look large.
  const margin = Math.max((high - low) / 6, high / 20);
  return [low < 0 ? low - margin : Math.max(0, low - margin), high + margin];
}

/** Ticks of a logarithmic axis: powers of ten, and steps between them if the axis spans only a few. */
export function logSplits(min: number, max: number): number[] {
  const all: number[] = [];
  // Zero has no power of ten.
  if (!(min > 0 && max < Number.POSITIVE_INFINITY)) return all;
  const steps = max / min > 400 ? [1] : max / min > 8 ? [1, 2, 5] : [1, 1.5, 2, 3, 5, 7];
  for (let power = Math.floor(Math.log10(min)); power <= Math.ceil(Math.log10(max)); power += 1) {
    for (const step of steps) all.push(step * 10 ** power);
  }
  return all.filter((v) => v >= min * 0.999 && v <= max * 1.001);
}

/** Whether a mark belongs to one of these series: its configuration, and its trial, which ends the mark's label. */
export function applies(mark: Mark, series: Series[]): boolean {
  const of = mark.configuration;
  return of === undefined || series.some((s) => s.configuration === of && (s.label === "" || mark.label.endsWith(s.label)));
}

/** Draws events on the x axis behind the lines, with phase names at the top. */
function drawMarks(u: uPlot, marks: Mark[], configurations: Configuration[], series: Series[]): void {
  const { ctx } = u;
  const { left, top, width, height } = u.bbox;
  const ratio = devicePixelRatio;
  ctx.save();
  ctx.beginPath();
  ctx.rect(left, top, width, height);
  ctx.clip();
  ctx.font = `${12 * ratio}px sans-serif`;
  ctx.textBaseline = "top";
  ctx.textAlign = "left";
  let nth = 0;
  for (const mark of marks) {
    const of = mark.configuration;
    if (!applies(mark, series)) continue;
    const x = u.valToPos(mark.at, "x", true);
    const end = mark.to === undefined ? x : u.valToPos(mark.to, "x", true);
    if (mark.kind === "phase") {
      nth += 1;
      if (nth % 2 === 1) {
        ctx.fillStyle = css("--shade");
        ctx.fillRect(x, top, end - x, height);
      }
      ctx.fillStyle = css("--dim");
      const seen = Math.min(end, left + width) - Math.max(x, left);
      if (ctx.measureText(mark.label).width + 8 * ratio < seen) ctx.fillText(mark.label, Math.max(x, left) + 4 * ratio, top + 3 * ratio);
    } else if (mark.kind === "stall") {
      ctx.fillStyle = css("--stall");
      ctx.fillRect(x, top, Math.max(end - x, 2 * ratio), height);
    } else if (mark.kind === "work") {
      // A strip at the bottom, stacked by configuration.
      ctx.fillStyle = faded(colour(configurations[of ?? 0]), 0.6);
      ctx.fillRect(x, top + height - (5 + 6 * ((of ?? 0) % 4)) * ratio, Math.max(end - x, ratio), 4 * ratio);
    } else if (mark.kind === "fault") {
      ctx.fillStyle = css("--stall");
      ctx.fillRect(x, top, Math.max(end - x, 2 * ratio), height);
      ctx.fillStyle = css("--invalid");
      ctx.fillRect(x, top, 2 * ratio, height);
      ctx.fillText(mark.label.split(",")[0] ?? "", x + 5 * ratio, top + 19 * ratio);
    } else if (mark.kind === "worse" || mark.kind === "better") {
      ctx.fillStyle = mark.kind === "worse" ? css("--stall") : css("--shade");
      ctx.fillRect(x, top, Math.max(end - x, 2 * ratio), height);
      ctx.fillStyle = css(mark.kind === "worse" ? "--invalid" : "--pass");
      ctx.fillRect(x, top, 2 * ratio, height);
      const lines = mark.label.split(", ");
      // To the left, where there is no room on the right.
      const right = x + 8 * ratio + Math.max(...lines.map((line) => ctx.measureText(line).width)) < left + width;
      ctx.textAlign = right ? "left" : "right";
      lines.forEach((line, at) => ctx.fillText(line, right ? x + 5 * ratio : x - 4 * ratio, top + (3 + 15 * at) * ratio));
      ctx.textAlign = "left";
    } else {
      ctx.strokeStyle = mark.kind === "end" ? css("--invalid") : faded(colour(configurations[of ?? 0]), 0.7);
      ctx.setLineDash([3 * ratio, 3 * ratio]);
      ctx.lineWidth = ratio;
      ctx.beginPath();
      ctx.moveTo(x, top);
      ctx.lineTo(x, top + height);
      ctx.stroke();
    }
  }
  ctx.restore();
}

/** Draws limits: levels on the y axis. */
function drawLines(u: uPlot, chart: Chart, state: Shown): void {
  const { ctx } = u;
  const { left, top, width, height } = u.bbox;
  const ratio = devicePixelRatio;
  ctx.save();
  ctx.beginPath();
  ctx.rect(left, top, width, height);
  ctx.clip();
  ctx.strokeStyle = ctx.fillStyle = css("--invalid");
  ctx.setLineDash([6 * ratio, 4 * ratio]);
  ctx.textAlign = "left";
  ctx.font = `${12 * ratio}px sans-serif`;
  for (const line of (chart.lines ?? []).filter((l) => isChosen(l.of, chart, state))) {
    const y = u.valToPos(line.at, "y", true);
    ctx.beginPath();
    ctx.moveTo(left, y);
    ctx.lineTo(left + width, y);
    ctx.stroke();
    ctx.textBaseline = "bottom";
    ctx.fillText(`${line.label} ${shown(line.at, chart.ys[line.axis]?.unit ?? "plain")}`, left + 6 * ratio, y - 3 * ratio);
  }
  ctx.restore();
}

/** One panel of a chart. */
export interface Panel {
  nth: number;
  name: string;
  height: number;
}

export interface LinesChart {
  u: uPlot;
  drawn: Drawn[];
}

/** Only the cursor is synchronised by uPlot. `Together` shares the x axis. */
const CURSOR_ONLY = { filters: { pub: (type: string) => type === "mousemove" || type === "mouseleave" } };

/** Draws the visible series into `place`. With `panel`, draws only the series of that panel, on the axes of all panels.
 * `moved` is called for the cursor, `zoomed` for the x axis, `all` for a double click. `range` is the visible part of the
 * x axis. */
export function drawLinesChart(
  place: HTMLElement,
  chart: Chart,
  configurations: Configuration[],
  state: Shown,
  hooks: { moved: (u: uPlot) => void; zoomed: (u: uPlot) => void; all: () => void },
  range: () => Range,
  panel?: Panel,
): LinesChart {
  const all = visible(chart, state);
  const series = panel ? all.filter((s) => configurations[s.configuration]?.panel === panel.nth) : all;
  const log = isLog(chart, all, state);
  const { data, drawn } = joined(chart, series, log);
  const yAxis = axisOf(chart, series);
  const logX = chart.x.scale === "log";
  const grid = { stroke: css("--faint"), width: 1 };
  const text = css("--dim");
  const options: uPlot.Options = {
    width: Math.max(240, place.clientWidth),
    height: panel?.height ?? Math.round(Math.min(360, Math.max(220, place.clientWidth * 0.4))),
    legend: { show: false },
    focus: { alpha: 0.35 },
    cursor: {
      focus: { prox: 24 },
      drag: { x: true, y: false, dist: 6 },
      points: { size: 6 },
      bind: { dblclick: () => () => (hooks.all(), null) },
      ...(chart.group ? { sync: { ...CURSOR_ONLY, key: chart.group, setSeries: false, scales: ["x", null] as [string, null] } } : {}),
    },
    scales: {
      x: {
        time: false,
        distr: logX ? 3 : 1,
        range: (_, min, max) => [min, max],
      },
      y: { distr: log ? 3 : 1, range: () => rangeOf(all, chart, state, log, range()) },
    },
    axes: [
      {
        stroke: text,
        grid,
        ticks: { stroke: css("--line"), width: 1 },
        label: chart.x.label,
        labelSize: 22,
        labelFont: "12px sans-serif",
        font: "12px sans-serif",
        ...(chart.x.unit === "quantile"
          ? { splits: (u: uPlot) => QUANTILES.filter((q) => q >= (u.scales.x?.min ?? 1) && q <= (u.scales.x?.max ?? 1e6)), filter: (_: uPlot, all: number[]) => all }
          : {}),
        ...(logX && chart.x.unit !== "quantile" ? { splits: () => levels(chart), filter: (_: uPlot, all: number[]) => all } : {}),
        values: (_, all) => all.map((v) => (v === null ? "" : tick(v, chart.x.unit))),
      },
      {
        stroke: text,
        grid,
        ticks: { stroke: css("--line"), width: 1 },
        label: yAxis.label,
        labelSize: 20,
        labelFont: "12px sans-serif",
        font: "12px sans-serif",
        size: (_, values) => 24 + 7 * Math.max(3, ...(values ?? []).map((v) => (v ?? "").length)),
        ...(log ? { splits: (_: uPlot, __: number, min: number, max: number) => logSplits(min, max), filter: (_: uPlot, all: number[]) => all } : {}),
        values: (_, all) => all.map((v) => (v === null ? "" : tick(v, yAxis.unit))),
      },
    ],
    series: [{}],
    bands: [],
    hooks: {
      drawClear: [(u) => drawMarks(u, chart.marks ?? [], configurations, series)],
      draw: [(u) => drawLines(u, chart, state)],
      setCursor: [hooks.moved],
      setScale: [(u, key) => key === "x" && hooks.zoomed(u)],
    },
  };
  for (const { series: s, at } of drawn) {
    const stroke = colour(configurations[s.configuration]);
    const points = chart.kind === "points" || (chart.xs[s.x]?.length ?? 0) < 25;
    options.series.push({
      label: s.label,
      stroke,
      width: 1.6,
      points: {
        show: points,
        size: chart.kind === "points" ? 8 : 6,
        fill: stroke,
        // A value without neighbours has no line, so it is always a point.
        ...(points ? {} : { filter: (u: uPlot, nth: number) => alone(u.data[nth] as Column) }),
      },
      ...(chart.kind === "points" ? { paths: () => null } : {}),
      spanGaps: false,
    });
    if (s.low && s.high) {
      // The ends are drawn only as the edges of their band.
      for (let end = 0; end < 2; end += 1) options.series.push({ stroke: faded(stroke, 0.35), width: 1, points: { show: points && end >= 0, size: 4 } });
      options.bands?.push({ series: [at + 1, at + 2], fill: faded(stroke, 0.14) });
    }
  }
  const u = new uPlot(options, data, place);
  u.setScale("x", range());
  return { u, drawn };
}

/** The x values of a chart as ticks. Close ones are left out if there are many. */
function levels(chart: Chart): number[] {
  const all = [...new Set(chart.xs.flat().filter((x): x is number => x !== null))].sort((a, b) => a - b);
  return all.filter((x, nth) => nth === 0 || x / (all[nth - 1] ?? x) > 1.15 || all.length < 12);
}
