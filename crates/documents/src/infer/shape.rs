//! From what a sample is made of to the fields that generate documents like it.

use std::collections::{HashMap, HashSet};

use indexmap::IndexMap;
use storebench_study::units::{ByteSize, Spread};
use storebench_study::workload::{Field, IdKind, Popularity, TimeForm, Vary};

use super::profile::{Lists, Members, Node, Numbers, Texts, decoded};
use super::sketch::{Counted, Repeats, Trend, fit_zipf};
use crate::plan::{Code, MARKER};

/// Up to this many different texts become a choice with their own weights.
const CHOICES: usize = 64;
/// Up to this many different numbers become numbers with their own weights.
const CONSTANTS: usize = 32;
/// A number that is at least this share of all has its own weight.
const FREQUENT: f64 = 0.01;
/// An object with more members than this, each in fewer than [`RARE`] of its objects, has data as names.
const NAMES: usize = 50;
const RARE: f64 = 0.10;
/// The tails of numbers are spread if at least one of so many numbers of the range is there.
const DENSE: f64 = 5.0;
/// A value repeats if it comes this often on average.
const REPEATS: f64 = 5.0;
/// Texts are different by themselves if nine of ten have this many bytes.
const FREE: f64 = 16.0;
/// Values are all different if this share of them is.
const UNIQUE: f64 = 0.95;
/// An end of what was observed is added if it is further than this share of the range from what is generated.
const END: f64 = 0.01;
/// Texts of lists are drawn from so many times as many as are needed.
const RARELY_EQUAL: f64 = 50.0;
/// A number rises with its document from this correlation on.
const RISES: f64 = 0.95;
/// How many pieces a spread may have; the first that fits is taken.
const PIECES: [usize; 4] = [1, 4, 20, 100];
/// How well a spread fits: the means differ by at most this share.
const FITS: f64 = 0.02;
/// How well its quantiles fit.
const QUANTILES_FIT: f64 = 0.05;

/// Makes the fields of a collection.
pub(super) struct Shaper {
    /// Whether texts of values are used.
    pub(super) keeps: bool,
    /// What the fields do not show.
    pub(super) notes: Vec<String>,
    groups: usize,
    /// Paths of fields.
    paths: HashSet<String>,
    /// How many lists the field is in.
    lists: usize,
}

impl Shaper {
    pub(super) fn new(keeps: bool) -> Self {
        Self { keeps, notes: Vec::new(), groups: 0, paths: HashSet::new(), lists: 0 }
    }

    /// The fields of an object. `top` says whether it is the document itself or an object in it, not in a list.
    pub(super) fn fields(&mut self, members: &Members, path: &str, top: bool) -> IndexMap<String, Field> {
        if members.left_out > 0 {
            self.notes.push(format!(
                "{}: {} members are left out, because there are more than 1,000 different names",
                if path.is_empty() { "documents" } else { path },
                members.left_out
            ));
        }
        let rare = |node: &Node| (node.present as f64) < RARE * members.objects as f64;
        let data = members.all.values().filter(|node| rare(node)).count() > NAMES && !self.keeps;
        if data {
            self.notes.push(format!(
                "{}: more than {NAMES} rare names of members; they may be data, so they are replaced by invented ones",
                if path.is_empty() { "documents" } else { path },
            ));
        }
        let mut groups: HashMap<u64, (usize, Option<String>)> = HashMap::new();
        for node in members.all.values().filter(|node| node.present < members.objects) {
            groups.entry(node.signature).or_default().0 += 1;
        }
        let mut fields = IndexMap::new();
        for (position, (name, node)) in members.all.iter().enumerate() {
            let mut name = decoded(name);
            if data && rare(node) {
                name = invented(position as u64, name.len());
            }
            let place_of = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
            let own = name.clone();
            let is_marker = |name: &str| path.is_empty() && name == MARKER;
            while name.is_empty()
                || is_marker(&name)
                || fields.contains_key(&name)
                || self.paths.contains(&place_of(&name))
            {
                name.push('_');
            }
            if name != own && !data {
                self.notes.push(format!("a field named `{own}` cannot be generated; it is named `{name}`"));
            }
            let place = place_of(&name);
            self.paths.insert(place.clone());
            let present = (node.present as f64 / members.objects.max(1) as f64).min(1.0);
            let mut with = None;
            if let Some((count, group)) = groups.get_mut(&node.signature).filter(|_| present < 1.0 && top) {
                if *count > 1 && group.is_none() {
                    self.groups += 1;
                    *group = Some(format!("group-{}", self.groups));
                }
                with = group.clone();
            }
            let field = self.field(node, &place, top);
            fields.insert(name, varied(field, |vary| (vary.present, vary.with) = (share(present), with)));
        }
        fields
    }

    /// A field, without its presence.
    fn field(&mut self, node: &Node, path: &str, top: bool) -> Field {
        let mut kinds: Vec<(f64, Field)> = Vec::new();
        if let Some(members) = &node.members {
            // Only the fields of single objects can be present together.
            let alone = top && node.values() == members.objects;
            kinds.push((members.objects as f64, Field::Object(self.fields(members, path, alone))));
        }
        if let Some(lists) = &node.lists {
            kinds.push((lists.lengths.seen() as f64, self.list(lists, path)));
        }
        if let Some(texts) = &node.texts {
            kinds.push((texts.count() as f64, self.text(texts, path)));
        }
        if let Some(numbers) = &node.numbers {
            kinds.push((numbers.count() as f64, self.number(numbers, path)));
        }
        let bools = node.bools.iter().sum::<u64>() as f64;
        if bools > 0.0 {
            kinds.push((bools, Field::Bool(share(node.bools[1] as f64 / bools))));
        }
        let null = node.nulls as f64 / node.present.max(1) as f64;
        let field = match kinds.len() {
            // Nothing but null.
            0 => return varied(Field::Bool(0.0), |vary| vary.null = 1.0),
            1 => kinds.remove(0).1,
            _ => {
                self.notes.push(format!("{path}: values of {} kinds", kinds.len()));
                Field::Any(kinds)
            }
        };
        if null > 0.0 { varied(field, |vary| vary.null = share(null)) } else { field }
    }

    fn list(&mut self, lists: &Lists, path: &str) -> Field {
        let lengths = lists.lengths.sorted();
        self.lists += 1;
        let of =
            if lists.of.present == 0 { Field::Bool(0.0) } else { self.field(&lists.of, &format!("{path}[]"), false) };
        self.lists -= 1;
        let points = spread(&lengths, PIECES[2]).into_iter().map(|n| n.round() as u64).collect();
        Field::List { of: Box::new(of), length: rising(points) }
    }

    fn text(&mut self, texts: &Texts, path: &str) -> Field {
        let count = texts.count() as f64;
        let different = texts.values.distinct();
        let unique = different >= UNIQUE * count;
        if texts.read == texts.uuids && unique {
            return Field::Id(IdKind::Uuid);
        }
        if texts.read == texts.hex && unique {
            return Field::Id(IdKind::Hex);
        }
        if let Some(form) = texts.form() {
            return self.time(texts, form, unique);
        }
        let counted = texts.values.by_count();
        if texts.values.is_exact() && counted.len() <= CHOICES && count >= REPEATS * different {
            return Field::Choice(self.choice(texts));
        }
        let lengths: Vec<f64> = texts.lengths.sorted();
        let points = spread(&lengths, PIECES[3]).into_iter().map(|n| ByteSize(n.round() as u64)).collect();
        let text = Field::Text(rising(points));
        let exactly = |bytes: f64| Field::Text(Spread::exactly(ByteSize(bytes as u64)));
        let to_ends = |text| with_ends(text, texts.lengths.ends(), count, exactly);
        if unique && lengths[lengths.len() / 10] >= FREE {
            return to_ends(text);
        }
        if unique {
            // Short texts, each different: as many as there are letters for. Documents take them one after the other; the
            // elements of lists have no number of their own, and draw from so many that hardly two are equal.
            let (popularity, wanted) = match self.lists {
                0 => (Popularity::Sequential, count),
                _ => (Popularity::Uniform, count * RARELY_EQUAL),
            };
            let shortest = lengths[lengths.len() / 10].round().clamp(1.0, 8.0) as u32;
            let enough = (1..=8).find(|letters| 26f64.powi(*letters) >= wanted).unwrap_or(8) as u32;
            let pool = 26u64.pow(shortest.max(enough));
            return to_ends(varied(text, |vary| (vary.distinct, vary.popularity) = (Some(pool), popularity)));
        }
        if self.keeps && counted.len() > CHOICES {
            self.notes.push(format!("{path}: more than {CHOICES} different texts, which are not kept"));
        }
        to_ends(repeated(text, texts.values.repeats(&[])))
    }

    /// Names and weights of texts: their own, or as long as theirs.
    fn choice(&self, texts: &Texts) -> IndexMap<String, f64> {
        let mut all: IndexMap<String, f64> = IndexMap::new();
        for (number, (hash, of)) in texts.values.ranked().into_iter().enumerate() {
            let own = texts.kept.get(&hash).filter(|_| self.keeps).map(|text| decoded(text));
            let mut name = own.unwrap_or_else(|| invented(number as u64, of.number as usize));
            while all.contains_key(&name) {
                name.push('x');
            }
            all.insert(name, of.count as f64);
        }
        all
    }

    fn time(&self, texts: &Texts, form: TimeForm, unique: bool) -> Field {
        let counted = texts.moments.by_count();
        if texts.moments.is_exact()
            && counted.len() <= CONSTANTS
            && texts.count() as f64 >= REPEATS * counted.len() as f64
        {
            let constant =
                |of: &Counted| (of.count as f64, Field::Time { at_s: Spread::exactly(of.number as i64), form });
            return one_or_any(counted.iter().map(constant).collect());
        }
        let points = spread(&texts.seconds.sorted(), PIECES[2]).into_iter().map(|n| n.round() as i64).collect();
        let time = Field::Time { at_s: rising(points), form };
        match within(&texts.trend) {
            Some(within) => varied(time, |vary| vary.rising = Some(within)),
            None if unique => time,
            None => repeated(time, texts.values.repeats(&[])),
        }
    }

    fn number(&mut self, numbers: &Numbers, path: &str) -> Field {
        const EXACT: f64 = (1u64 << 53) as f64;
        let count = numbers.count() as f64;
        if numbers.beyond > 0 {
            self.notes.push(format!(
                "{path}: {} numbers are beyond ±2^53 or have an exponent; they are generated within ±2^53, with at most 9 \
                 digits after the point",
                numbers.beyond
            ));
        }
        let counted = numbers.values.by_count();
        let sorted = numbers.sample.sorted();
        let largest =
            sorted.iter().copied().chain(counted.iter().map(|of| of.number)).map(f64::abs).fold(0.0, f64::max);
        let used: u64 = numbers.digits.iter().sum();
        // So that at most one number in a hundred has more.
        let mut above = used;
        let digits = numbers.digits.iter().position(|n| {
            above -= n;
            above as f64 <= used as f64 / 100.0
        });
        let digits = digits.unwrap_or(0);
        if digits == numbers.digits.len() - 1 {
            self.notes
                .push(format!("{path}: numbers have more than 9 digits after the point; they are generated with 9"));
        }
        let mut digits = digits.min(9) as u8;
        // A study has decimals within ±1e12, and fifteen digits.
        let cut = digits;
        while digits > 0 && largest.min(1e12) * 10f64.powi(digits.into()) > 1e15 {
            digits -= 1;
        }
        if digits < cut {
            self.notes.push(format!(
                "{path}: numbers have more than 15 digits; they are generated with {digits} after the point"
            ));
        }
        let limit = if digits == 0 { EXACT } else { 1e12 };
        let sorted: Vec<f64> = sorted.into_iter().map(|n| n.clamp(-limit, limit)).collect();
        let constant = |of: &Counted| (of.count as f64, constant(of.number.clamp(-limit, limit), digits));
        let different = numbers.values.distinct();
        if numbers.values.is_exact() && counted.len() <= CONSTANTS && count >= REPEATS * different {
            // Neighbours that are equally frequent are a range.
            return even_range(&counted, digits).unwrap_or_else(|| one_or_any(counted.iter().map(constant).collect()));
        }
        if let Some(within) = within(&numbers.trend) {
            let number = of_points(&spread(&sorted, PIECES[3]), digits);
            return varied(number, |vary| vary.rising = Some(within));
        }
        // Frequent numbers have their own weights, and the others are spread.
        let frequent = counted.iter().take(CONSTANTS).take_while(|of| of.count as f64 >= FREQUENT * count).count();
        let frequent = &counted[..if different >= UNIQUE * count { 0 } else { frequent }];
        let is_frequent = |n: f64| frequent.iter().any(|of| of.number == n);
        let others: Vec<f64> = sorted.iter().copied().filter(|n| !is_frequent(*n)).collect();
        let repeats = numbers.values.repeats(frequent);
        let parts = tails(&others);
        let number = of_points(&spread(&others, PIECES[3]), digits);
        let range = others.last().copied().unwrap_or_default() - others.first().copied().unwrap_or_default();
        // If most numbers of the range are there, the range says it all.
        let full = range * 10f64.powi(digits.into()) + 1.0 <= 1.5 * repeats.distinct;
        let dense = range * 10f64.powi(digits.into()) + 1.0 <= DENSE * repeats.distinct;
        let plain = repeats.distinct >= UNIQUE * repeats.total || full || (parts.len() > 1 && dense);
        let mut all: Vec<(f64, Field)> = frequent.iter().map(constant).collect();
        if plain && parts.len() > 1 {
            // Long tails have points of their own.
            let part = |part: &&[f64]| {
                let share = part.len() as f64 / others.len() as f64;
                (share * repeats.total, of_points(&spread(part, PIECES[2]), digits))
            };
            all.extend(parts.iter().map(part));
        } else if !others.is_empty() {
            all.push((repeats.total, if plain { number } else { repeated(number, repeats) }));
        }
        let number = one_or_any(all);
        let (least, greatest) = numbers.sample.ends();
        let ends = (least.clamp(-limit, limit), greatest.clamp(-limit, limit));
        with_ends(number, ends, count, |n| self::constant(n, digits))
    }
}

/// The only kind, or all of them by weight.
fn one_or_any(mut kinds: Vec<(f64, Field)>) -> Field {
    if kinds.len() == 1 { kinds.remove(0).1 } else { Field::Any(kinds) }
}

/// Adds the ends of what was observed, if the spread does not come near them: a spread keeps the means of its outer
/// pieces, so that one extreme value does not stand for many.
fn with_ends(field: Field, (least, greatest): (f64, f64), count: f64, exactly: impl Fn(f64) -> Field) -> Field {
    let Some((from, to)) = reach(&field) else { return field };
    let far = END * (greatest - least);
    let ends = [(from - least > far, least), (greatest - to > far, greatest)];
    let ends: Vec<(f64, Field)> =
        ends.into_iter().filter(|(is_far, _)| *is_far).map(|(_, end)| (1.0, exactly(end))).collect();
    let rest = count - ends.len() as f64;
    if ends.is_empty() || rest <= 0.0 {
        return field;
    }
    match field {
        Field::Any(all) => Field::Any(all.into_iter().chain(ends).collect()),
        field => Field::Any([vec![(rest, field)], ends].concat()),
    }
}

/// The least and the greatest number, or the bytes of texts, that a field generates. `None` for other fields.
fn reach(field: &Field) -> Option<(f64, f64)> {
    fn ends<T: Copy>(points: &[T], of: impl Fn(T) -> f64) -> Option<(f64, f64)> {
        Some((of(*points.first()?), of(*points.last()?)))
    }
    match field {
        Field::Integer(spread) => ends(spread.points(), |n| n as f64),
        Field::Decimal { range, .. } => ends(range.points(), |n| n),
        Field::Text(lengths) => ends(lengths.points(), |length| length.bytes() as f64),
        Field::Varied { of, .. } => reach(of),
        Field::Any(all) => all
            .iter()
            .map(|(_, of)| reach(of))
            .reduce(|one, other| one.zip(other).map(|(a, b)| (a.0.min(b.0), a.1.max(b.1))))
            .flatten(),
        _ => None,
    }
}

fn mean(all: &[f64]) -> f64 {
    all.iter().sum::<f64>() / all.len().max(1) as f64
}

/// Cuts sorted numbers at their long tails: the lowest and the highest hundredth, if they reach further than half of
/// all the others.
fn tails(sorted: &[f64]) -> Vec<&[f64]> {
    let cut = sorted.len() / 100;
    if cut < 10 {
        return vec![sorted];
    }
    let (low, rest) = sorted.split_at(cut);
    let (body, high) = rest.split_at(rest.len() - cut);
    let half = (body[body.len() - 1] - body[0]) / 2.0;
    let long = |tail: &[f64]| tail[tail.len() - 1] - tail[0] > half;
    match (long(low), long(high)) {
        (false, false) => vec![sorted],
        (true, false) => vec![low, rest],
        (false, true) => {
            let (rest, high) = sorted.split_at(sorted.len() - cut);
            vec![rest, high]
        }
        (true, true) => vec![low, body, high],
    }
}

/// Numbers that are spread through these points.
fn of_points(points: &[f64], digits: u8) -> Field {
    let scale = 10f64.powi(i32::from(digits));
    if digits == 0 {
        Field::Integer(rising(points.iter().map(|point| point.round() as i64).collect()))
    } else {
        let points = points.iter().map(|point| (point * scale).round() / scale).collect();
        Field::Decimal { range: rising(points), digits }
    }
}

/// A share, to nine digits.
fn share(of: f64) -> f64 {
    (of * 1e9).round() / 1e9
}

/// Sets how a field varies; the field itself if it does not.
fn varied(field: Field, set: impl FnOnce(&mut Vary)) -> Field {
    let (of, mut vary) = match field {
        Field::Varied { of, vary } => (*of, vary),
        other => (other, Vary::default()),
    };
    set(&mut vary);
    if vary.present >= 1.0 {
        vary.with = None;
    }
    if vary == Vary::default() { of } else { Field::Varied { of: Box::new(of), vary } }
}

/// A field whose values repeat as these do.
fn repeated(field: Field, repeats: Repeats) -> Field {
    let (pool, s) = fit_zipf(repeats);
    let popularity = if s == 0.0 { Popularity::Uniform } else { Popularity::Zipf(s) };
    varied(field, |vary| (vary.distinct, vary.popularity) = (Some(pool.max(1)), popularity))
}

/// How far numbers that rise with the document are off, as a share of the documents. `None` if they do not rise.
///
/// If a number is where it belongs within ±w of all documents, evenly, then r² = 1 / (1 + 4 w²).
fn within(trend: &Trend) -> Option<f64> {
    let r = trend.correlation();
    (r >= RISES).then(|| share((((1.0 / (r * r) - 1.0).max(0.0)).sqrt() / 2.0).min(0.5)))
}

fn rising<T: Copy + PartialOrd>(points: Vec<T>) -> Spread<T> {
    let first = points[0];
    Spread::through(points).unwrap_or_else(|| Spread::exactly(first))
}

/// One number.
fn constant(number: f64, digits: u8) -> Field {
    if digits == 0 {
        Field::Integer(Spread::exactly(number.round() as i64))
    } else {
        Field::Decimal { range: Spread::exactly(number), digits }
    }
}

/// A range of whole numbers, all of them about equally frequent. `None` if they are not.
fn even_range(counted: &[Counted], digits: u8) -> Option<Field> {
    let numbers = || counted.iter().map(|of| of.number);
    let (least, greatest) = (numbers().fold(f64::INFINITY, f64::min), numbers().fold(f64::NEG_INFINITY, f64::max));
    let mean = counted.iter().map(|of| of.count).sum::<u64>() as f64 / counted.len() as f64;
    // Counts of an even draw differ by a few times their root.
    let even = counted.iter().all(|of| (of.count as f64 - mean).abs() <= 4.0 * mean.sqrt());
    let full = digits == 0 && greatest - least + 1.0 == counted.len() as f64;
    (even && full && counted.len() > 1).then(|| Field::Integer(Spread::between(least as i64, greatest as i64)))
}

/// Letters of this many bytes, different for each number as far as there are enough.
fn invented(number: u64, bytes: usize) -> String {
    let code = Code::new(CHOICES as u64, 5).text(number);
    let filler = "lorem ipsum dolor sit amet ";
    let rest = bytes.saturating_sub(code.len());
    let mut name: String = if bytes < code.len() {
        // One letter, or none.
        char::from(b'a' + (number % 26) as u8).to_string().chars().take(bytes).collect()
    } else {
        code
    };
    name.extend(filler.chars().cycle().take(rest));
    name
}

/// As few points as describe numbers, sorted: their mean and their quantiles.
fn spread(sorted: &[f64], most: usize) -> Vec<f64> {
    let (Some(first), Some(last)) = (sorted.first(), sorted.last()) else { return vec![0.0] };
    if first == last {
        return vec![*first];
    }
    let at = |p: f64| ((p * (sorted.len() - 1) as f64).round() as usize).min(sorted.len() - 1);
    let quantile = |p: f64| sorted[at(p)];
    let middle = quantile(0.75) - quantile(0.25);
    let mut points = Vec::new();
    for pieces in PIECES.into_iter().filter(|pieces| *pieces <= most) {
        points = (0..=pieces).map(|at| quantile(at as f64 / pieces as f64)).collect();
        // The outer pieces keep their means, so that one extreme value does not stand for a whole piece.
        let outer = mean(&sorted[at(1.0 - 1.0 / pieces as f64)..]);
        points[pieces] = (2.0 * outer - points[pieces - 1]).clamp(points[pieces - 1], *last);
        let outer = mean(&sorted[..=at(1.0 / pieces as f64)]);
        points[0] = (2.0 * outer - points[1]).clamp(*first, points[1]);
        let own_mean = points.windows(2).map(|two| (two[0] + two[1]) / 2.0).sum::<f64>() / pieces as f64;
        let own = |p: f64| {
            let at = p * pieces as f64;
            let piece = (at as usize).min(pieces - 1);
            points[piece] + (points[piece + 1] - points[piece]) * (at - piece as f64)
        };
        // As a share of how far they are from the least: numbers may all be large, as times are.
        let near = |a: f64, b: f64, share: f64| (a - b).abs() <= share * (a - first).max(middle);
        let quantiles = [0.1, 0.25, 0.5, 0.75, 0.9, 0.99];
        if near(mean(sorted), own_mean, FITS) && quantiles.iter().all(|p| near(quantile(*p), own(*p), QUANTILES_FIT)) {
            break;
        }
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_has_as_few_points_as_it_needs() {
        let even: Vec<f64> = (0..1_000).map(f64::from).collect();
        let points = spread(&even, 100);
        assert!(points.len() == 2 && points[0].abs() < 2.0 && (points[1] - 999.0).abs() < 2.0, "{points:?}");
        let skewed: Vec<f64> = (0..1_000).map(|n| (f64::from(n) / 100.0).exp()).collect();
        let points = spread(&skewed, 100);
        assert!(points.len() > 20, "{points:?}");
        let mean = skewed.iter().sum::<f64>() / 1_000.0;
        let own = points.windows(2).map(|two| (two[0] + two[1]) / 2.0).sum::<f64>() / (points.len() - 1) as f64;
        assert!((own / mean - 1.0).abs() < 0.03, "{own} and {mean}");
        // One extreme value does not stand for a hundredth of all.
        let mut outlier = vec![1.0; 9_999];
        outlier.push(1e6);
        let points = spread(&outlier, 100);
        assert!(points[points.len() - 1] < 5e4, "{points:?}");
        assert_eq!(spread(&[3.0; 20], 100), [3.0]);
        assert_eq!(spread(&[], 100), [0.0]);
    }

    /// What is inferred of these documents, and what documents generated from it are made of.
    fn again(documents: impl Iterator<Item = String>) -> (super::super::Profile, super::super::Profile) {
        let mut sample = super::super::Profile::default();
        documents.for_each(|document| sample.add_generated(document.as_bytes()));
        sample.finish();
        let collection = sample.collection(false).unwrap().collection;
        let like = super::super::Profile::of_collection(&collection, sample.documents()).unwrap();
        (sample, like)
    }

    #[test]
    fn ends_are_kept_and_what_is_unique_stays_unique_also_in_lists() {
        let mut rng = crate::random::Rng::of(5, 6, 7);
        let (sample, like) = again((0..12_614u64).map(|i| {
            let lat = match i {
                5 => -90.0,
                6 => 83.0,
                _ => 10.0 + 30.0 * (rng.unit() + rng.unit() - 1.0),
            };
            let name = if i == 7 { "n".repeat(236) } else { "n".repeat(20 + (i % 30) as usize) };
            let tags: Vec<String> = (0..i % 3).map(|n| format!("\"{:x}\"", i * 3 + n + 70_000)).collect();
            format!("{{\"lat\":{lat:.4},\"name\":\"{name}{i}\",\"tags\":[{}]}}", tags.join(","))
        }));
        let ends = |profile: &super::super::Profile| {
            let node = |name: &str| &profile.root.all[name.as_bytes()];
            let texts = node("name").texts.as_ref().unwrap().lengths.ends();
            let tags = node("tags").lists.as_ref().unwrap().of.texts.as_ref().unwrap().values.clone();
            (node("lat").numbers.as_ref().unwrap().sample.ends(), texts, tags)
        };
        let ((lat, name, tags), (like_lat, like_name, like_tags)) = (ends(&sample), ends(&like));
        assert_eq!(lat, (-90.0, 83.0));
        // Ends are drawn as often as they were seen: once among so many, by chance also never.
        let within = |one: (f64, f64), other: (f64, f64)| other.0 >= one.0 - 1.0 && other.1 <= one.1 + 1.0;
        assert!(within(lat, like_lat) && within(name, (name.0, like_name.1)), "{like_lat:?} {like_name:?}");
        let off = like_tags.distinct() / like_tags.total() as f64;
        assert!(tags.distinct() == tags.total() as f64 && off > 0.99, "{off}");
        let field = |points: &[f64]| of_points(points, 0);
        let kept = with_ends(field(&[0.0, 10.0]), (-90.0, 83.0), 100.0, |n| constant(n, 0));
        assert_eq!(reach(&kept), Some((-90.0, 83.0)));
        assert_eq!(with_ends(field(&[0.0, 10.0]), (0.0, 10.0), 100.0, |n| constant(n, 0)), field(&[0.0, 10.0]));
    }

    #[test]
    fn invented_names_are_as_long_and_different() {
        let mut seen = std::collections::HashSet::new();
        for number in 0..64 {
            let name = invented(number, 9);
            assert_eq!(name.len(), 9);
            assert!(seen.insert(name));
        }
        assert_eq!((invented(1, 0).len(), invented(1, 1).len(), invented(1, 2).len()), (0, 1, 2));
    }

    #[test]
    fn how_far_rising_numbers_are_off_is_found() {
        let mut rng = crate::random::Rng::of(1, 2, 3);
        for off in [0.0, 0.01, 0.05] {
            let mut trend = Trend::default();
            for i in 0..20_000 {
                let place = f64::from(i) / 20_000.0 + (rng.unit() - 0.5) * 2.0 * off;
                trend.add(f64::from(i), 100.0 + 7.0 * place);
            }
            let found = within(&trend).unwrap();
            assert!((found - off).abs() < 0.003, "{off}: {found}");
        }
        assert_eq!(within(&Trend::default()), None);
    }
}
