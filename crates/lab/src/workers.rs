//! How many workers the client gets if the study leaves that to Storebench (`workers = "auto"`).

use storebench_machine::Processors;
use storebench_results::environment::authority_of;

use crate::environment::is_here;

/// A number of workers, and the reason for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workers {
    /// One for each core that the client can have without taking the store's.
    pub count: u32,
    /// Why, for the user.
    pub why: String,
}

/// Where a store works, as far as it needs the client's cores. In the order of what it leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// A server on this machine, which needs cores of its own. So does an embedded store in a process of its own.
    Beside,
    /// An embedded store: its work is done by the workers themselves.
    Within,
    /// A server elsewhere.
    Elsewhere,
}

impl Place {
    fn of(url: &str, hosted: bool) -> Self {
        match authority_of(url) {
            None if hosted => Self::Beside,
            None => Self::Within,
            // A name that cannot be resolved now may turn out to be this machine.
            Some(_) if is_here(url) == Some(false) => Self::Elsewhere,
            Some(_) => Self::Beside,
        }
    }
}

/// Workers for a run on these stores: the same number on each of them, because otherwise their clients would differ. A
/// worker is a thread that is busy whenever it has something to do, so it gets a core, not one of a core's two threads.
/// `hosted` says that embedded stores run in a process of their own, because the study kills and restarts them.
pub fn workers_for<'a>(processors: Processors, urls: impl IntoIterator<Item = &'a str>, hosted: bool) -> Workers {
    let cores = processors.cores;
    let place = urls.into_iter().map(|url| Place::of(url, hosted)).min().unwrap_or(Place::Elsewhere);
    let of = match cores {
        1 => "the only core".to_owned(),
        cores => format!("{cores} cores"),
    };
    let (count, why) = match place {
        Place::Beside => {
            ((cores / 2).max(1), format!("half of {of}, because a store on this machine needs the others"))
        }
        Place::Within => (cores, format!("one for each of {of}, because an embedded store works on the same threads")),
        Place::Elsewhere => (cores, format!("one for each of {of}, because no store needs them")),
    };
    let why = if cores == 1 { "there is only one core".to_owned() } else { why };
    Workers { count, why }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_store_keeps_its_cores() {
        let of = |cores, urls: &[&str], hosted| {
            workers_for(Processors { usable: 2 * cores, cores, nodes: 1 }, urls.iter().copied(), hosted).count
        };
        let count = |cores, urls: &[&str]| of(cores, urls, false);
        // The last one is reserved for documentation (RFC 5737), so it is nobody's address.
        let (embedded, beside, elsewhere) = ("sqlite:a.db", "redis://127.0.0.1:6379", "postgres://192.0.2.1/x");
        assert_eq!([1, 2, 3, 8].map(|cores| count(cores, &[beside])), [1, 1, 1, 4]);
        assert_eq!([1, 2, 8].map(|cores| count(cores, &[embedded])), [1, 2, 8]);
        assert_eq!([1, 2, 8].map(|cores| count(cores, &[elsewhere])), [1, 2, 8]);
        assert_eq!(count(8, &[elsewhere, beside, embedded]), 4, "each store gets the same client");
        assert_eq!(count(8, &[]), 8);
        // Nothing is sent. Without a route, this machine has no other address.
        let routed = std::net::UdpSocket::bind("0.0.0.0:0").and_then(|socket| {
            socket.connect("192.0.2.1:9")?;
            socket.local_addr()
        });
        if let Ok(own) = routed {
            assert_eq!(count(8, &[&format!("redis://{}", own.ip())]), 4, "this machine by an address of its network");
        }
        assert_eq!(count(8, &["redis://no-such-host.invalid"]), 4, "it may be this machine");
        assert_eq!((of(8, &[embedded], true), of(8, &[elsewhere], true)), (4, 8), "in a process of its own");
    }
}
