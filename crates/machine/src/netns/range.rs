//! Chooses the addresses of a network.

use std::net::Ipv4Addr;

use serde::Deserialize;

/// 256 addresses that share their first three bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Range([u8; 3]);

/// The last byte of this machine's address.
pub(super) const CLIENT: u8 = 1;
/// The last byte of the first node's address.
pub(super) const FIRST: u8 = 2;
/// The last byte of the middle namespace's address.
pub(super) const HUB: u8 = 254;

/// The number of these in all private ranges: `10.0.0.0/8`, then `172.16.0.0/12`, then `192.168.0.0/16`.
const ALL: u32 = (256 + 16 + 1) * 256;
/// Coprime to [`ALL`], so that stepping visits every range, each far from the previous one.
const STEP: u32 = 25_601;
/// Ignore routes with a shorter prefix: they are defaults, and a route to 256 addresses takes precedence over them.
const LEAST_PREFIX_BITS: u8 = 8;

impl Range {
    /// A placeholder until one is chosen.
    pub(super) const NONE: Self = Self([0; 3]);

    pub(super) fn address(self, last: u8) -> Ipv4Addr {
        let [a, b, c] = self.0;
        Ipv4Addr::new(a, b, c, last)
    }

    fn of(number: u32) -> Self {
        let [_, _, high, low] = number.to_be_bytes();
        match number >> 16 {
            0 => Self([10, high, low]),
            _ if high < 16 => Self([172, 16 + high, low]),
            _ => Self([192, 168, low]),
        }
    }

    /// Whether a route to these addresses overlaps it.
    fn meets(self, used: Used) -> bool {
        let mask = u32::MAX << (32 - u32::from(used.bits.min(24)));
        (u32::from(self.address(0)) ^ u32::from(used.address)) & mask == 0
    }
}

impl std::fmt::Display for Range {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/24", self.address(0))
    }
}

/// Addresses that this machine uses or has a route to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Used {
    address: Ipv4Addr,
    bits: u8,
}

/// Parses the output of `ip -json -4 route show table all`. Its table `local` holds this machine's addresses.
pub(super) fn used(json: &str) -> Result<Vec<Used>, String> {
    #[derive(Deserialize)]
    struct Route {
        dst: String,
        gateway: Option<String>,
    }
    // Without routes, `ip` may print nothing at all.
    let json = if json.trim().is_empty() { "[]" } else { json };
    let routes: Vec<Route> = serde_json::from_str(json).map_err(|error| error.to_string())?;
    let places = routes.into_iter().flat_map(|route| [Some(route.dst), route.gateway]).flatten();
    let parse = |place: String| {
        let (address, bits) = match place.split_once('/') {
            Some((address, bits)) => (address, bits.parse().ok()?),
            None => (&*place, 32),
        };
        Some(Used { address: address.parse().ok()?, bits })
    };
    Ok(places.filter_map(parse).filter(|used| used.bits >= LEAST_PREFIX_BITS).collect())
}

/// Ranges that overlap none of these, in an order that depends on `seed`. Those far from all of them come first: a
/// router may know more subnets near them, which this machine does not see.
pub(super) fn free(used: &[Used], seed: u32) -> impl Iterator<Item = Range> {
    let all = move || (0..ALL).map(move |n| Range::of((seed % ALL + n * STEP % ALL) % ALL));
    let meets = |range: Range, used: &[Used]| used.iter().any(|&used| range.meets(used));
    let near: Vec<Used> = used.iter().map(|used| Used { bits: used.bits.min(16), ..*used }).collect();
    let far = {
        let near = near.clone();
        all().filter(move |&range| !meets(range, &near))
    };
    let used = used.to_vec();
    far.chain(all().filter(move |&range| meets(range, &near) && !meets(range, &used)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    const ROUTES: &str = r#"[{"dst":"default","gateway":"192.168.1.1","dev":"eth0","flags":[]},
        {"dst":"0.0.0.0/1","dev":"tun0"},
        {"dst":"10.77.0.0/24","gateway":"10.77.0.254","dev":"x","flags":["onlink"]},
        {"type":"local","dst":"10.1.2.3","dev":"x","table":"local"}]"#;

    #[test]
    fn every_private_range_is_met_once() {
        let all: Vec<Range> = free(&[], 12_345).collect();
        let names: HashSet<String> = all.iter().map(Range::to_string).collect();
        assert_eq!((all.len(), names.len()), (ALL as usize, ALL as usize));
        assert!(all.iter().all(|range| range.address(1).is_private()));
        for name in ["10.0.0.0/24", "10.255.255.0/24", "172.16.0.0/24", "172.31.255.0/24", "192.168.255.0/24"] {
            assert!(names.contains(name), "{name}");
        }
        assert_ne!(free(&[], 1).next(), free(&[], 2).next());
    }

    #[test]
    fn what_is_in_use_is_left_alone() {
        let used = used(ROUTES).unwrap();
        assert_eq!(used.len(), 4, "{used:?}");
        let all: Vec<String> = free(&used, 0).map(|range| range.to_string()).collect();
        assert_eq!(all.len(), ALL as usize - 3);
        for taken in ["192.168.1.0/24", "10.77.0.0/24", "10.1.2.0/24"] {
            assert!(!all.iter().any(|name| name == taken), "{taken}");
        }
        let first_near = all.iter().position(|name| name.starts_with("10.1.")).unwrap();
        let last_far = all.iter().rposition(|name| name.starts_with("10.2.")).unwrap();
        assert!(last_far < first_near, "what is near comes last");
    }

    #[test]
    fn a_route_to_a_whole_range_takes_all_of_it() {
        let used = used(r#"[{"dst":"10.0.0.0/8"},{"dst":"172.16.0.0/12"},{"dst":"192.168.7.128/25"}]"#).unwrap();
        let all: Vec<Range> = free(&used, 7).collect();
        assert_eq!(all.len(), 255);
        assert!(all.iter().all(|range| range.0[..2] == [192, 168] && range.0[2] != 7));
    }

    #[test]
    fn a_machine_without_routes_has_all_of_them_free() {
        assert_eq!(used("\n").unwrap(), []);
        assert!(used("busybox").is_err());
    }
}
