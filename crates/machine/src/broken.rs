//! What is asked of a power cut and of a partition, and what one is told: in builds without them, too.

/// What stays of what was not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Nothing.
    Nothing,
    /// A random part, the same for the same seed and the same requests.
    Some(u64),
}

/// What a power cut has taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Forgotten {
    /// Files whose content or size was not synced.
    pub files: u64,
    /// Bytes of their pages that were forgotten, in whole pages.
    pub bytes: u64,
    /// Operations on names and attributes that were undone.
    pub names: u64,
}

/// What this machine, where clients are, reaches of a network that is partitioned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientSees {
    /// Every node: clients are on the side of nobody.
    All,
    /// The nodes of this group, counted from 0. The group of nodes that no group names comes after those that are named.
    Group(usize),
    /// No node.
    Nobody,
}

/// Who does not reach whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Partition {
    /// Nodes of different groups do not reach each other.
    Groups {
        /// Names of nodes. Those that no group names are one more group together.
        groups: Vec<Vec<String>>,
        /// What clients reach.
        client_sees: ClientSees,
    },
    /// What some send to others vanishes, and what these send arrives. Over TCP nothing gets through in either direction for
    /// long, for what arrives is not acknowledged; but requests arrive that are never answered.
    OneWay {
        /// Names of nodes, or `client`, this machine.
        from: Vec<String>,
        /// Names of nodes, or `client`, this machine.
        to: Vec<String>,
    },
}
