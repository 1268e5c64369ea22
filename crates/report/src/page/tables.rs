//! Tables of the page. Its script makes them sortable and exports them.

use maud::{Markup, Render, html};
use storebench_results::stats::Estimate;
use storebench_results::table::{Cell as Figure, Column, Table};

/// A cell: what it shows, and the number by which it is sorted.
pub(crate) struct Cell {
    shown: Markup,
    number: bool,
    value: Option<f64>,
}

/// A cell of text.
pub(crate) fn text(shown: impl Render) -> Cell {
    Cell { shown: shown.render(), number: false, value: None }
}

/// A cell of a number; `n/a` if there is none.
pub(crate) fn number(value: Option<f64>, shown: impl FnOnce(f64) -> String) -> Cell {
    numbered(value, value.map_or_else(|| "n/a".to_owned(), shown))
}

/// A cell of a number with custom content.
pub(crate) fn numbered(value: Option<f64>, shown: impl Render) -> Cell {
    Cell { shown: shown.render(), number: true, value }
}

/// A cell of text that is sorted by a figure.
pub(crate) fn sorted(figure: Option<Estimate>, shown: impl Render) -> Cell {
    Cell { value: figure.map(|figure| figure.value), ..text(shown) }
}

/// The titles of a table of figures, and whether their columns contain numbers.
pub(crate) fn titles(of: &Table) -> impl Iterator<Item = (&str, bool)> {
    of.columns.iter().map(|column| (column.title.as_str(), column.kind.is_number()))
}

/// A table of figures.
pub(crate) fn of_figures(class: &str, of: &Table) -> Markup {
    let cell = |(cell, column): (&Figure, &Column)| match column.kind.is_number() {
        true => numbered(cell.figure.map(|figure| figure.value), cell.text.as_str()),
        false => text(cell.text.as_str()),
    };
    table(class, titles(of), of.rows.iter().map(|row| row.iter().zip(&of.columns).map(cell).collect()))
}

/// The class of a table that narrow screens show as cards: a row below the other, each figure below its title.
pub(crate) const CARDS: &str = "cards";

/// A table with these column titles. Each says whether its column contains numbers.
pub(crate) fn table<T: AsRef<str>>(
    class: &str,
    titles: impl IntoIterator<Item = (T, bool)>,
    rows: impl IntoIterator<Item = Vec<Cell>>,
) -> Markup {
    let titles: Vec<(T, bool)> = titles.into_iter().collect();
    let class_of = |number: bool| number.then_some("number");
    let named = class.split(' ').any(|name| name == CARDS);
    let title_of = |at: usize| titles.get(at).map(|(title, _)| title.as_ref()).filter(|_| named && at > 0);
    html! {
        table class=[(!class.is_empty()).then_some(class)] {
            thead { tr { @for (title, number) in &titles { th class=[class_of(*number)] scope="col" { (title.as_ref()) } } } }
            tbody {
                @for row in rows {
                    tr {
                        @for (at, cell) in row.into_iter().enumerate() {
                            td class=[class_of(cell.number)] data-value=[cell.value] data-title=[title_of(at)] { (cell.shown) }
                        }
                    }
                }
            }
        }
    }
}
