//! How far documents of a study are from the sample that they are to be like.

use serde::Serialize;

use super::profile::{Members, Node, Profile, decoded};
use super::sketch::{Reservoir, Values};
use crate::plan::MARKER;

/// How far a figure may be off.
const NEAR: f64 = 0.10;
/// Counts are off by chance; this many standard errors are no difference.
pub const ERRORS: f64 = 4.0;

/// A figure of the sample and of the generated documents.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Likeness {
    /// The field, or empty for whole documents.
    pub field: String,
    /// What is compared, such as `mean bytes`.
    pub what: &'static str,
    /// The sample's figure.
    pub sample: f64,
    /// That of the generated documents.
    pub like: f64,
    /// Whether they differ by at most a tenth, or by no more than chance makes likely.
    pub is_near: bool,
}

/// Compares documents and each of their fields.
pub fn compare(sample: &Profile, like: &Profile) -> Vec<Likeness> {
    let mut rows = Rows(Vec::new());
    rows.figure("", "mean bytes", mean_bytes(sample), mean_bytes(like), 0.0);
    for (what, p) in [("bytes, p50", 0.5), ("bytes, p99", 0.99)] {
        rows.quantile("", what, &sample.sizes, &like.sizes, p);
    }
    if let (Some(a), Some(b)) = (sample.compressed(), like.compressed()) {
        rows.figure("", "share left by zstd", a, b, 0.0);
        rows.figure("", "compressed bytes", a * mean_bytes(sample), b * mean_bytes(like), 0.0);
    }
    rows.members("", &sample.root, &like.root);
    rows.0
}

fn mean_bytes(profile: &Profile) -> f64 {
    profile.bytes as f64 / profile.documents.max(1) as f64
}

impl Likeness {
    /// A figure that may be off by a tenth, or by `by_chance`.
    pub fn new(field: &str, what: &'static str, sample: f64, like: f64, by_chance: f64) -> Self {
        let is_near = (sample - like).abs() <= (NEAR * sample.abs()).max(by_chance).max(1e-12);
        Self { field: field.to_owned(), what, sample, like, is_near }
    }
}

struct Rows(Vec<Likeness>);

impl Rows {
    /// A figure that may be off by a tenth, or by `by_chance`.
    fn figure(&mut self, field: &str, what: &'static str, sample: f64, like: f64, by_chance: f64) {
        self.0.push(Likeness::new(field, what, sample, like, by_chance));
    }

    /// A share of `count` things.
    fn share(&mut self, field: &str, what: &'static str, (a, of_a): (u64, u64), (b, of_b): (u64, u64)) {
        let share = |n: u64, of: u64| n as f64 / of.max(1) as f64;
        let error = |p: f64, of: u64| p * (1.0 - p) / of.max(1) as f64;
        let (p, q) = (share(a, of_a), share(b, of_b));
        let by_chance = ERRORS * (error(p, of_a) + error(q, of_b)).sqrt();
        self.figure(field, what, p, q, by_chance);
    }

    fn quantile(&mut self, field: &str, what: &'static str, a: &Reservoir, b: &Reservoir, p: f64) {
        let of =
            |sorted: &[f64], p: f64| sorted[((p * (sorted.len() - 1) as f64).round() as usize).min(sorted.len() - 1)];
        let (a, b) = (a.sorted(), b.sorted());
        if a.is_empty() || b.is_empty() {
            return;
        }
        // The quantiles that this one may be by chance.
        let off = ERRORS * (p * (1.0 - p) / a.len().min(b.len()) as f64).sqrt();
        let by_chance = of(&a, (p + off).min(1.0)) - of(&a, (p - off).max(0.0));
        self.figure(field, what, of(&a, p), of(&b, p), by_chance);
    }

    fn mean(&mut self, field: &str, what: &'static str, a: &Reservoir, b: &Reservoir) {
        let of = |all: &[f64]| {
            let mean = all.iter().sum::<f64>() / all.len() as f64;
            let variance = all.iter().map(|n| (n - mean).powi(2)).sum::<f64>() / all.len() as f64;
            (mean, variance / all.len() as f64)
        };
        let (a, b) = (a.sorted(), b.sorted());
        if !a.is_empty() && !b.is_empty() {
            let ((x, of_x), (y, of_y)) = (of(&a), of(&b));
            self.figure(field, what, x, y, ERRORS * (of_x + of_y).sqrt());
        }
    }

    fn distinct(&mut self, field: &str, a: &Values, b: &Values) {
        let (x, y) = (a.distinct(), b.distinct());
        // A sketch of 16,384 values is off by less than a hundredth; small numbers of values are by their root.
        self.figure(field, "different values", x, y, ERRORS * x.sqrt());
        let top = |values: &Values| values.by_count().first().map_or(0, |of| of.count);
        if x * 1.5 < a.total() as f64 {
            self.share(field, "share of the most frequent", (top(a), a.total()), (top(b), b.total()));
        }
    }

    fn members(&mut self, path: &str, a: &Members, b: &Members) {
        for (name, node) in &a.all {
            let name = decoded(name);
            let place = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            let renamed = if path.is_empty() && name == MARKER { format!("{MARKER}_") } else { name };
            let other = b.all.iter().find(|(name, _)| decoded(name) == renamed).map(|(_, node)| node);
            let none = Node::default();
            let other = other.unwrap_or(&none);
            if node.present < a.objects || other.present < b.objects {
                self.share(&place, "present", (node.present, a.objects), (other.present, b.objects));
            }
            self.node(&place, node, other);
        }
    }

    fn node(&mut self, path: &str, a: &Node, b: &Node) {
        if a.nulls > 0 || b.nulls > 0 {
            self.share(path, "null", (a.nulls, a.present), (b.nulls, b.present));
        }
        if let (Some(a), Some(b)) = (&a.texts, &b.texts) {
            self.mean(path, "mean bytes", &a.lengths, &b.lengths);
            self.quantile(path, "bytes, p99", &a.lengths, &b.lengths, 0.99);
            self.distinct(path, &a.values, &b.values);
        }
        if let (Some(a), Some(b)) = (&a.numbers, &b.numbers) {
            self.mean(path, "mean", &a.sample, &b.sample);
            self.quantile(path, "p99", &a.sample, &b.sample, 0.99);
            self.distinct(path, &a.values, &b.values);
        }
        let (bools, others) = (a.bools.iter().sum::<u64>(), b.bools.iter().sum::<u64>());
        if bools > 0 && others > 0 {
            self.share(path, "true", (a.bools[1], bools), (b.bools[1], others));
        }
        if let (Some(a), Some(b)) = (&a.lists, &b.lists) {
            self.mean(path, "mean length", &a.lengths, &b.lengths);
            self.node(&format!("{path}[]"), &a.of, &b.of);
        }
        if let (Some(a), Some(b)) = (&a.members, &b.members) {
            self.members(path, a, b);
        }
        let kinds = |node: &Node| {
            [
                node.texts.as_ref().map_or(0, |of| of.count()),
                node.numbers.as_ref().map_or(0, |of| of.count()),
                node.bools.iter().sum(),
                node.lists.as_ref().map_or(0, |of| of.lengths.seen()),
                node.members.as_ref().map_or(0, |of| of.objects),
            ]
        };
        let (x, y) = (kinds(a), kinds(b));
        if x.iter().filter(|count| **count > 0).count() > 1 {
            for (position, what) in ["texts", "numbers", "true or false", "lists", "objects"].into_iter().enumerate() {
                if x[position] > 0 {
                    self.share(path, what, (x[position], a.present), (y[position], b.present));
                }
            }
        }
    }
}
