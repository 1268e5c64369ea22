// A picture of the top of a report, as the README shows it.
//
//   node report/picture.mjs PAGE PICTURE      with REPORT_TOOLS and CHROMIUM as report/tests/look.mjs takes them
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const { chromium } = createRequire(join(process.env.REPORT_TOOLS, "package.json"))("playwright-core");
const [page, picture] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox", "--disable-gpu"] });
const tab = await browser.newPage({ viewport: { width: 1180, height: 900 }, colorScheme: "light" });
await tab.goto(pathToFileURL(page).href);
await tab.waitForSelector("html[data-drawn=all]", { state: "attached" });
// The answer, what it is worth, one table and one chart: what comes between is left out.
await tab.addStyleTag({
  content: "#configurations figure:nth-of-type(n + 2), figure.chart:nth-of-type(n + 2), details.check:has(.note), .tools, #ran, .about, footer { display: none } body { font-family: sans-serif }",
});
await tab.screenshot({ path: picture, fullPage: true });
await browser.close();
