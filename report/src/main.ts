// The page's script: draws its charts, makes its tables sortable, follows a run.

import { follow } from "./live";
import { type Data, readData } from "./model";
import { Place } from "./place";
import { serveTables } from "./tables";

let places: Place[] = [];

function later(act: () => void): void {
  if ("requestIdleCallback" in window) requestIdleCallback(act, { timeout: 200 });
  else setTimeout(act, 0);
}

/** Draws all charts, the first at once, so that the page can be read while the others follow. */
function draw(data: Data): void {
  for (const place of places) place.forget();
  places = [];
  const charts = data.charts.map((chart) => ({ chart, at: document.querySelector<HTMLElement>(`[data-chart="${chart.id}"]`) }));
  const next = (nth: number) => {
    const one = charts[nth];
    if (!one) {
      document.documentElement.dataset.drawn = "all";
      return;
    }
    if (one.at) places.push(new Place(one.at, one.chart, data.arms));
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
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  // Paper has no folds. What was folded is folded again.
  let folded: HTMLDetailsElement[] = [];
  window.addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll<HTMLDetailsElement>("details:not([open])")];
    for (const details of folded) details.open = true;
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
