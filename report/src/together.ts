// Charts that share their x axis. All of them show the same part of it.

import { type Chart, type Shown, isChosen } from "./model";

/** A part of an x axis. */
export interface Range {
  min: number;
  max: number;
}

/** A chart that follows when the visible part changes. */
export interface Follower {
  follow(range: Range): void;
}

export class Together {
  private zoom: Range | null = null;
  /** Whether the initial part has been chosen. */
  private begun = false;
  private readonly of: { chart: Chart; state: Shown }[] = [];
  private readonly followers = new Set<Follower>();

  /** Adds a chart, drawn or not. The axis covers everything that the charts show. */
  add(chart: Chart, state: Shown): void {
    this.of.push({ chart, state });
  }

  join(one: Follower): void {
    this.followers.add(one);
  }

  leave(one: Follower): void {
    this.followers.delete(one);
  }

  /** The entire axis, from the first to the last place that has a value. */
  whole(): Range {
    let [min, max] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
    let margin = false;
    for (const { chart, state } of this.of) {
      margin ||= chart.x.scale === "log" && chart.x.unit !== "quantile";
      for (const s of chart.series) {
        if (state.hidden.has(s.configuration) || !isChosen(s.of, chart, state)) continue;
        // Places increase along a line.
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
      // All charts were added before the first one is drawn.
      if (from > whole.min && from < whole.max) this.zoom = { min: from, max: whole.max };
    }
    this.begun = true;
    return this.zoom ?? this.whole();
  }

  /** The chosen part; `null` is the entire axis. */
  zoomed(): Range | null {
    return this.zoom;
  }

  /** Shows a part of the axis in all charts; `null` is the entire axis. */
  show(range: Range | null): void {
    const whole = this.whole();
    this.zoom = range && (range.min > whole.min || range.max < whole.max) ? range : null;
    const shown = this.zoom ?? whole;
    for (const one of this.followers) one.follow(shown);
  }

  /** Handles a drag over one of the charts that chose this part. */
  moved(range: Range): void {
    const { min, max } = this.range();
    if (range.min !== min || range.max !== max) this.show(range);
  }
}
