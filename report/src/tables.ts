// Tables: sorting by a click on a column's title, search, export as CSV and Markdown.

import { csvLine, fileName, save } from "./save";

function cellsOf(row: HTMLTableRowElement): HTMLTableCellElement[] {
  return [...row.cells];
}

function textOf(cell: HTMLTableCellElement): string {
  // Folded cells have no innerText.
  return (cell.innerText || cell.textContent || "").replace(/\s+/g, " ").trim();
}

/** The sort key of a cell: its figure, if it has one. */
function keyOf(cell: HTMLTableCellElement | undefined): number | string {
  const value = cell?.dataset.value;
  if (value !== undefined) return Number(value);
  const text = cell ? textOf(cell) : "";
  return figureOf(text) ?? text;
}

/** The factors of units. */
const UNITS: Record<string, number> = { "": 1, ns: 1, µs: 1e3, ms: 1e6, s: 1e9, k: 1e3, M: 1e6, "%": 0.01, B: 1, KiB: 1024, MiB: 1024 ** 2, GiB: 1024 ** 3, TiB: 1024 ** 4 };

/** Parses a figure: `1.23 ms`, `12.3 k`, `3 m 20 s`. Null for other texts. */
export function figureOf(text: string): number | null {
  const long = /^(?:(\d+) h )?(\d+) m(?: (\d+) s)?$/.exec(text);
  if (long) return (Number(long[1] ?? 0) * 3600 + Number(long[2]) * 60 + Number(long[3] ?? 0)) * 1e9;
  const found = /^([-<≥]?\s?)?(\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?) ?([a-zA-Zµ%]*)$/.exec(text);
  const unit = UNITS[found?.[3] ?? "none"];
  if (!found || unit === undefined) return null;
  return Number((found[1]?.includes("-") ? "-" : "") + (found[2] ?? "").replace(/,/g, "")) * unit;
}

function sort(table: HTMLTableElement, column: number, header: HTMLTableCellElement): void {
  const body = table.tBodies[0];
  if (!body) return;
  const down = header.getAttribute("aria-sort") === "ascending";
  for (const other of table.tHead?.rows[0]?.cells ?? []) other.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", down ? "descending" : "ascending");
  const rows = [...body.rows].map((row, nth) => ({ row, nth, key: keyOf(row.cells[column]) }));
  rows.sort((a, b) => {
    // Figures come before texts in both directions.
    const numbers = [typeof a.key === "number", typeof b.key === "number"];
    if (numbers[0] !== numbers[1]) return numbers[0] ? -1 : 1;
    const order = numbers[0] ? (a.key as number) - (b.key as number) : String(a.key).localeCompare(String(b.key));
    return (down ? -order : order) || a.nth - b.nth;
  });
  body.append(...rows.map(({ row }) => row));
}

function linesOf(table: HTMLTableElement): { head: string[]; rows: HTMLTableCellElement[][] } {
  const head = [...(table.tHead?.rows[0]?.cells ?? [])].map((cell) => textOf(cell as HTMLTableCellElement));
  return { head, rows: [...(table.tBodies[0]?.rows ?? [])].map(cellsOf) };
}

function csv(table: HTMLTableElement): string {
  const { head, rows } = linesOf(table);
  // Each shown figure has its plain value next to it.
  const figures = head.map((_, column) => rows.some((row) => row[column]?.dataset.value !== undefined));
  const names = head.flatMap((name, column) => (figures[column] ? [name, `${name} (value)`] : [name]));
  const line = (row: HTMLTableCellElement[]) =>
    csvLine(head.flatMap((_, column) => {
      const cell = row[column];
      const text = cell ? textOf(cell) : "";
      return figures[column] ? [text, cell?.dataset.value ?? ""] : [text];
    }));
  return csvLine(names) + rows.map(line).join("");
}

function markdown(table: HTMLTableElement): string {
  const { head, rows } = linesOf(table);
  const escaped = (text: string) => text.replace(/[\\|*_`[\]<]/g, (c) => (c === "<" ? "&lt;" : `\\${c}`));
  const line = (cells: string[]) => `| ${cells.map(escaped).join(" | ")} |\n`;
  const rules = [...(table.tHead?.rows[0]?.cells ?? [])].map((cell) => (cell.classList.contains("number") ? "---:" : "---"));
  return line(head) + `| ${rules.join(" | ")} |\n` + rows.map((row) => line(row.map(textOf))).join("");
}

/** A button for a row of tools. */
export function button(text: string, title: string, act: () => void): HTMLButtonElement {
  const made = document.createElement("button");
  made.type = "button";
  made.textContent = text;
  made.title = title;
  made.addEventListener("click", act);
  return made;
}

/** A search field. It hides rows that do not contain all of its words, and shows how many are left. */
function search(table: HTMLTableElement): HTMLElement {
  const rows = [...(table.tBodies[0]?.rows ?? [])].map((row) => ({ row, text: (row.textContent ?? "").toLowerCase() }));
  const place = document.createElement("div");
  place.className = "tools search";
  const label = document.createElement("label");
  const field = document.createElement("input");
  field.type = "search";
  const left = document.createElement("span");
  left.setAttribute("role", "status");
  field.addEventListener("input", () => {
    const words = field.value.toLowerCase().split(/\s+/).filter((word) => word !== "");
    let n = 0;
    for (const { row, text } of rows) {
      row.hidden = !words.every((word) => text.includes(word));
      n += row.hidden ? 0 : 1;
    }
    left.textContent = words.length === 0 ? "" : `${n} of ${rows.length}`;
  });
  label.append("Search ", field);
  place.append(label, left);
  return place;
}

/** Makes the tables below `root` sortable, and gives each a row of tools. */
export function serveTables(root: ParentNode): void {
  for (const table of root.querySelectorAll<HTMLTableElement>("table.sortable, table.claims")) {
    const head = table.tHead?.rows[0];
    if (!head) continue;
    if (table.classList.contains("sortable")) {
      [...head.cells].forEach((header, column) => {
        const sorts = button(textOf(header as HTMLTableCellElement), "Sort by this column", () => sort(table, column, header as HTMLTableCellElement));
        header.replaceChildren(sorts);
      });
    }
    const tools = document.createElement("div");
    tools.className = "tools";
    if (table.classList.contains("searchable")) (table.closest(".scroll") ?? table).before(search(table));
    const figure = table.closest("figure");
    const name = fileName(figure?.querySelector("figcaption b, figcaption h3")?.textContent ?? "table");
    tools.append(
      button("CSV", "Save this table as CSV", () => save(`${name}.csv`, csv(table), "text/csv")),
      button("Markdown", "Save this table as Markdown", () => save(`${name}.md`, markdown(table), "text/markdown")),
    );
    (table.closest(".scroll") ?? table).after(tools);
  }
}
