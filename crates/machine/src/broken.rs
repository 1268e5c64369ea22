//! Types for power cuts and network partitions. They exist in builds without these features, too.

/// What survives of the data that was not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Nothing.
    Nothing,
    /// A random part. The same seed and the same requests give the same part.
    Some(u64),
}

/// What a power cut has lost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Forgotten {
    /// Files whose content or size was not synced.
    pub files: u64,
    /// Bytes of their lost pages, in whole pages.
    pub bytes: u64,
    /// Operations on names and attributes that were undone.
    pub names: u64,
}

/// What this machine, where clients run, reaches in a partitioned network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientSees {
    /// Every node: clients are on no side.
    All,
    /// The nodes of this group, counted from 0. Nodes that no group names form one more group after the named ones.
    Group(usize),
    /// No node.
    Nobody,
}

/// Which nodes cannot reach which.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Partition {
    /// Nodes of different groups do not reach each other.
    Groups {
        /// Names of nodes. Those that no group names form one more group.
        groups: Vec<Vec<String>>,
        /// What clients reach.
        client_sees: ClientSees,
    },
    /// Packets from some nodes to others are lost; packets in the opposite direction arrive. Over TCP, soon nothing
    /// gets through in either direction, because what arrives is not acknowledged. But requests arrive that are never
    /// answered.
    OneWay {
        /// Names of nodes, or `client` for this machine.
        from: Vec<String>,
        /// Names of nodes, or `client` for this machine.
        to: Vec<String>,
    },
}
