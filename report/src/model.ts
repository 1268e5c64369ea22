// The data of the page, as written by crates/report/src/data.rs.

export type Unit = "seconds" | "ns" | "per-second" | "bytes" | "share" | "ratio" | "money" | "quantile" | "plain";
export type Scale = "linear" | "near" | "log";
export type Num = number | null;

export interface Axis {
  label: string;
  unit: Unit;
  scale: Scale;
}

export interface Series {
  label: string;
  configuration: number;
  /** Positions in the values of the chart's choices; -1: always shown. */
  of: number[];
  x: number;
  axis: number;
  y: Num[];
  low?: Num[];
  high?: Num[];
}

export interface Choice {
  key: string;
  label: string;
  values: string[];
  chosen: string;
}

export interface Mark {
  at: number;
  to?: number;
  label: string;
  kind: "phase" | "stall" | "change" | "fault" | "work" | "end" | "worse" | "better";
  configuration?: number;
}

export interface Line {
  at: number;
  label: string;
  axis: number;
  /** Positions in the values of the chart's choices; -1: always shown. */
  of: number[];
}

export interface Heat {
  /** Positions in the values of the chart's choices; -1: always shown. */
  of: number[];
  configuration: number;
  from: number;
  step: number;
  columns: number;
  cells: number[];
}

export interface Chart {
  id: string;
  title: string;
  about: string;
  kind: "lines" | "points" | "heat";
  group?: string;
  /** Where the visible part of the x axis begins at first. Warm-ups are before it. */
  from?: number;
  /** Whether configurations are drawn in panels that share their axes. */
  panels?: boolean;
  x: Axis;
  ys: Axis[];
  xs: Num[][];
  series: Series[];
  heat?: Heat[];
  choices: Choice[];
  marks?: Mark[];
  lines?: Line[];
}

export interface Configuration {
  run: number;
  name: string;
  /** The hue of its store. */
  colour: number;
  /** How much of that hue it has, in percent. */
  shade: number;
  /** The panel that shows it, in charts with panels. */
  panel: number;
}

export interface Data {
  format: string;
  configurations: Configuration[];
  /** Names of the panels of charts over time. */
  panels: string[];
  /** Number of columns of panels; by default, as many as fit. */
  columns?: number;
  charts: Chart[];
}

/** The reader's choices for a chart. */
export interface Shown {
  /** The chosen value of each choice, by key. */
  chosen: Map<string, string>;
  /** Hidden configurations. */
  hidden: Set<number>;
  /** Whether the y axis is logarithmic; null uses the axis's own scale. */
  log: boolean | null;
}

/** The initial choices of a chart: those `before` if they still exist, otherwise its own. */
export function shownAtFirst(chart: Chart, before?: Shown): Shown {
  const kept = (key: string, values: string[]) => {
    const was = before?.chosen.get(key);
    return was !== undefined && (was === ALL || values.includes(was)) ? was : undefined;
  };
  return {
    chosen: new Map(chart.choices.map((c) => [c.key, kept(c.key, c.values) ?? c.chosen])),
    hidden: new Set(before?.hidden),
    log: before?.log ?? null,
  };
}

/** Whether something with these positions is shown under the current choices. */
export function isChosen(of: number[], chart: Chart, state: Shown): boolean {
  return chart.choices.every((choice, nth) => {
    const at = of[nth] ?? -1;
    const chosen = state.chosen.get(choice.key);
    return at < 0 || chosen === ALL || choice.values[at] === chosen;
  });
}

/** The value of a choice at these positions. */
export function valueOf(of: number[], chart: Chart, key: string): string {
  const nth = chart.choices.findIndex((choice) => choice.key === key);
  return chart.choices[nth]?.values[of[nth] ?? -1] ?? "";
}

/** The choice that shows everything. */
export const ALL = "all";

/** The data of the page. */
export function readData(): Data {
  const text = document.getElementById("data")?.textContent ?? "";
  return JSON.parse(text) as Data;
}
