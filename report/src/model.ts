// What the page holds as data. As crates/report/src/data.rs writes it.

export type Unit = "seconds" | "ns" | "per-second" | "bytes" | "share" | "ratio" | "money" | "quantile" | "plain";
export type Scale = "linear" | "log";
export type Num = number | null;

export interface Axis {
  label: string;
  unit: Unit;
  scale: Scale;
}

export interface Series {
  label: string;
  configuration: number;
  /** Positions in the values of the chart's choices; -1 where it is shown whatever is chosen. */
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
  kind: "phase" | "stall" | "change" | "fault" | "work" | "end";
  configuration?: number;
}

export interface Line {
  at: number;
  label: string;
  axis: number;
  /** Positions in the values of the chart's choices; -1 where it is shown whatever is chosen. */
  of: number[];
}

export interface Heat {
  /** Positions in the values of the chart's choices; -1 where it is shown whatever is chosen. */
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
  colour: number;
  dash: number;
}

export interface Data {
  format: string;
  configurations: Configuration[];
  charts: Chart[];
}

/** What is shown at present of a chart. */
export interface Shown {
  /** What is chosen, by key. */
  chosen: Map<string, string>;
  /** Configurations that are not shown. */
  hidden: Set<number>;
  /** Whether the y axis runs by powers of ten; null where the axis says itself. */
  log: boolean | null;
}

/** What a chart shows at first: what it says itself, or what was shown `before` where that can still be. */
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

/** Whether what is of these choices is among what is chosen. */
export function isChosen(of: number[], chart: Chart, state: Shown): boolean {
  return chart.choices.every((choice, nth) => {
    const at = of[nth] ?? -1;
    const chosen = state.chosen.get(choice.key);
    return at < 0 || chosen === ALL || choice.values[at] === chosen;
  });
}

/** What something is of a choice. */
export function valueOf(of: number[], chart: Chart, key: string): string {
  const nth = chart.choices.findIndex((choice) => choice.key === key);
  return chart.choices[nth]?.values[of[nth] ?? -1] ?? "";
}

/** The choice of everything. */
export const ALL = "all";

/** The data of the page. */
export function readData(): Data {
  const text = document.getElementById("data")?.textContent ?? "";
  return JSON.parse(text) as Data;
}
