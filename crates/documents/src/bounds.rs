//! Upper bounds of the length of keys and documents, to reject sizes that cannot be met.

use super::error::DocumentError;
use super::numbers::digits_of;
use super::plan::{Json, Maker, Part, Plan, Segment};
use super::size::Sizes;
use storebench_study::units::ByteSize;
use storebench_study::workload::IdKind;

/// Sizes leave room for versions of this many digits.
const VERSION_DIGITS: u64 = 7;

/// The largest document. Each document in flight is held in memory.
const LARGEST: u64 = 1 << 30;

/// Sets the bounds of every plan. Rejects keys that depend on themselves, and sizes that are too small or too large.
pub(crate) fn bound_all(plans: &mut [Plan]) -> Result<(), DocumentError> {
    let mut keys = vec![None; plans.len()];
    for position in 0..plans.len() {
        key_bound(plans, position, &mut keys, &mut Vec::new())?;
    }
    for (plan, bound) in plans.iter_mut().zip(&keys) {
        plan.key_bound = bound.unwrap_or(0);
    }
    for position in 0..plans.len() {
        let bound = segments_bound(plans, position, &plans[position].segments, &keys);
        let plan = &plans[position];
        let most = plan.sizes.as_ref().map_or(0, Sizes::most).max(bound);
        if most > LARGEST {
            return Err(DocumentError::new(
                format!("collections.{}", plan.name),
                format!(
                    "these documents could grow to {}; the maximum is {}; lower the size, or shorten texts and lists",
                    ByteSize(most),
                    ByteSize(LARGEST)
                ),
            ));
        }
        if let Some(Sizes::Uniform(least, _)) = &plan.sizes
            && *least < bound
        {
            return Err(DocumentError::new(
                format!("collections.{}.size", plan.name),
                format!(
                    "{} is too small: these documents take up to {bound} bytes without the fill text; use at least {bound}, or fewer and shorter fields",
                    ByteSize(*least)
                ),
            ));
        }
    }
    Ok(())
}

fn segments_bound(plans: &[Plan], position: usize, segments: &[Segment], keys: &[Option<u64>]) -> u64 {
    let of = |segment: &Segment| match segment {
        Segment::Literal(text) => text.len() as u64,
        Segment::Index => index_digits(&plans[position]),
        Segment::Version => VERSION_DIGITS,
        Segment::Value(slot) => maker_bound(plans, position, &plans[position].slots[*slot].maker, keys),
        Segment::Fill(_) => 0,
        Segment::Comma => 1,
        Segment::If(_, then, otherwise) => {
            segments_bound(plans, position, then, keys).max(segments_bound(plans, position, otherwise, keys))
        }
    };
    segments.iter().map(of).fold(0, u64::saturating_add)
}

/// Leaves room for ten times as many documents as are loaded.
fn index_digits(plan: &Plan) -> u64 {
    digits_of(plan.count.saturating_sub(1)) + u64::from(plan.relation.is_none())
}

fn key_bound(
    plans: &[Plan],
    position: usize,
    keys: &mut [Option<u64>],
    chain: &mut Vec<usize>,
) -> Result<u64, DocumentError> {
    if let Some(known) = keys[position] {
        return Ok(known);
    }
    let plan = &plans[position];
    if chain.contains(&position) {
        return Err(DocumentError::new(
            format!("collections.{}.key", plan.name),
            "this key depends on itself through references to other collections; remove the reference from the key",
        ));
    }
    chain.push(position);
    let mut needed = Vec::new();
    parts_refer(plan, &plan.key, &mut needed);
    for target in needed {
        key_bound(plans, target, keys, chain)?;
    }
    chain.pop();
    let bound = match &plan.own {
        _ if plan.trace.is_some() => plan.trace.as_ref().map_or(0, |trace| trace.longest_key_bytes()),
        Some(own) if own.holds_keys() => own.longest_key,
        _ => parts_bound(plans, position, &plan.key, keys),
    };
    keys[position] = Some(bound);
    Ok(bound)
}

/// Collects the collections whose keys these parts use.
fn parts_refer(plan: &Plan, parts: &[Part], needed: &mut Vec<usize>) {
    for part in parts {
        match part {
            Part::ParentKey => needed.extend(plan.relation.as_ref().map(|r| r.parent_collection)),
            Part::Slot { slot, .. } => maker_refers(plan, &plan.slots[*slot].maker, needed),
            _ => {}
        }
    }
}

fn maker_refers(plan: &Plan, maker: &Maker, needed: &mut Vec<usize>) {
    match maker {
        Maker::Template(parts) => parts_refer(plan, parts, needed),
        Maker::Ref { target, .. } => needed.push(*target),
        Maker::Nullable(_, json) => maker_refers(plan, &json.of, needed),
        _ => {}
    }
}

/// The bound of a key within a document. Keys of the user's own documents may need escapes. The bounds of other keys
/// include their escapes.
fn escaped_bound(plans: &[Plan], target: usize, keys: &[Option<u64>]) -> u64 {
    let bound = keys[target].unwrap_or(0);
    if plans[target].own.is_some() { bound.saturating_mul(6) } else { bound }
}

fn parts_bound(plans: &[Plan], position: usize, parts: &[Part], keys: &[Option<u64>]) -> u64 {
    let plan = &plans[position];
    parts
        .iter()
        .map(|part| match part {
            Part::Literal(text) => text.len() as u64,
            Part::Index(width) => index_digits(plan).max(*width as u64),
            Part::Seq(width) => {
                let most = plan.relation.as_ref().map_or(0, |r| r.most.saturating_sub(1));
                digits_of(most).max(*width as u64)
            }
            Part::Parent(width) => {
                let parents = plan.relation.as_ref().map_or(0, |r| plans[r.parent_collection].count.saturating_sub(1));
                digits_of(parents).max(*width as u64)
            }
            Part::ParentKey => plan.relation.as_ref().map_or(0, |r| escaped_bound(plans, r.parent_collection, keys)),
            Part::Uuid => 36,
            Part::Slot { slot, width } => {
                maker_bound(plans, position, &plan.slots[*slot].maker, keys).max(*width as u64 + 1)
            }
            Part::Own(_) => plan.own.as_ref().map_or(0, |own| own.longest_key),
        })
        .fold(0, u64::saturating_add)
}

fn json_bound(plans: &[Plan], position: usize, json: &Json, keys: &[Option<u64>]) -> u64 {
    maker_bound(plans, position, &json.of, keys).saturating_add(if json.quoted { 2 } else { 0 })
}

fn maker_bound(plans: &[Plan], position: usize, maker: &Maker, keys: &[Option<u64>]) -> u64 {
    let plan = &plans[position];
    let text = |bound: &dyn Fn(&super::corpus::Corpus) -> u64| plan.corpus.as_ref().map_or(0, |c| bound(c));
    let signed = |n: i64| digits_of(n.unsigned_abs()) + u64::from(n < 0);
    match maker {
        Maker::Template(parts) => parts_bound(plans, position, parts, keys),
        Maker::Words(_, most) => text(&|c| c.words_bound(*most)),
        Maker::Sentences(_, most) | Maker::Lines(_, most) => text(&|c| c.units_bound(*most)),
        Maker::Text(lengths) => lengths.max().unsigned_abs(),
        Maker::Fill => 0,
        Maker::Integer(of) => signed(of.min()).max(signed(of.max())),
        Maker::Decimal { of, digits } => {
            let least = u64::from(*digits) + 1;
            let one = |n: i64| digits_of(n.unsigned_abs()).max(least) + u64::from(n < 0) + u64::from(*digits > 0);
            one(of.min()).max(one(of.max()))
        }
        Maker::Time(..) => 24,
        Maker::Choice(all) => all.iter().map(|(text, _)| text.len() as u64).max().unwrap_or(0),
        Maker::Bool(_) => 5,
        Maker::List { open, close, of, length } => {
            let one = maker_bound(plans, position, of, keys) + (open.len() + close.len()) as u64 + 1;
            one.saturating_mul(length.max().unsigned_abs()).saturating_add(2)
        }
        // Braces, and for each member a comma and quotes.
        Maker::Object(members) => members
            .iter()
            .map(|member| 1 + member.name.len() as u64 + json_bound(plans, position, &member.of, keys))
            .fold(2, u64::saturating_add),
        Maker::Any(all) => all.iter().map(|(json, _)| json_bound(plans, position, json, keys)).max().unwrap_or(0),
        Maker::Nullable(_, json) => json_bound(plans, position, json, keys).max(4),
        Maker::Distinct(distinct) => {
            let letters = distinct.code.as_ref().map_or(0, |code| code.letters() as u64);
            maker_bound(plans, position, &distinct.of, keys).max(letters)
        }
        Maker::Ref { target, .. } => escaped_bound(plans, *target, keys),
        Maker::Bytes(_, most) => most.div_ceil(3).saturating_mul(4),
        Maker::Id(IdKind::Uuid, _) => 36,
        Maker::Id(IdKind::Hex, _) => 24,
    }
}
