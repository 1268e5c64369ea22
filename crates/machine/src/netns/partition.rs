//! Which ends cannot reach which.

use std::collections::BTreeSet;

use super::{Network, NetworkProblem};
use crate::broken::{ClientSees, Partition};

/// An end of a network: 0 is this machine, where clients run, and n is the n-th node.
pub(super) type End = usize;

/// A sender and a receiver that its packets do not reach.
pub(super) type Cut = (End, End);

impl Partition {
    /// All pairs that it cuts in a network of these nodes.
    pub(super) fn cuts(&self, nodes: &[String]) -> Result<BTreeSet<Cut>, NetworkProblem> {
        let cuts = match self {
            Self::Groups { groups, client_sees } => between(&resolved(groups, nodes)?, *client_sees)?,
            Self::OneWay { from, to } => {
                let (from, to) = (ends(from, nodes)?, ends(to, nodes)?);
                let pairs = from.iter().flat_map(|&from| to.iter().map(move |&to| (from, to)));
                pairs.filter(|(from, to)| from != to).collect()
            }
        };
        if cuts.is_empty() {
            return refused("it does not separate any nodes; name two groups, or nodes on both sides");
        }
        Ok(cuts)
    }
}

fn refused<T>(why: impl Into<String>) -> Result<T, NetworkProblem> {
    Err(NetworkProblem::Partition(why.into()))
}

/// The groups as ends, plus the group of the nodes that no group names.
fn resolved(groups: &[Vec<String>], nodes: &[String]) -> Result<Vec<Vec<End>>, NetworkProblem> {
    let mut out = Vec::new();
    let mut rest: BTreeSet<End> = (1..=nodes.len()).collect();
    for group in groups {
        let group = group.iter().map(|name| node(name, nodes)).collect::<Result<Vec<End>, _>>()?;
        if group.is_empty() {
            return refused("a group is empty; remove it");
        }
        if let Some(&twice) = group.iter().find(|&&end| !rest.remove(&end)) {
            return refused(format!("`{}` is named twice; a node can be in only one group", nodes[twice - 1]));
        }
        out.push(group);
    }
    if !rest.is_empty() {
        out.push(rest.into_iter().collect());
    }
    Ok(out)
}

/// All pairs of nodes in different groups, and of clients with the nodes that they do not see, in both directions.
fn between(groups: &[Vec<End>], sees: ClientSees) -> Result<BTreeSet<Cut>, NetworkProblem> {
    if let ClientSees::Group(number) = sees
        && number >= groups.len()
    {
        return refused(format!(
            "clients see group {number}, which does not exist; the last group is {}",
            groups.len() - 1
        ));
    }
    let mut out = BTreeSet::new();
    for (number, group) in groups.iter().enumerate() {
        let others = groups.iter().enumerate().filter(|(other, _)| *other != number).flat_map(|(_, group)| group);
        let seen = match sees {
            ClientSees::All => true,
            ClientSees::Group(seen) => seen == number,
            ClientSees::Nobody => false,
        };
        let unreached: Vec<End> = others.copied().chain((!seen).then_some(0)).collect();
        for &end in group {
            out.extend(unreached.iter().flat_map(|&other| [(end, other), (other, end)]));
        }
    }
    Ok(out)
}

fn ends(names: &[String], nodes: &[String]) -> Result<Vec<End>, NetworkProblem> {
    names.iter().map(|name| if name == Network::CLIENT { Ok(0) } else { node(name, nodes) }).collect()
}

/// The end with this node's name.
pub(super) fn node(name: &str, nodes: &[String]) -> Result<End, NetworkProblem> {
    match nodes.iter().position(|node| node == name) {
        Some(position) => Ok(position + 1),
        None => Err(NetworkProblem::Unknown { name: name.to_owned(), known: nodes.join(", ") }),
    }
}

#[cfg(test)]
impl Partition {
    /// Groups of nodes. Clients reach all of them.
    pub(super) fn groups(groups: &[&[&str]]) -> Self {
        Self::Groups { groups: groups.iter().map(|group| owned(group)).collect(), client_sees: ClientSees::All }
    }

    /// Packets from these nodes to those are lost.
    pub(super) fn one_way(from: &[&str], to: &[&str]) -> Self {
        Self::OneWay { from: owned(from), to: owned(to) }
    }

    /// The same groups, seen differently by clients. It does not change a one-way partition.
    #[must_use]
    pub(super) fn client_sees(self, sees: ClientSees) -> Self {
        match self {
            Self::Groups { groups, .. } => Self::Groups { groups, client_sees: sees },
            other @ Self::OneWay { .. } => other,
        }
    }
}

#[cfg(test)]
fn owned(names: &[&str]) -> Vec<String> {
    names.iter().copied().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes() -> Vec<String> {
        owned(&["a", "b", "c"])
    }

    fn cuts(partition: &Partition) -> Vec<Cut> {
        partition.cuts(&nodes()).unwrap().into_iter().collect()
    }

    fn why(partition: &Partition) -> String {
        partition.cuts(&nodes()).unwrap_err().to_string()
    }

    #[test]
    fn groups_do_not_reach_each_other_in_either_direction() {
        let two = Partition::groups(&[&["a"], &["b", "c"]]);
        assert_eq!(cuts(&two), [(1, 2), (1, 3), (2, 1), (3, 1)]);
        assert_eq!(cuts(&Partition::groups(&[&["b", "c"]])), cuts(&two), "the rest is a group");
        let three = Partition::groups(&[&["a"], &["b"], &["c"]]);
        assert_eq!(cuts(&three), [(1, 2), (1, 3), (2, 1), (2, 3), (3, 1), (3, 2)]);
    }

    #[test]
    fn clients_reach_what_they_are_to_see() {
        let two = || Partition::groups(&[&["a"], &["b", "c"]]);
        let with_client = |sees| {
            let mut all = cuts(&two().client_sees(sees));
            all.retain(|(from, to)| *from == 0 || *to == 0);
            all
        };
        assert_eq!(with_client(ClientSees::All), []);
        assert_eq!(with_client(ClientSees::Group(1)), [(0, 1), (1, 0)]);
        assert_eq!(with_client(ClientSees::Group(0)), [(0, 2), (0, 3), (2, 0), (3, 0)]);
        assert_eq!(with_client(ClientSees::Nobody).len(), 6);
        let rest = Partition::groups(&[&["a"]]).client_sees(ClientSees::Group(1));
        assert_eq!(cuts(&rest), cuts(&two().client_sees(ClientSees::Group(1))));
        let whole = Partition::groups(&[&["a", "b", "c"]]);
        assert_eq!(cuts(&whole.client_sees(ClientSees::Nobody)).len(), 6);
    }

    #[test]
    fn one_way_is_one_way() {
        assert_eq!(cuts(&Partition::one_way(&["a", "b"], &["b", "client"])), [(1, 0), (1, 2), (2, 0)]);
        let same = Partition::one_way(&["client"], &["c"]);
        assert_eq!(cuts(&same.client_sees(ClientSees::Nobody)), [(0, 3)]);
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        assert!(why(&Partition::groups(&[&["a", "d"]])).contains("unknown node `d`; expected one of: a, b, c"));
        assert!(why(&Partition::groups(&[&["a"], &["b", "a"]])).contains("`a` is named twice"));
        assert!(why(&Partition::groups(&[&["a"], &[]])).contains("a group is empty"));
        assert!(why(&Partition::groups(&[&["a"]]).client_sees(ClientSees::Group(2))).contains("the last group is 1"));
        for nobody in
            [Partition::groups(&[]), Partition::groups(&[&["c", "b", "a"]]), Partition::one_way(&["a"], &["a"])]
        {
            assert!(why(&nobody).contains("does not separate any nodes"), "{nobody:?}");
        }
        assert!(why(&Partition::groups(&[&["client"]])).contains("`client`"), "clients are in no group");
    }
}
