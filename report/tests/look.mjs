// Checks a report in a real browser, as a reader sees it.
//
//   node report/tests/look.mjs CHECK PAGE      CHECK: a function below; PAGE: a file or http://127.0.0.1:PORT/
//
// REPORT_TOOLS is the folder with node_modules, CHROMIUM the browser, SHOTS the folder for screenshots. If a check
// fails, prints why and exits with 1.
import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const { chromium } = createRequire(join(process.env.REPORT_TOOLS, "package.json"))("playwright-core");
const [check, where] = process.argv.slice(2);
const address = where.startsWith("http:") ? where : pathToFileURL(where).href;
const shots = process.env.SHOTS;
if (shots) mkdirSync(shots, { recursive: true });

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM,
  args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
});

/** Opens the page, and records its messages and requests. */
async function open(options = {}) {
  const context = await browser.newContext({ viewport: { width: 1200, height: 900 }, acceptDownloads: true, ...options });
  const page = await context.newPage();
  page.said = [];
  page.asked = [];
  page.on("console", (message) => page.said.push(message.text()));
  page.on("pageerror", (error) => page.said.push(String(error)));
  page.on("dialog", (dialog) => {
    page.said.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on("request", (request) => page.asked.push(request.url()));
  await page.goto(address);
  if (options.javaScriptEnabled !== false) {
    await page.waitForSelector("html[data-drawn=all]", { state: "attached", timeout: 30000 });
    page.folded = await page.evaluate(() => document.documentElement.scrollHeight);
    // Folded parts are checked too.
    await page.evaluate(async () => {
      for (const part of document.querySelectorAll("details.part, details.checks")) part.open = true;
      await new Promise((done) => requestAnimationFrame(() => setTimeout(done, 50)));
    });
  }
  return page;
}

const shot = (page, name) => (shots ? page.screenshot({ path: join(shots, `${name}.png`), fullPage: true }) : undefined);
const dataOf = (page) => page.evaluate(() => JSON.parse(document.getElementById("data").textContent));
const plotOf = (page, id) => page.locator(`.plot[data-chart="${id}"]`);
const numbersOf = async (plot) => plot.evaluate((at) => ({ ...at.dataset }));

/** The series that a chart shows at first, according to the data. */
function atFirst(chart) {
  return chart.series.filter((s) => chart.choices.every((c, nth) => s.of[nth] < 0 || c.values[s.of[nth]] === c.chosen));
}

async function saved(page, button) {
  const [download] = await Promise.all([page.waitForEvent("download"), button.click()]);
  return { name: download.suggestedFilename(), text: readFileSync(await download.path(), "utf8") };
}

const checks = {
  /** The page loads only itself, and logs nothing. */
  async quiet() {
    const page = await open();
    assert.deepEqual(page.asked.filter((url) => !url.startsWith("blob:")), [address]);
    assert.deepEqual(page.said, []);
    await shot(page, "report");
    assert.equal(await page.locator(".brand .live").isHidden(), true);
    assert.ok(page.folded < 4000, `${page.folded} pixels, folded`);
    assert.ok(await page.locator("svg.picture circle").count() > 1, "the answer has a picture");
  },

  /** The answer, its chart and its table fit any screen: nothing is cut off, and labels do not overlap. */
  async first_screen() {
    const page = await open({ viewport: { width: 1400, height: 900 } });
    for (const [width, colorScheme] of [[1400, "light"], [1400, "dark"], [700, "light"], [400, "light"], [400, "dark"]]) {
      await page.setViewportSize({ width, height: 900 });
      await page.emulateMedia({ colorScheme });
      await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 200))));
      await shot(page, `first-${width}-${colorScheme}`);
      const faults = await page.evaluate(() => {
        const told = [];
        const shown = (e) => e.getClientRects().length > 0;
        const pictures = [...document.querySelectorAll("svg.picture")].filter(shown);
        if (pictures.length !== document.querySelectorAll("figure.headline").length) told.push(`${pictures.length} pictures`);
        for (const picture of pictures) {
          const frame = picture.getBoundingClientRect();
          const texts = [...picture.querySelectorAll("text")].map((e) => ({
            text: e.textContent,
            box: e.getBoundingClientRect(),
            size: parseFloat(getComputedStyle(e).fontSize) * e.getScreenCTM().a,
          }));
          for (const { text, box, size } of texts) {
            if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.bottom > frame.bottom + 1) told.push(`"${text}" is cut off`);
            if (size < 12) told.push(`"${text}" has ${size} pixels`);
          }
          texts.forEach((a, nth) => texts.slice(nth + 1).forEach((b) => {
            const wide = Math.min(a.box.right, b.box.right) - Math.max(a.box.left, b.box.left);
            const high = Math.min(a.box.bottom, b.box.bottom) - Math.max(a.box.top, b.box.top);
            if (wide > 1 && high > 4) told.push(`"${a.text}" overlaps "${b.text}"`);
          }));
        }
        for (const e of document.querySelectorAll("header .answer, header h1, header .question, header .facts, .badge")) {
          if (shown(e) && e.scrollWidth > e.clientWidth + 1) told.push(`${e.className || e.tagName} overflows`);
        }
        // Every figure is on the screen: each percentile, and the outcome of each gate.
        for (const e of document.querySelectorAll(".brief td")) {
          const box = e.getBoundingClientRect();
          if (shown(e) && (box.left < 0 || box.right > innerWidth + 1)) told.push(`"${e.textContent}" is beyond the screen`);
        }
        // A number stays on one line.
        for (const e of document.querySelectorAll(".brief td.number")) {
          const range = document.createRange();
          range.selectNodeContents(e);
          const tops = new Set([...range.getClientRects()].filter((r) => r.width > 0).map((r) => Math.round(r.top)));
          if (tops.size > 1) told.push(`"${e.textContent}" is on ${tops.size} lines`);
        }
        const answer = document.querySelector(".answer").getBoundingClientRect();
        if (answer.top > 400) told.push(`the answer begins at ${answer.top}`);
        return told;
      });
      assert.deepEqual(faults, [], `${width} ${colorScheme}`);
      const wide = await page.evaluate(() => document.scrollingElement.scrollWidth);
      assert.ok(wide <= width, `${wide} of ${width}`);
    }
  },

  /** Texts of tables, such as the evidence of a bottleneck, end before the edge of their table. */
  async bottleneck() {
    const page = await open({ viewport: { width: 1400, height: 900 } });
    for (const width of [1400, 400]) {
      await page.setViewportSize({ width, height: 900 });
      const edges = await page.evaluate(() => [...document.querySelectorAll("th")].filter((e) => e.textContent === "bottleneck").map((head) => {
        const place = head.closest(".scroll");
        return [place.scrollWidth, place.clientWidth];
      }));
      assert.ok(edges.length > 0, "no table has bottlenecks");
      for (const [whole, seen] of edges) assert.ok(whole <= seen, `${seen} of ${whole} pixels are seen`);
    }
  },

  /** Charts over time of several configurations have a panel for each, on the same axes. */
  async panels() {
    const page = await open();
    const { charts, panels } = await dataOf(page);
    const chart = charts.find((c) => c.panels);
    assert.ok(panels.length > 3 && chart, "no chart has panels");
    const plot = plotOf(page, chart.id);
    assert.equal(await plot.locator(".panel").count(), panels.length);
    assert.deepEqual(await plot.locator(".panel-name").allInnerTexts().then((all) => all.map((t) => t.trim())), panels);
    const before = await numbersOf(plot);
    const file = await saved(page, plot.getByRole("button", { name: "SVG" }));
    for (const name of panels) assert.ok(file.text.includes(name), `${name} is not in the SVG`);
    await plot.locator('[role="application"]').focus();
    await page.keyboard.press("ArrowRight");
    assert.equal(await plot.locator(".tip").isVisible(), true);
    assert.equal(Number(before.panels), panels.length);
    // Keys reach every panel, and no further.
    for (const name of [...panels.slice(1), panels.at(-1)]) {
      await page.keyboard.press("PageDown");
      assert.equal(await plot.locator('[role="status"]').evaluate((at) => at.textContent), name);
    }
    await page.keyboard.press("ArrowRight");
    assert.equal(await plot.locator(".tip").isVisible(), true);
  },

  /** A comparison: the outcome, the gates, the ratios, and the time lines of A above those of B. */
  async compared() {
    const page = await open();
    assert.deepEqual(page.said, []);
    assert.deepEqual(page.asked.filter((url) => !url.startsWith("blob:")), [address]);
    assert.match(await page.locator(".answer .found").innerText(), /gate/);
    assert.ok((await page.locator(".answer .why .badge").count()) > 0, "no caution is beside the answer");
    assert.deepEqual(await page.locator("#gates tbody td:first-child").allInnerTexts(), ["undecided", "undecided"]);
    // Green and red are better and worse, so neither side has them. The values of the axis are above the first row.
    const { configurations, charts } = await dataOf(page);
    const painted = charts[0].series.map((s) => configurations[s.configuration].colour);
    assert.deepEqual([...new Set(painted)].sort(), [0, 7]);
    const ticks = await page.locator("svg.picture:not(.narrow) .d").evaluateAll((all) => all.map((e) => ({ text: e.textContent, y: e.getBoundingClientRect().bottom })));
    const dots = await page.locator("svg.picture:not(.narrow) circle").evaluateAll((all) => all.map((e) => e.getBoundingClientRect().top));
    assert.ok(ticks.some(({ text, y }) => text === "×1" && y < Math.min(...dots)), JSON.stringify(ticks));
    assert.ok(await page.locator("svg.picture circle").count() > 3, "ratios are drawn");
    const plot = plotOf(page, "throughput-over-time");
    const names = await plot.locator(".panel-name").allInnerTexts();
    assert.deepEqual(names.map((name) => name.trim().slice(0, 2)), ["A:", "B:"]);
    const boxes = await plot.locator(".panel canvas").evaluateAll((all) => all.map((c) => c.getBoundingClientRect().toJSON()));
    assert.ok(boxes[0].bottom <= boxes[1].top && Math.abs(boxes[0].left - boxes[1].left) < 2, "the time line of A is not above that of B");
    const figures = page.locator("details.part table.sortable");
    assert.ok(await figures.locator("tbody tr").count() > 5);
    await shot(page, "compared");
  },

  /** The index: search, sorting, and a link to each report. */
  async indexed() {
    const page = await open();
    assert.deepEqual(page.said, []);
    const rows = page.locator("#runs tbody tr");
    const all = await rows.count();
    assert.ok(all >= 3, `${all} rows`);
    await page.locator("#runs input[type=search]").fill("second run");
    assert.equal(await page.locator("#runs tbody tr:visible").count(), 1);
    assert.equal(await page.locator("#runs .search [role=status]").innerText(), `1 of ${all}`);
    await page.locator("#runs input[type=search]").fill("");
    assert.equal(await page.locator("#runs tbody tr:visible").count(), all);
    assert.ok(await page.locator("#courses tbody tr svg polyline").count() > 0, "no figure over time");
    assert.match(await page.locator("header .facts").innerText(), /as of \d{4}-.* UTC\. Later runs are missing; to add them: storebench report/);
    for (const width of [1200, 400]) {
      await page.setViewportSize({ width, height: 900 });
      for (const badge of await page.locator("#runs .badge").all()) {
        const { x, width: wide } = await badge.boundingBox();
        assert.ok(x >= 0 && x + wide <= width, `the validity ends at ${x + wide} of ${width}`);
      }
      assert.ok((await page.evaluate(() => document.scrollingElement.scrollWidth)) <= width);
      await shot(page, `indexed-${width}`);
    }
    await page.locator("#runs tbody a").first().click();
    await page.waitForSelector(".answer .found");
  },

  /** Charts have the points of the data, and show them. */
  async points() {
    const page = await open();
    const { charts } = await dataOf(page);
    assert.ok(charts.length >= 3, `${charts.length} charts`);
    for (const chart of charts.filter((c) => c.kind !== "heat")) {
      const found = await numbersOf(plotOf(page, chart.id));
      const series = atFirst(chart);
      const points = series.reduce((n, s) => n + s.y.filter((v) => v !== null).length, 0);
      assert.equal(Number(found.lines), series.length, `${chart.id}: lines`);
      assert.equal(Number(found.points), points, `${chart.id}: points`);
      assert.ok(points > 0, `${chart.id} is empty`);
      for (const xs of chart.xs) assert.ok(xs.every((x, nth) => nth === 0 || x >= xs[nth - 1]), `${chart.id}: x decreases`);
    }
    for (const canvas of await page.locator(".plot canvas").all()) {
      const inked = await canvas.evaluate((c) => {
        const { data } = c.getContext("2d").getImageData(0, 0, c.width, c.height);
        // A colour other than grey: a line, a point or a cell.
        for (let at = 0; at < data.length; at += 4) {
          if (data[at + 3] > 60 && Math.max(data[at], data[at + 1], data[at + 2]) - Math.min(data[at], data[at + 1], data[at + 2]) > 60) return true;
        }
        return false;
      });
      assert.ok(inked, "a chart shows no colour");
    }
  },

  /** The tooltip shows names and figures at the pointer. */
  async hover() {
    const page = await open();
    const { configurations } = await dataOf(page);
    const plot = page.locator(".plot").first();
    await plot.scrollIntoViewIfNeeded();
    const box = await plot.locator(".u-over").first().boundingBox();
    let text = "";
    for (const share of [0.02, 0.2, 0.5, 0.8, 0.98]) {
      await page.mouse.move(box.x + box.width * share, box.y + box.height / 2);
      if (await plot.locator(".tip").isVisible()) text = await plot.locator(".tip").innerText();
    }
    assert.ok(configurations.some((configuration) => text.includes(configuration.name.split(" ")[0])), `the tooltip is ${JSON.stringify(text)}`);
    assert.match(text, /\d/);
    await page.mouse.move(1, 1);
    assert.equal(await plot.locator(".tip").isHidden(), true);
  },

  /** A click on a configuration's name hides its lines or shows them again. */
  async legend() {
    const page = await open();
    const { charts } = await dataOf(page);
    const chart = charts.find((c) => c.kind === "lines" && !c.panels && new Set(atFirst(c).map((s) => s.configuration)).size > 1);
    assert.ok(chart, "no chart has two configurations");
    const plot = plotOf(page, chart.id);
    const before = Number((await numbersOf(plot)).lines);
    const button = plot.locator(".legend button").first();
    await button.click();
    assert.equal(await plot.locator(".legend button").first().getAttribute("aria-pressed"), "false");
    const fewer = Number((await numbersOf(plot)).lines);
    assert.ok(fewer < before, `${fewer} of ${before} lines`);
    await plot.locator(".legend button").first().click();
    assert.equal(Number((await numbersOf(plot)).lines), before);
    await plot.locator(".legend button").first().click({ modifiers: ["Shift"] });
    assert.equal(await plot.locator('.legend button[aria-pressed="true"]').count(), 1);
  },

  /** A drag zooms all charts over time together; a button shows everything again. */
  async zoom() {
    const page = await open();
    const [one, other] = [plotOf(page, "throughput-over-time"), plotOf(page, "latency-over-time")];
    await one.scrollIntoViewIfNeeded();
    const first = await numbersOf(one);
    const begun = await numbersOf(other);
    assert.deepEqual([begun.from, begun.to], [first.from, first.to], "charts over time show different parts at first");
    // At first, without the load.
    await one.locator("select[name=phase]").selectOption({ label: "all phases" });
    const before = await numbersOf(one);
    assert.ok(Number(before.from) < Number(first.from), JSON.stringify([first, before]));
    const box = await one.locator(".u-over").first().boundingBox();
    const drag = async () => {
      await page.mouse.move(box.x + box.width * 0.3, box.y + 40);
      await page.mouse.down();
      await page.mouse.move(box.x + box.width * 0.6, box.y + 60, { steps: 5 });
      await page.mouse.up();
    };
    await drag();
    const after = await numbersOf(one);
    assert.ok(Number(after.to) - Number(after.from) < (Number(before.to) - Number(before.from)) * 0.5, JSON.stringify([before, after]));
    const with_it = await numbersOf(other);
    assert.deepEqual([with_it.from, with_it.to], [after.from, after.to], "the other chart did not follow");
    const whole = async (how) => {
      for (const chart of [one, other]) {
        const all = await numbersOf(chart);
        assert.deepEqual([all.from, all.to], [before.from, before.to], `${how} does not show the entire axis again`);
      }
    };
    await one.getByRole("button", { name: "reset zoom", exact: true }).click();
    await whole("the button");
    await drag();
    assert.notEqual((await numbersOf(other)).from, before.from);
    await page.mouse.dblclick(box.x + box.width * 0.5, box.y + 50);
    await whole("a double click");
  },

  /** Another choice shows other lines. */
  async choose() {
    const page = await open();
    const { charts } = await dataOf(page);
    const chart = charts.find((c) => c.id === "latency-over-time");
    const choice = chart.choices.find((c) => c.key === "percentile");
    assert.equal(choice.chosen, "p99");
    const plot = plotOf(page, chart.id);
    await plot.locator('select[name="percentile"]').selectOption("max");
    const nth = chart.choices.indexOf(choice);
    const max = chart.series.filter((s) => choice.values[s.of[nth]] === "max" && chart.choices.every((c, at) => at === nth || s.of[at] < 0 || c.values[s.of[at]] === c.chosen));
    assert.equal(Number((await numbersOf(plot)).lines), max.length);
    const log = plot.getByRole("button", { name: "log y" });
    const pressed = await log.getAttribute("aria-pressed");
    await log.click();
    assert.notEqual(await log.getAttribute("aria-pressed"), pressed);
  },

  /** A click on a column's title sorts by its figures; a second click reverses the order. */
  async sort() {
    const page = await open();
    const columns = await page.locator("#configurations table.sortable").evaluateAll((tables) =>
      tables.map((t) => [...t.tHead.rows[0].cells].findIndex((c) => c.classList.contains("number") && [...t.tBodies[0].rows].filter((r) => r.cells[c.cellIndex].dataset.value !== undefined).length > 1)),
    );
    const nth = columns.findIndex((at) => at >= 0);
    assert.ok(nth >= 0, "no table has two figures in a column");
    const [table, column] = [page.locator("#configurations table.sortable").nth(nth), columns[nth]];
    const values = () => table.evaluate((t, at) => [...t.tBodies[0].rows].map((r) => r.cells[at].dataset.value).filter((v) => v !== undefined).map(Number), column);
    const head = table.locator("thead th").nth(column);
    await head.locator("button").click();
    const up = await values();
    assert.ok(up.length > 1, "nothing to sort");
    assert.deepEqual(up, [...up].sort((a, b) => a - b));
    assert.equal(await head.getAttribute("aria-sort"), "ascending");
    await head.locator("button").click();
    assert.deepEqual(await values(), [...up].reverse());
  },

  /** The page follows the dark mode of the reader's system, also when it changes. */
  async dark() {
    const page = await open({ colorScheme: "dark" });
    const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const dark = await ground();
    await shot(page, "dark");
    await page.emulateMedia({ colorScheme: "light" });
    const light = await ground();
    const sum = (colour) => colour.match(/\d+/g).slice(0, 3).map(Number).reduce((a, b) => a + b);
    assert.ok(sum(dark) < 120 && sum(light) > 700, `${dark} and ${light}`);
  },

  /** Everything is unfolded for printing. */
  async print() {
    const page = await open();
    const folded = () => page.locator("details:not([open])").count();
    const before = await folded();
    assert.ok(before > 0);
    await page.evaluate(() => dispatchEvent(new Event("beforeprint")));
    assert.equal(await folded(), 0);
    await page.evaluate(() => dispatchEvent(new Event("afterprint")));
    assert.equal(await folded(), before);
    const paper = await page.pdf({ format: "A4" });
    assert.ok(paper.length > 20000 && paper.subarray(0, 5).toString() === "%PDF-");
  },

  /** On a phone, only elements that scroll are wider than the screen. */
  async narrow() {
    const page = await open({ viewport: { width: 360, height: 740 }, hasTouch: true, isMobile: true });
    const width = await page.evaluate(() => document.scrollingElement.scrollWidth);
    assert.ok(width <= 360, `${width} pixels wide`);
    await shot(page, "narrow");
    await page.setViewportSize({ width: 740, height: 360 });
    await page.waitForTimeout(300);
    const canvas = await page.locator(".plot canvas").first().boundingBox();
    assert.ok(canvas.width > 400, `the chart did not grow with the screen: ${canvas.width}`);
  },

  /** Keys move along a chart, zoom and reset it. Every control has a name. */
  async keyboard() {
    const page = await open();
    const plot = plotOf(page, "throughput-over-time");
    await plot.locator('[role="application"]').focus();
    for (let n = 0; n < 3; n += 1) await page.keyboard.press("ArrowRight");
    assert.equal(await plot.locator(".tip").isVisible(), true);
    assert.match(await plot.locator('[role="status"]').innerText(), /\d/);
    const before = await numbersOf(plot);
    await page.keyboard.press("+");
    const near = await numbersOf(plot);
    assert.ok(Number(near.to) - Number(near.from) < Number(before.to) - Number(before.from));
    await page.keyboard.press("Escape");
    const back = await numbersOf(plot);
    assert.ok(Number(back.to) - Number(back.from) > Number(near.to) - Number(near.from));
    // Every control has a name.
    const nameless = await page.evaluate(() =>
      [...document.querySelectorAll("button, select, summary")].filter((e) => !(e.textContent.trim() || e.getAttribute("aria-label") || e.closest("label"))).length,
    );
    assert.equal(nameless, 0);
  },

  /** Without the script, the page has the answer, the checks and every table. */
  async noscript() {
    const page = await open({ javaScriptEnabled: false });
    assert.ok((await page.locator(".answer .found").innerText()).length > 10);
    assert.ok((await page.locator("#checks .badge").count()) > 0);
    assert.ok((await page.locator("#configurations table tbody tr").count()) > 0);
    const folded = await page.locator("figure.chart details.data table").count();
    assert.equal(folded, await page.locator("figure.chart").count());
    assert.ok((await page.locator(".plot[aria-label]").count()) === folded, "a text alternative is missing");
    await shot(page, "noscript");
  },

  /** Exports: charts as SVG, points as CSV, tables as CSV and Markdown. */
  async exports() {
    const page = await open();
    const { charts } = await dataOf(page);
    for (const chart of charts) {
      const file = await saved(page, plotOf(page, chart.id).getByRole("button", { name: "SVG" }));
      assert.match(file.name, /\.svg$/);
      const drawn = await page.evaluate((text) => {
        const made = new DOMParser().parseFromString(text, "image/svg+xml");
        return made.querySelector("parsererror") ? -1 : made.querySelectorAll("path, circle, rect").length;
      }, file.text);
      assert.ok(drawn > 2, `${chart.id}: the SVG contains ${drawn} shapes`);
    }
    const chart = charts.find((c) => c.kind === "lines");
    const points = chart.series.reduce((n, s) => n + s.y.filter((v) => v !== null).length, 0);
    const csv = await saved(page, plotOf(page, chart.id).getByRole("button", { name: "CSV" }));
    assert.equal(csv.text.trim().split("\r\n").length, points + 1);
    const figure = page.locator("#configurations figure.table").first();
    const rows = await figure.locator("tbody tr").count();
    const table = await saved(page, figure.getByRole("button", { name: "CSV" }));
    assert.equal(table.text.trim().split("\r\n").length, rows + 1);
    const markdown = await saved(page, figure.getByRole("button", { name: "Markdown" }));
    assert.match(markdown.text.split("\n")[1], /^\| (-+:? \| )*-+:? \|$/);
  },

  /** The page shows strings of a store or a study as text, even if they contain HTML. */
  async hostile() {
    const page = await open();
    assert.deepEqual(page.said, []);
    assert.equal(await page.evaluate(() => globalThis.hacked), undefined);
    assert.equal(await page.locator("img, iframe, object, embed, link, [onerror], [onload]").count(), 0);
    assert.equal(await page.locator("script").count(), 2);
    assert.ok((await page.locator("body").innerText()).includes("<script>"), "the hostile text is not shown");
    await page.mouse.move(600, 400);
    for (const plot of await page.locator(".plot .u-over").all()) {
      await plot.hover({ force: true, trial: false }).catch(() => undefined);
    }
    assert.equal(await page.evaluate(() => globalThis.hacked), undefined);
  },

  /** The live report follows a run to its end. */
  async live() {
    const page = await open();
    assert.equal(await page.locator(".brand .live").isVisible(), true);
    await page.waitForFunction(() => Number(document.querySelector("#now")?.dataset.values ?? 0) >= 2, null, { timeout: 30000 });
    assert.match(await page.locator("#now [role=status]").innerText(), /trial \d+ of \d+.*answers\/s/);
    await shot(page, "live");
    await page.waitForSelector("body[data-life=ended]", { timeout: 180000 });
    await page.waitForSelector("html[data-drawn=all]", { state: "attached" });
    assert.equal(await page.locator("#now").count(), 0);
    assert.equal(await page.locator(".brand .live").isHidden(), true);
    assert.match(await page.locator(".answer .found").innerText(), /met every limit/);
    assert.ok((await page.locator(".plot canvas").count()) > 2, "no charts at the end");
    assert.deepEqual(page.said, []);
    assert.deepEqual(page.asked.filter((url) => !url.startsWith(address)), []);
  },

  /** A large study is drawn within the time limit of its test. */
  async large() {
    const page = await open();
    assert.deepEqual(page.said, []);
    const took = await page.evaluate(() => performance.now());
    console.log(`drawn within ${Math.round(took)} ms`);
  },
};

try {
  assert.ok(checks[check], `no such check: ${check}`);
  await checks[check]();
} catch (error) {
  console.error(`${check}: ${error.message}`);
  process.exitCode = 1;
} finally {
  await browser.close();
}
