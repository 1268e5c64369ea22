//! What a store guarantees a phase, resolved from what the phase asks for.

use storebench_study::workload::Phase;

use super::plan::refused;
use crate::store::{Acknowledged, Capabilities, Durability, DurabilityRequest, Isolation, ReadConsistency, StoreError};

/// What a store guarantees a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Guarantees {
    /// What acknowledged writes survive.
    pub durability: Durability,
    /// What the phase asks for, if it asks for anything.
    pub durability_asked: Option<DurabilityRequest>,
    /// What the store sets to guarantee it, in the store's own words.
    pub durability_means: &'static str,
    /// How fresh reads are.
    pub consistency: ReadConsistency,
    /// How far transactions are kept apart from others, and how the store guarantees it. `None` without transactions.
    pub isolation: Option<(Isolation, &'static str)>,
}

impl Guarantees {
    /// What the phase asks for, if the store gives something else: `at least os`.
    pub fn durability_asked_in_words(&self) -> Option<String> {
        let given = [DurabilityRequest::AtLeast(self.durability), DurabilityRequest::Exactly(self.durability)];
        self.durability_asked.filter(|asked| !given.contains(asked)).map(|asked| asked.to_string())
    }

    /// Resolves what the phase asks for; by default, the strongest guarantees that the store has.
    pub(super) fn resolve(phase: &Phase, can: &Capabilities) -> Result<Self, StoreError> {
        let refuse = |why: String| Err(refused(phase, why));
        let found = match phase.durability {
            Some(asked) => can.durability_for(asked),
            None => can.default_durability().ok_or_else(|| "this store declares no durability at all".to_owned()),
        };
        let (durability, durability_means) = found.map_err(|why| refused(phase, why))?;
        let consistency = phase.consistency.unwrap_or_else(|| can.default_consistency());
        if phase.consistency.is_some() && !can.consistency.iter().any(|(have, _)| *have == consistency) {
            let can: Vec<_> = can.consistency.iter().map(|(c, _)| c.to_string()).collect();
            return refuse(format!("this store cannot guarantee `{consistency}` reads; supported: {}", can.join(", ")));
        }
        let isolation = if phase.has_transactions_on(can.language) {
            let can = &can.transactions;
            let having = |wanted| can.isolation.iter().copied().find(|(have, _)| *have == wanted);
            let found = phase.isolation.map_or_else(|| can.strongest(), having);
            if let (None, Some(asked)) = (found, phase.isolation) {
                let names: Vec<_> = can.isolation.iter().map(|(isolation, _)| isolation.name()).collect();
                let can = names.join(", ");
                return refuse(format!("this store cannot guarantee isolation `{asked}`; supported: {can}"));
            }
            if let Some(of) = phase.operations_of_mix().find(|of| of.entry.rollback > 0.0 && !can.rolls_back) {
                return refuse(format!(
                    "this store cannot undo steps that it has done; remove `rollback` of `{}`",
                    of.name
                ));
            }
            if durability.acknowledged_by != Acknowledged::Nodes(1) && !can.waits_for_nodes {
                return refuse(format!(
                    "on this store a transaction does not wait for other nodes, so durability `{durability}` cannot be \
                     guaranteed to it; use one that a single node gives"
                ));
            }
            if can.takes_connection && phase.in_flight > 1 {
                return refuse(
                    "on this store a transaction has its connection to itself; set in_flight = 1, and use `connections` \
                     for more at once"
                        .into(),
                );
            }
            found
        } else {
            None
        };
        Ok(Self { durability, durability_asked: phase.durability, durability_means, consistency, isolation })
    }
}
