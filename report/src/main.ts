// The page's script. It draws charts, sorts and searches tables, and updates a live report.

import { follow } from "./live";
import { type Data, type Shown, readData, shownAtFirst } from "./model";
import { Place } from "./place";
import { serveTables } from "./tables";
import { Together } from "./together";

let places: Place[] = [];

/** The reader's choices for each chart, by id. They survive when the page of a run in progress is rebuilt. */
const shown = new Map<string, Shown>();

function later(act: () => void): void {
  if ("requestIdleCallback" in window) requestIdleCallback(act, { timeout: 200 });
  else setTimeout(act, 0);
}

/** Draws all charts: the first ones at once, the others when the browser is idle. */
function draw(data: Data): void {
  for (const place of places) place.forget();
  places = [];
  const groups = new Map<string, Together>();
  const charts = data.charts.map((chart) => {
    const state = shownAtFirst(chart, shown.get(chart.id));
    shown.set(chart.id, state);
    const together = groups.get(chart.group ?? chart.id) ?? new Together();
    groups.set(chart.group ?? chart.id, together);
    together.add(chart, state);
    return { chart, state, together, at: document.querySelector<HTMLElement>(`[data-chart="${chart.id}"]`) };
  });
  const next = (nth: number) => {
    const one = charts[nth];
    if (!one) {
      document.documentElement.dataset.drawn = "all";
      return;
    }
    if (one.at) places.push(new Place(one.at, one.chart, one.state, one.together, data.configurations, data.panels, data.columns));
    if (nth === 0) next(1);
    else later(() => next(nth + 1));
  };
  next(0);
}

function again(): void {
  for (const place of places) place.draw();
}

function start(): void {
  serveTables(document);
  draw(readData());
  let width = document.body.clientWidth;
  let waiting = 0;
  window.addEventListener("resize", () => {
    if (document.body.clientWidth === width) return;
    width = document.body.clientWidth;
    clearTimeout(waiting);
    waiting = window.setTimeout(again, 120);
  });
  // Charts in a folded part had no width, so they are drawn again.
  document.addEventListener("toggle", (event) => {
    if (event.target instanceof HTMLDetailsElement && event.target.matches(".part[open]")) again();
  }, true);
  const unfold = () => {
    const at = location.hash.length > 1 ? document.getElementById(location.hash.slice(1)) : null;
    const part = at?.closest<HTMLDetailsElement>("details.part");
    if (!part || part.open) return;
    part.open = true;
    at?.scrollIntoView();
  };
  window.addEventListener("hashchange", unfold);
  unfold();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  // Everything is unfolded for printing, and folded again afterwards.
  let folded: HTMLDetailsElement[] = [];
  window.addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll<HTMLDetailsElement>("details:not([open])")];
    for (const details of folded) details.open = true;
    again();
  });
  window.addEventListener("afterprint", () => {
    for (const details of folded) details.open = false;
  });
  if (document.body.dataset.life === "live") {
    follow((html, data) => {
      const made = new DOMParser().parseFromString(html, "text/html");
      for (const name of ["header", "main", "footer"]) {
        const fresh = made.querySelector(name);
        if (fresh) document.querySelector(name)?.replaceWith(fresh);
      }
      const island = document.getElementById("data");
      if (island) island.textContent = data;
      serveTables(document);
      draw(JSON.parse(data) as Data);
    });
  }
}

start();
