//! Values by group of configurations, side and round. Pairs are made from them.

use std::collections::{BTreeMap, BTreeSet};

use super::configurations::{Key, value_text};
use crate::TrialResult;
use crate::stats::{Estimate, Observed, mean, paired_ratio};

/// One trial's value and its place in the grid.
#[derive(Debug, Clone)]
pub(super) struct Cell {
    /// What its configuration shares with the configurations it is compared with: store and remaining factors.
    pub(super) group: String,
    /// Which side of the comparison, from 0.
    pub(super) side: usize,
    pub(super) round: u32,
    /// The number of the trial.
    pub(super) trial: u32,
    /// What is averaged: the logarithm of a figure, or a share.
    pub(super) value: f64,
    /// How far the true value may lie from it, because the figure is rounded or was searched.
    pub(super) within: f64,
}

/// The group of a trial: its store and values, except for what is compared.
pub(super) fn group(trial: &TrialResult, compared: &BTreeSet<Key>) -> String {
    let mut shared = Vec::new();
    if !compared.contains(&Key::Store) {
        shared.push(trial.store.clone());
    }
    for (path, value) in &trial.values {
        let key = Key::Factor(path.clone());
        if !compared.contains(&key) {
            shared.push(format!("{} = {}", key.name(), value_text(value)));
        }
    }
    shared.join(", ")
}

/// A value for each side (outer) and round (inner).
pub(super) type Sides = Vec<Vec<f64>>;

/// A complete grid: every group has every side in every round.
#[derive(Debug)]
pub(super) struct Grid {
    /// Each group by itself.
    pub(super) groups: Vec<(String, Sides)>,
    /// The mean over groups.
    pub(super) all: Sides,
    /// The first trial of each round, which says how far the rounds are apart.
    pub(super) at: Vec<u32>,
    /// How far true values may lie from these, at most.
    pub(super) within: f64,
    /// Rounds that lack a configuration.
    pub(super) rounds_left_out: Vec<u32>,
    /// Groups that lack a side in all rounds.
    pub(super) groups_left_out: Vec<String>,
}

impl Grid {
    /// Places values on `sides` sides. An error says why nothing can be compared.
    pub(super) fn of(sides: usize, cells: &[Cell]) -> Result<Self, String> {
        let mut by_group: BTreeMap<&str, BTreeMap<(usize, u32), Vec<f64>>> = BTreeMap::new();
        for cell in cells {
            let of = by_group.entry(&cell.group).or_default();
            of.entry((cell.side, cell.round)).or_default().push(cell.value);
        }
        let groups_left_out: Vec<String> = by_group
            .iter()
            .filter(|(_, of)| !(0..sides).all(|side| of.keys().any(|(of, _)| *of == side)))
            .map(|(group, _)| (*group).to_owned())
            .collect();
        by_group.retain(|group, _| !groups_left_out.iter().any(|left_out| left_out == group));
        if by_group.is_empty() {
            return Err("no two of these configurations differ only in what is compared".into());
        }
        let rounds: BTreeSet<u32> = cells.iter().map(|cell| cell.round).collect();
        // If the sides name different factors, several configurations of one side share a place. Each round then needs
        // the same number of them.
        let complete = |round: &u32| {
            by_group.values().all(|of| {
                (0..sides).all(|side| {
                    let most = of.iter().filter(|((of, _), _)| *of == side).map(|(_, values)| values.len()).max();
                    of.get(&(side, *round)).map(Vec::len) == most
                })
            })
        };
        let (kept, rounds_left_out): (Vec<u32>, Vec<u32>) = rounds.into_iter().partition(complete);
        if kept.is_empty() {
            return Err("no round has all of these configurations".into());
        }
        let groups: Vec<(String, Sides)> = by_group
            .iter()
            .map(|(group, of)| {
                let at = |side: usize, round: &u32| of.get(&(side, *round)).map_or(f64::NAN, |values| mean(values));
                let side = |side: usize| kept.iter().map(|round| at(side, round)).collect();
                ((*group).to_owned(), (0..sides).map(side).collect())
            })
            .collect();
        let over_groups =
            |side: usize, round: usize| mean(&groups.iter().map(|(_, of)| of[side][round]).collect::<Vec<_>>());
        let all = (0..sides).map(|side| (0..kept.len()).map(|round| over_groups(side, round)).collect()).collect();
        let first = |round: &u32| cells.iter().filter(|cell| cell.round == *round).map(|cell| cell.trial).min();
        let at = kept.iter().filter_map(first).collect();
        let within = cells.iter().map(|cell| cell.within).fold(0.0, f64::max);
        Ok(Self { groups, all, at, within, rounds_left_out, groups_left_out })
    }
}

/// The ratio of side `of` to side `to`, from logarithms, paired by rounds.
pub(super) fn ratio(sides: &Sides, of: usize, to: usize, within: f64) -> Option<Estimate> {
    // Subtracts before `exp`, so that no intermediate value overflows.
    let pair = |(of, to): (&f64, &f64)| {
        let value = (of - to).exp();
        let ratio = Observed { at: 1, value, from: value / within.exp(), to: value * within.exp() };
        let one = Observed { at: 1, value: 1.0, from: 1.0 / within.exp(), to: within.exp() };
        (ratio, one)
    };
    let pairs: Vec<_> = sides[of].iter().zip(&sides[to]).map(pair).collect();
    Some(paired_ratio(&pairs)?.estimate(1))
}
