//! How stores say that they are set up, in a line for each.

use super::Layout;
use crate::lines::paragraph;
use crate::{RunResult, reported_settings};

/// A line for each store. Empty if none says how it is set up.
pub(super) fn lines(result: &RunResult, layout: Layout) -> String {
    let stores = reported_settings(result);
    if stores.is_empty() {
        return String::new();
    }
    let mut out = format!("\n{}\n", layout.paint.bold("Settings"));
    for of in stores {
        let text = format!("{}: {}", of.name, of.settings.in_words());
        out.push_str(&paragraph("  ", "    ", &text, layout.width));
    }
    out
}
