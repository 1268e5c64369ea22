// One chart on the page: choices, panels, legend, tooltip, keys, export.

import type uPlot from "../vendor/uplot/uPlot.esm.js";
import { shown } from "./format";
import { drawHeat } from "./heat";
import { type Drawn, type Panel, axisOf, drawLinesChart, isLog, visible } from "./lines";
import { ALL, type Configuration, type Chart, type Shown, valueOf } from "./model";
import { colour } from "./palette";
import { csvLine, fileName, save } from "./save";
import { type View, svgOf, titleOf } from "./svg";
import { button } from "./tables";
import type { Range, Together } from "./together";

/** The choice of all phases except loads and warm-ups at the beginning. No phase has this name. */
const MEASURED = "\u0000measured";
/** The most lines in a tooltip. */
const MOST_NAMED = 10;
/** Up to this many panels are as wide as the page, one below another. More are in columns. */
const MOST_STACKED = 3;

export class Place {
  /** One view for each panel, or a single one without panels. */
  private views: View[] = [];
  /** The view in which keys move the cursor. */
  private keyed: View | null = null;
  private readonly plot: HTMLElement;
  private readonly tip: HTMLElement;
  private readonly said: HTMLElement;
  private readonly tools: HTMLElement;
  private readonly legend: HTMLElement;

  constructor(
    private readonly root: HTMLElement,
    private readonly chart: Chart,
    private readonly state: Shown,
    private readonly together: Together,
    private readonly configurations: Configuration[],
    private readonly panelNames: string[],
    private readonly columns: number | undefined,
  ) {
    this.tools = document.createElement("div");
    this.tools.className = "tools";
    this.plot = document.createElement("div");
    this.plot.tabIndex = 0;
    this.plot.setAttribute("role", "application");
    this.plot.setAttribute("aria-label", `${chart.title}. Arrow keys move along the chart, plus and minus zoom, Escape shows everything. Page up and down change the panel.`);
    this.tip = document.createElement("div");
    this.tip.className = "tip";
    this.tip.hidden = true;
    this.said = document.createElement("p");
    this.said.className = "unseen";
    this.said.setAttribute("role", "status");
    this.legend = document.createElement("ul");
    this.legend.className = "legend";
    root.replaceChildren(this.tools, this.plot, this.tip, this.said, this.legend);
    // The parts have their own roles now.
    root.removeAttribute("role");
    this.makeTools();
    this.plot.addEventListener("keydown", (event) => this.key(event));
    this.plot.addEventListener("mouseleave", () => {
      this.tip.hidden = true;
    });
    together.join(this);
    this.draw();
  }

  /** Updates the chart and its group after a choice, because the x axis may be longer. */
  private chosen(): void {
    this.draw();
    this.together.show(this.together.zoomed());
  }

  /** Draws again, after a change of size, theme or choice. */
  draw(): void {
    for (const { u } of this.views) u.destroy();
    this.views = [];
    this.plot.replaceChildren();
    this.tip.hidden = true;
    const panels = this.panels();
    this.plot.classList.toggle("panels", panels.length > 1);
    this.plot.classList.toggle("many", this.columns === undefined && panels.length > MOST_STACKED);
    this.plot.style.setProperty("--columns", String(this.columns ?? 1));
    if (this.chart.kind === "heat") {
      this.oneConfiguration();
      this.views = [{ u: drawHeat(this.plot, this.chart, this.configurations, this.state), drawn: [], name: "" }];
    } else if (panels.length > 1) {
      // Create all places first, because a panel is as wide as its column.
      const places = panels.map((panel) => this.panelPlace(panel));
      panels.forEach((panel, nth) => {
        const place = places[nth];
        if (place) this.drawLines(place, panel);
      });
    } else {
      this.drawLines(this.plot);
    }
    this.makeLegend(panels.length);
    this.root.dataset.lines = String(this.drawn.length);
    this.root.dataset.panels = String(panels.length);
    this.root.dataset.points = String(this.drawn.reduce((n, d) => n + d.series.y.filter((v) => v !== null).length, 0));
  }

  private drawLines(place: HTMLElement, panel?: Panel): void {
    const hooks = {
      moved: (u: uPlot) => this.moved(u),
      zoomed: (u: uPlot) => this.zoomed(u),
      all: () => this.together.show(null),
    };
    const made = drawLinesChart(place, this.chart, this.configurations, this.state, hooks, () => this.together.range(), panel);
    this.views.push({ ...made, name: panel?.name ?? "" });
  }

  /** The panels that show something. */
  private panels(): Panel[] {
    if (!this.chart.panels) return [];
    const shown = new Set(visible(this.chart, this.state).map((s) => this.configurations[s.configuration]?.panel));
    const of = this.panelNames.map((name, nth) => ({ nth, name })).filter(({ nth }) => shown.has(nth));
    const height = of.length > MOST_STACKED ? 180 : 220;
    return of.map((panel) => ({ ...panel, height }));
  }

  /** The place of a panel, with its name in the colour of its first configuration. */
  private panelPlace(panel: Panel): HTMLElement {
    const place = document.createElement("div");
    place.className = "panel";
    const name = document.createElement("p");
    name.className = "panel-name";
    const first = this.configurations.find((configuration) => configuration.panel === panel.nth);
    name.innerHTML = `<svg width="10" height="10" aria-hidden="true"><circle cx="5" cy="5" r="4" fill="${colour(first)}"/></svg> `;
    name.append(panel.name);
    const plot = document.createElement("div");
    place.append(name, plot);
    this.plot.append(place);
    return plot;
  }

  /** Every series that is drawn, in any panel. */
  private get drawn(): Drawn[] {
    return this.views.flatMap((view) => view.drawn);
  }

  forget(): void {
    for (const { u } of this.views) u.destroy();
    this.together.leave(this);
  }

  private makeTools(): void {
    for (const choice of this.chart.choices) {
      const label = document.createElement("label");
      const select = document.createElement("select");
      select.name = choice.key;
      const values = choice.key === "round" ? [...choice.values, ALL] : choice.values;
      for (const value of values) select.append(new Option(value, value, false, value === this.state.chosen.get(choice.key)));
      select.addEventListener("change", () => {
        this.state.chosen.set(choice.key, select.value);
        this.chosen();
      });
      label.append(`${choice.label} `, select);
      this.tools.append(label);
    }
    const phases = (this.chart.marks ?? []).filter((m) => m.kind === "phase" && m.to !== undefined);
    if (phases.length > 1) {
      const label = document.createElement("label");
      const select = document.createElement("select");
      select.name = "phase";
      select.append(new Option("all phases", ""));
      const from = this.chart.from;
      const measured = from === undefined ? undefined : { min: from, max: phases.at(-1)?.to ?? from };
      if (measured) select.append(new Option("without load and warm-ups", MEASURED, true, true));
      for (const phase of phases) select.append(new Option(phase.label, phase.label));
      select.addEventListener("change", () => {
        const phase = phases.find((p) => p.label === select.value);
        const part = phase?.to === undefined ? undefined : { min: phase.at, max: phase.to };
        this.together.show((select.value === MEASURED ? measured : part) ?? null);
      });
      label.append("show ", select);
      this.tools.append(label);
    }
    const end = document.createElement("span");
    end.className = "end tools";
    if (this.chart.kind !== "heat") {
      const log = button("log y", "Switch the y axis between linear and logarithmic", () => {
        const series = visible(this.chart, this.state);
        this.state.log = !isLog(this.chart, series, this.state);
        log.setAttribute("aria-pressed", String(this.state.log));
        this.draw();
      });
      log.setAttribute("aria-pressed", String(isLog(this.chart, visible(this.chart, this.state), this.state)));
      end.append(log, button("reset zoom", "Show the entire x axis (drag over the chart to zoom)", () => this.together.show(null)));
    }
    const name = () => fileName(titleOf(this.chart, this.state));
    end.append(
      button("SVG", "Save this chart as SVG", () => {
        save(`${name()}.svg`, svgOf(this.views, this.chart, this.configurations, this.state), "image/svg+xml");
      }),
      button("CSV", "Save all points of this chart as CSV", () => save(`${name()}.csv`, this.csv(), "text/csv")),
    );
    this.tools.append(end);
  }

  private csv(): string {
    const { chart } = this;
    if (chart.kind === "heat") {
      const head = csvLine(["configuration", ...chart.choices.map((c) => c.key), "from_s", "to_s", "from_ns", "to_ns", "operations"]);
      const lines = (chart.heat ?? []).flatMap((h) => {
        const of: string[] = [];
        for (let at = 0; at < h.cells.length; at += 3) {
          const [column, row, n] = [h.cells[at] ?? 0, h.cells[at + 1] ?? 0, h.cells[at + 2] ?? 0];
          const keys = chart.choices.map((c) => valueOf(h.of, chart, c.key));
          of.push(csvLine([this.configurations[h.configuration]?.name, ...keys, column * h.step, (column + 1) * h.step, 2 ** (row / 4), 2 ** ((row + 1) / 4), n]));
        }
        return of;
      });
      return head + lines.join("");
    }
    const keys = chart.choices.map((choice) => choice.key);
    const head = csvLine(["configuration", "line", ...keys, `x: ${chart.x.label} (${chart.x.unit})`, "y", "low", "high", "unit of y"]);
    return (
      head +
      chart.series
        .flatMap((s) =>
          (chart.xs[s.x] ?? []).flatMap((x, nth) => {
            const y = s.y[nth];
            if (y === null || y === undefined) return [];
            const axis = chart.ys[s.axis];
            return csvLine([this.configurations[s.configuration]?.name, s.label, ...keys.map((k) => valueOf(s.of, chart, k)), x, y, s.low?.[nth], s.high?.[nth], axis?.unit]);
          }),
        )
        .join("")
    );
  }

  /** Configurations of this chart, shown or hidden. */
  private present(): number[] {
    const all = this.chart.kind === "heat" ? (this.chart.heat ?? []) : this.chart.series;
    return [...new Set(all.map((s) => s.configuration))];
  }

  /** A heat map shows one configuration at a time. */
  private oneConfiguration(): void {
    const all = this.present();
    if (all.filter((configuration) => !this.state.hidden.has(configuration)).length !== 1) {
      this.state.hidden = new Set(all.slice(1));
    }
  }

  private makeLegend(panels: number): void {
    const heat = this.chart.kind === "heat";
    // No legend if each panel names its only configuration.
    const named = panels > 1 && panels === this.present().filter((of) => !this.state.hidden.has(of)).length;
    this.legend.hidden = named && this.state.hidden.size === 0;
    const focused = document.activeElement instanceof HTMLElement && this.legend.contains(document.activeElement) ? document.activeElement.dataset.configuration : undefined;
    this.legend.replaceChildren(
      ...this.present().map((configuration) => {
        const item = document.createElement("li");
        const of = this.configurations[configuration];
        const toggle = button("", heat ? "Show this configuration" : "Show or hide this configuration; Shift-click shows only this one", () => undefined);
        toggle.dataset.configuration = String(configuration);
        toggle.setAttribute("aria-pressed", String(!this.state.hidden.has(configuration)));
        toggle.innerHTML = `<svg width="22" height="8" aria-hidden="true"><line x1="0" y1="4" x2="22" y2="4" stroke="${colour(of)}" stroke-width="3"/></svg>`;
        toggle.append(this.legendName(configuration));
        toggle.addEventListener("click", (event) => {
          const { hidden } = this.state;
          if (heat || event.shiftKey) this.state.hidden = new Set(this.present().filter((other) => other !== configuration));
          else if (hidden.has(configuration)) hidden.delete(configuration);
          else hidden.add(configuration);
          this.chosen();
        });
        toggle.addEventListener("mouseenter", () => this.focus(configuration));
        toggle.addEventListener("mouseleave", () => this.focus(null));
        item.append(toggle);
        return item;
      }),
    );
    if (focused !== undefined) this.legend.querySelector<HTMLElement>(`[data-configuration="${focused}"]`)?.focus();
  }

  /** A configuration's name, or the label of a line that represents several configurations. */
  private legendName(configuration: number): string {
    const own = this.chart.series.find((s) => s.configuration === configuration && s.label !== "" && !s.label.startsWith("trial"));
    return own?.label ?? this.configurations[configuration]?.name ?? "";
  }

  /** Fades the other lines while the pointer is on a configuration's name. */
  private focus(configuration: number | null): void {
    if (this.chart.kind === "heat") return;
    for (const { u, drawn } of this.views) {
      const one = drawn.find((d) => d.series.configuration === configuration);
      u.setSeries(one ? one.at : null, { focus: one !== undefined });
    }
  }

  /** Shows the values of the nearest lines at the cursor. */
  private moved(u: uPlot): void {
    const { idx, left, top } = u.cursor;
    const view = this.views.find((one) => one.u === u);
    // Other panels show only the cursor.
    if (!view || (this.views.length > 1 && !u.over.matches(":hover") && view !== this.keyed)) return;
    const { drawn } = view;
    if (idx === null || idx === undefined || left === undefined || top === undefined || left < 0) {
      this.tip.hidden = true;
      return;
    }
    const unit = axisOf(this.chart, drawn.map((d) => d.series)).unit;
    const near = drawn
      .map(({ series, at }) => {
        const nth = this.nearest(u, at, idx);
        const y = nth === null ? null : (u.data[at]?.[nth] ?? null);
        return { series, at, nth, y, far: y === null ? Infinity : Math.abs(u.valToPos(y, "y") - top) };
      })
      .filter((d) => d.y !== null && d.nth !== null)
      .sort((a, b) => a.far - b.far);
    const first = near[0];
    if (!first || first.nth === null) {
      this.tip.hidden = true;
      return;
    }
    const x = u.data[0][first.nth] ?? 0;
    const listed = near.slice(0, MOST_NAMED).sort((a, b) => (b.y ?? 0) - (a.y ?? 0));
    const title = document.createElement("b");
    title.textContent = this.placeOf(x);
    const table = document.createElement("table");
    for (const { series, at, nth, y } of listed) {
      const row = table.insertRow();
      const name = row.insertCell();
      name.innerHTML = `<svg width="10" height="10" aria-hidden="true"><circle cx="5" cy="5" r="4" fill="${colour(this.configurations[series.configuration])}"/></svg> `;
      name.append(nameOf(series, this.configurations));
      const value = row.insertCell();
      const [high, low] = nth === null || !series.high ? [null, null] : [u.data[at + 1]?.[nth], u.data[at + 2]?.[nth]];
      value.textContent = shown(y ?? 0, unit) + (high != null && low != null ? ` [${shown(low, unit)}, ${shown(high, unit)}]` : "");
    }
    this.tip.replaceChildren(title, table);
    if (near.length > listed.length) this.tip.append(`and ${near.length - listed.length} more`);
    this.tip.hidden = false;
    const over = u.over.getBoundingClientRect();
    const root = this.root.getBoundingClientRect();
    const at = over.left - root.left + left;
    this.tip.style.left = `${at + this.tip.offsetWidth + 24 > root.width ? Math.max(0, at - this.tip.offsetWidth - 12) : at + 14}px`;
    this.tip.style.top = `${over.top - root.top + Math.max(0, top - 20)}px`;
  }

  /** The nearest position at which a line has a value. Lines may have different positions. */
  private nearest(u: uPlot, at: number, idx: number): number | null {
    const ys = u.data[at];
    if (!ys) return null;
    for (let far = 0; far < 60; far += 1) {
      if (ys[idx - far] != null) return idx - far;
      if (ys[idx + far] != null) return idx + far;
    }
    return null;
  }

  /** A position on the x axis; a time counts from the start of its phase. */
  private placeOf(x: number): string {
    const phase = (this.chart.marks ?? []).findLast((m) => m.kind === "phase" && m.at <= x);
    if (phase) return `${phase.label}, ${shown(x - phase.at, "seconds")}`;
    return `${this.chart.x.unit === "quantile" ? "" : `${this.chart.x.label} `}${shown(x, this.chart.x.unit)}`;
  }

  /** Passes a change of the x axis on to the charts of the group. */
  private zoomed(u: uPlot): void {
    const { min, max } = u.scales.x ?? {};
    this.root.dataset.from = String(min);
    this.root.dataset.to = String(max);
    if (this.views.some((view) => view.u === u) && min != null && max != null) this.together.moved({ min, max });
  }

  follow(range: Range): void {
    this.sayPart(range);
    if (this.chart.kind !== "heat") for (const { u } of this.views) u.setScale("x", range);
  }

  /** The list of phases says which part is shown; nothing, if it is none of them. */
  private sayPart(range: Range): void {
    const select = this.tools.querySelector<HTMLSelectElement>("select[name=phase]");
    if (!select) return;
    const whole = this.together.whole();
    const same = (a: { min: number; max: number }) => Math.abs(a.min - range.min) < 1e-6 && Math.abs(a.max - range.max) < 1e-6;
    const phases = (this.chart.marks ?? []).filter((m) => m.kind === "phase" && m.to !== undefined);
    const phase = phases.find((m) => same({ min: m.at, max: m.to ?? m.at }));
    const from = this.chart.from;
    if (same(whole)) select.value = "";
    else if (phase) select.value = phase.label;
    else if (from !== undefined && Math.abs(from - range.min) < 1e-6 && range.max >= whole.max - 1e-6) select.value = MEASURED;
    else select.selectedIndex = -1;
  }

  private key(event: KeyboardEvent): void {
    const before = this.keyed === null ? -1 : this.views.indexOf(this.keyed);
    const turn = event.key === "PageDown" ? 1 : event.key === "PageUp" ? -1 : 0;
    const view = this.views[Math.min(Math.max(Math.max(before, 0) + turn, 0), this.views.length - 1)];
    if (!view || this.chart.kind === "heat" || event.ctrlKey || event.metaKey || event.altKey) return;
    const { u, drawn } = view;
    this.keyed = view;
    if (turn !== 0) {
      this.tip.hidden = true;
      this.said.textContent = view.name;
      event.preventDefault();
      return;
    }
    const { min, max } = u.scales.x ?? {};
    if (min == null || max == null) return;
    const known = u.cursor.idx;
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (step !== 0) {
      const first = u.valToIdx(min);
      const next = known === null || known === undefined || (u.cursor.left ?? -1) < 0 ? first : known + step * (event.shiftKey ? 10 : 1);
      const nth = Math.min(Math.max(next, first), u.valToIdx(max));
      const one = drawn[0];
      const at = one ? this.nearest(u, one.at, nth) : null;
      const y = one && at !== null ? u.data[one.at]?.[at] : null;
      // Keep the cursor inside the plot; uPlot treats positions beyond its edges as outside.
      const left = Math.min(Math.max(u.valToPos(u.data[0][nth] ?? min, "x"), 0), u.bbox.width / devicePixelRatio);
      u.setCursor({ left, top: y == null ? u.bbox.height / 2 / devicePixelRatio : u.valToPos(y, "y") });
      this.said.textContent = this.tip.hidden ? "" : this.tip.innerText;
    } else if (event.key === "+" || event.key === "=" || event.key === "-") {
      const share = event.key === "-" ? 2 : 0.5;
      const log = this.chart.x.scale === "log";
      const [a, b] = log ? [Math.log(min), Math.log(max)] : [min, max];
      const middle = known !== null && known !== undefined && (u.cursor.left ?? -1) >= 0 ? (u.data[0][known] ?? min) : null;
      const about = middle === null ? (a + b) / 2 : log ? Math.log(middle) : middle;
      const half = ((b - a) / 2) * share;
      const whole = this.together.whole();
      const back = (v: number) => (log ? Math.exp(v) : v);
      this.together.show({ min: Math.max(whole.min, back(about - half)), max: Math.min(whole.max, back(about + half)) });
    } else if (event.key === "Escape" || event.key === "0") {
      this.together.show(null);
      u.setCursor({ left: -10, top: -10 });
    } else {
      return;
    }
    event.preventDefault();
  }
}

/** A line's name: its configuration, or its own label. */
function nameOf(series: { label: string; configuration: number }, configurations: Configuration[]): string {
  const configuration = configurations[series.configuration]?.name ?? "";
  if (series.label === "") return configuration;
  return series.label.startsWith("trial") ? `${configuration}, ${series.label}` : series.label;
}
