// Charts that share their x axis: all show the same part of it.

import { type Chart, type Shown, isChosen } from "./model";

/** A part of an x axis. */
export interface Range {
  min: number;
  max: number;
}

/** One that follows when the part that is shown changes. */
export interface Follower {
  follow(range: Range): void;
}

export class Together {
  private zoom: Range | null = null;
  /** Whether a reader, or the chart itself, has chosen the part that is shown. */
  private begun = false;
  private readonly of: { chart: Chart; state: Shown }[] = [];
  private readonly followers = new Set<Follower>();

  /** Adds a chart, drawn or not. The axis covers what all of them show. */
  add(chart: Chart, state: Shown): void {
    this.of.push({ chart, state });
  }

  join(one: Follower): void {
    this.followers.add(one);
  }

  leave(one: Follower): void {
    this.followers.delete(one);
  }

  /** The whole axis, from the first to the last place at which anything is shown. */
  whole(): Range {
    let [min, max] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
    let margin = false;
    for (const { chart, state } of this.of) {
      margin ||= chart.x.scale === "log" && chart.x.unit !== "quantile";
      for (const s of chart.series) {
        if (state.hidden.has(s.configuration) || !isChosen(s.of, chart, state)) continue;
        // Places rise along a line.
        const xs = chart.xs[s.x] ?? [];
        min = Math.min(min, xs[0] ?? min);
        max = Math.max(max, xs[xs.length - 1] ?? max);
      }
    }
    if (min > max) return { min: margin ? 1 : 0, max: margin ? 10 : 1 };
    if (margin) return { min: min / 1.15, max: max * 1.15 };
    if (min === max) return min > 0 ? { min: min * 0.9, max: max * 1.1 } : { min: min - 1, max: max + 1 };
    return { min, max };
  }

  /** The visible part of the axis. */
  range(): Range {
    const from = this.of.find(({ chart }) => chart.from !== undefined)?.chart.from;
    if (!this.begun && from !== undefined) {
      const whole = this.whole();
      // All charts are known by now, as the first one is drawn.
      if (from > whole.min && from < whole.max) this.zoom = { min: from, max: whole.max };
    }
    this.begun = true;
    return this.zoom ?? this.whole();
  }

  /** The chosen part; `null` is the whole axis. */
  zoomed(): Range | null {
    return this.zoom;
  }

  /** Shows a part of the axis everywhere; `null` is all of it. */
  show(range: Range | null): void {
    const whole = this.whole();
    this.zoom = range && (range.min > whole.min || range.max < whole.max) ? range : null;
    const shown = this.zoom ?? whole;
    for (const one of this.followers) one.follow(shown);
  }

  /** A drag over one of the charts chose this part. */
  moved(range: Range): void {
    const { min, max } = this.range();
    if (range.min !== min || range.max !== max) this.show(range);
  }
}
