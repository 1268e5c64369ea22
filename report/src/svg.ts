// A chart as an SVG file, with the data and axes of the page.

import type uPlot from "../vendor/uplot/uPlot.esm.js";
import { ROWS, cellsOf, darkness } from "./heat";
import { type Drawn, applies, axisOf } from "./lines";
import { type Configuration, type Chart, type Shown, isChosen } from "./model";
import { colour, css, plain } from "./palette";
import { shown, tick } from "./format";

function escaped(text: string): string {
  return text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/"/g, "&quot;");
}

/** The ticks that uPlot placed on an axis. */
function ticks(u: uPlot, axis: number): number[] {
  return ((u.axes[axis] as unknown as { _splits?: (number | null)[] })._splits ?? []).filter((v): v is number => v !== null);
}

/** A drawn part of a chart: all of it, or one of its panels. */
export interface View {
  u: uPlot;
  drawn: Drawn[];
  /** The name of the panel. */
  name: string;
}

/** A chart as SVG. Panels are one below another. */
export function svgOf(views: View[], chart: Chart, configurations: Configuration[], state: Shown): string {
  if (views.length === 1 && views[0]) return one(views[0], chart, configurations, state, 0).text;
  const parts: string[] = [];
  let [width, height] = [0, 0];
  views.forEach((view, nth) => {
    const made = one(view, chart, configurations, state, nth);
    parts.push(made.text.replace("<svg ", `<svg x="0" y="${height}" width="${made.width}" height="${made.height}" `));
    [width, height] = [Math.max(width, made.width), height + made.height];
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}">\n${parts.join("\n")}\n</svg>`;
}

function one({ u, drawn, name }: View, chart: Chart, configurations: Configuration[], state: Shown, nth: number): { text: string; width: number; height: number } {
  const [width, height] = [u.width, u.height];
  const ratio = devicePixelRatio;
  const box = { x: u.bbox.left / ratio, y: u.bbox.top / ratio, w: u.bbox.width / ratio, h: u.bbox.height / ratio };
  const px = (v: number, scale: string) => {
    const at = u.valToPos(v, scale) + (scale === "x" ? box.x : box.y);
    return Math.round(at * 10) / 10;
  };
  const series = chart.kind === "heat" ? [] : drawn.map((d) => d.series);
  const names = [...new Set(series.map((s) => s.configuration))];
  const heat = chart.kind === "heat" ? cellsOf(chart, state) : undefined;
  const listed = heat ? [heat.configuration] : names;
  const legend = 18 * Math.ceil(listed.length / 2) + 12;
  const out: string[] = [];
  out.push(
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height + legend + 26}" font-family="sans-serif" font-size="12">`,
    `<title>${escaped(chart.title)}</title><desc>${escaped(chart.about)}</desc>`,
    `<rect width="100%" height="100%" fill="${css("--ground")}"/>`,
    `<text x="${box.x}" y="16" font-size="14" font-weight="600" fill="${css("--text")}">${escaped(name === "" ? titleOf(chart, state) : `${titleOf(chart, state)}: ${name}`)}</text>`,
    `<g transform="translate(0 26)">`,
  );
  for (const [axis, scale] of [[0, "x"], [1, "y"]] as const) {
    const unit = axis === 0 ? chart.x.unit : chart.kind === "heat" ? "ns" : axisOf(chart, series).unit;
    for (const v of ticks(u, axis)) {
      const at = px(v, scale);
      const label = escaped(tick(v, unit));
      if (scale === "x") {
        if (at < box.x - 1 || at > box.x + box.w + 1) continue;
        out.push(`<line x1="${at}" y1="${box.y}" x2="${at}" y2="${box.y + box.h}" stroke="${css("--faint")}"/>`);
        out.push(`<text x="${at}" y="${box.y + box.h + 16}" text-anchor="middle" fill="${css("--dim")}">${label}</text>`);
      } else {
        if (at < box.y - 1 || at > box.y + box.h + 1) continue;
        out.push(`<line x1="${box.x}" y1="${at}" x2="${box.x + box.w}" y2="${at}" stroke="${css("--faint")}"/>`);
        out.push(`<text x="${box.x - 6}" y="${at + 4}" text-anchor="end" fill="${css("--dim")}">${label}</text>`);
      }
    }
  }
  out.push(`<text x="${box.x + box.w / 2}" y="${box.y + box.h + 34}" text-anchor="middle" fill="${css("--dim")}">${escaped(chart.x.label)}</text>`);
  out.push(`<clipPath id="c${nth}"><rect x="${box.x}" y="${box.y}" width="${box.w}" height="${box.h}"/></clipPath><g clip-path="url(#c${nth})">`);
  for (const mark of (chart.marks ?? []).filter((m) => m.kind === "phase" && m.to !== undefined)) {
    out.push(`<text x="${px(mark.at, "x") + 4}" y="${box.y + 13}" font-size="12" fill="${css("--dim")}">${escaped(mark.label)}</text>`);
  }
  for (const mark of (chart.marks ?? []).filter((m) => m.kind !== "phase" && m.kind !== "work" && applies(m, series))) {
    const [from, to] = [px(mark.at, "x"), px(mark.to ?? mark.at, "x")];
    const tone = css(mark.kind === "better" ? "--pass" : "--invalid");
    const [fill, opacity] = mark.kind === "change" ? [plain(colour(configurations[mark.configuration ?? 0])), 0.7] : [tone, 0.18];
    out.push(`<rect x="${from}" y="${box.y}" width="${Math.max(1, to - from)}" height="${box.h}" fill="${fill}" fill-opacity="${opacity}"/>`);
    if (["fault", "end", "worse", "better"].includes(mark.kind)) {
      const right = from < box.x + box.w * 0.6;
      out.push(`<text x="${right ? from + 3 : from - 3}" text-anchor="${right ? "start" : "end"}" y="${box.y + 28}" font-size="12" fill="${tone}">${escaped(mark.label)}</text>`);
    }
  }
  if (heat) {
    let most = 1;
    for (let at = 2; at < heat.cells.length; at += 3) most = Math.max(most, heat.cells[at] ?? 0);
    for (let at = 0; at < heat.cells.length; at += 3) {
      const [column, row, n] = [heat.cells[at] ?? 0, heat.cells[at + 1] ?? 0, heat.cells[at + 2] ?? 0];
      const [x0, x1] = [px(column * heat.step, "x"), px((column + 1) * heat.step, "x")];
      const [y0, y1] = [px(2 ** ((row + 1) / ROWS), "y"), px(2 ** (row / ROWS), "y")];
      out.push(`<rect x="${x0}" y="${y0}" width="${(x1 - x0).toFixed(1)}" height="${(y1 - y0).toFixed(1)}" fill="rgb(${css("--heat")})" fill-opacity="${darkness(n, most).toFixed(2)}"/>`);
    }
  }
  for (const { series: s, at } of drawn) {
    const [xs, ys] = [u.data[0], u.data[at] ?? []];
    const stroke = plain(colour(configurations[s.configuration]));
    const path: string[] = [];
    let open = false;
    const few: string[] = [];
    for (let nth = 0; nth < xs.length; nth += 1) {
      const [x, y] = [xs[nth], ys[nth]];
      if (y === undefined) continue;
      if (y === null || x === undefined) {
        open = false;
        continue;
      }
      const [a, b] = [px(x, "x"), px(y, "y")];
      path.push(`${open ? "L" : "M"}${a} ${b}`);
      few.push(`<circle cx="${a}" cy="${b}" r="3" fill="${stroke}"/>`);
      open = true;
    }
    if (s.low && s.high) {
      for (let nth = 0; nth < xs.length; nth += 1) {
        const [x, high, low] = [xs[nth], u.data[at + 1]?.[nth], u.data[at + 2]?.[nth]];
        if (x === undefined || high == null || low == null) continue;
        out.push(`<line x1="${px(x, "x")}" y1="${px(low, "y")}" x2="${px(x, "x")}" y2="${px(high, "y")}" stroke="${stroke}" stroke-opacity="0.6"/>`);
      }
    }
    if (chart.kind === "lines") out.push(`<path d="${path.join("")}" fill="none" stroke="${stroke}" stroke-width="1.6"/>`);
    if (chart.kind === "points" || few.length < 25) out.push(...few);
  }
  for (const line of (chart.lines ?? []).filter((l) => isChosen(l.of, chart, state))) {
    out.push(`<line x1="${box.x}" x2="${box.x + box.w}" y1="${px(line.at, "y")}" y2="${px(line.at, "y")}" stroke="${css("--invalid")}" stroke-dasharray="6 4"/>`);
    out.push(`<text x="${box.x + 6}" y="${px(line.at, "y") - 4}" font-size="12" fill="${css("--invalid")}">${escaped(`${line.label} ${shown(line.at, chart.ys[line.axis]?.unit ?? "plain")}`)}</text>`);
  }
  out.push("</g></g>");
  listed.forEach((configuration, nth) => {
    const [x, y] = [box.x + (nth % 2) * (box.w / 2), height + 26 + 18 * Math.floor(nth / 2) + 12];
    out.push(`<circle cx="${x + 5}" cy="${y - 4}" r="4" fill="${plain(colour(configurations[configuration]))}"/><text x="${x + 14}" y="${y}" fill="${css("--text")}">${escaped(series.find((s) => s.configuration === configuration && s.label !== "" && !s.label.startsWith("trial"))?.label ?? configurations[configuration]?.name ?? "")}</text>`);
  });
  out.push("</svg>");
  return { text: out.join("\n"), width, height: height + legend + 26 };
}

/** The title with the current choices. */
export function titleOf(chart: Chart, state: Shown): string {
  const chosen = chart.choices.map((choice) => state.chosen.get(choice.key)).filter((c) => c !== undefined);
  return chosen.length > 0 ? `${chart.title} (${chosen.join(", ")})` : chart.title;
}
