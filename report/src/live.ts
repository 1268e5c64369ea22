// The live report: current figures arrive as events. The rest of the page is fetched again before each trial and phase,
// and when the run ends.

import uPlot from "../vendor/uplot/uPlot.esm.js";
import { duration, rate, tick } from "./format";
import { css } from "./palette";

interface Now {
  trial: number;
  of: number;
  configuration: string;
  phase: string;
  second: number;
  per_s: number;
  p99_ns: number | null;
  errors: number;
}

/** The most values in the charts of current figures. */
const MOST = 600;

export function follow(redraw: (html: string, data: string) => void): void {
  const badge = document.querySelector<HTMLElement>(".brand .live");
  if (badge) badge.hidden = false;
  const section = document.createElement("section");
  section.id = "now";
  const heading = document.createElement("h2");
  heading.textContent = "Now";
  const line = document.createElement("p");
  line.setAttribute("role", "status");
  // It changes several times a second, which nobody can listen to.
  line.setAttribute("aria-live", "off");
  const places = [document.createElement("div"), document.createElement("div")];
  for (const place of places) place.className = "plot";
  section.append(heading, line, ...places);
  const stand = () => document.querySelector("main")?.prepend(section);
  stand();
  let place = "";
  let values: [number[], number[], (number | null)[]] = [[], [], []];
  let charts: uPlot[] = [];
  const start = () => {
    for (const chart of charts) chart.destroy();
    values = [[], [], []];
    charts = places.map((at, nth) => small(at, nth === 0 ? "answers/s" : "p99", nth === 0));
  };
  const events = new EventSource("events");
  let ended = false;
  events.addEventListener("error", () => {
    if (!ended) line.textContent = "The connection to the run is lost. The figures are the last ones that arrived.";
  });
  events.addEventListener("now", (event) => {
    const now = JSON.parse((event as MessageEvent<string>).data) as Now;
    const where = `${now.trial} ${now.phase}`;
    if (where !== place) {
      place = where;
      start();
    }
    values[0].push(now.second);
    values[1].push(now.per_s);
    values[2].push(now.p99_ns);
    if (values[0].length > MOST) for (const column of values) column.shift();
    charts[0]?.setData([values[0], values[1]]);
    charts[1]?.setData([values[0], values[2]]);
    const errors = now.errors > 0 ? `, ${now.errors} errors` : "";
    line.textContent =
      `trial ${now.trial} of ${now.of}, ${now.configuration}, ${now.phase}: ${rate(now.per_s)} answers/s` +
      `${now.p99_ns === null ? "" : `, p99 ${duration(now.p99_ns)}`}${errors}, for ${duration(now.second * 1e9)}`;
    section.dataset.values = String(values[0].length);
  });
  const refresh = async () => {
    const answer = await fetch("changing");
    const { html, data } = (await answer.json()) as { html: string; data: string };
    redraw(html, data);
    const again = document.querySelector<HTMLElement>(".brand .live");
    if (again) again.hidden = ended;
    if (!ended) stand();
  };
  events.addEventListener("changed", () => void refresh());
  events.addEventListener("ended", () => {
    ended = true;
    section.remove();
    // The server waits until this page closes its stream: first fetch the result.
    void refresh().finally(() => {
      events.close();
      document.body.dataset.life = "ended";
    });
  });
}

function small(place: HTMLElement, label: string, fromZero: boolean): uPlot {
  const text = css("--dim");
  const grid = { stroke: css("--faint"), width: 1 };
  const font = "12px sans-serif";
  return new uPlot(
    {
      width: Math.max(280, place.clientWidth),
      height: 150,
      legend: { show: false },
      cursor: { show: false },
      scales: { x: { time: false }, y: fromZero ? { range: (_, __, b) => [0, b ? b * 1.1 : 1] } : { distr: 3 } },
      axes: [
        { stroke: text, grid, font, values: (_, all) => all.map((v) => tick(v, "seconds")) },
        { stroke: text, grid, font, label, labelSize: 20, labelFont: font, size: 70, values: (_, all) => all.map((v) => (v === null ? "" : tick(v, fromZero ? "per-second" : "ns"))) },
      ],
      series: [{}, { stroke: css("--c0"), width: 1.6 }],
    },
    [[], []],
    place,
  );
}
