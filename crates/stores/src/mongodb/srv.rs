//! Resolves a `mongodb+srv` name to its hosts, through DNS.
//!
//! The rules are those of
//! <https://github.com/mongodb/specifications/blob/master/source/initial-dns-seedlist-discovery/initial-dns-seedlist-discovery.md>.

use hickory_resolver::TokioResolver;
use hickory_resolver::proto::rr::RData;

use crate::net::Host;

/// Queries this machine's DNS. The error says why there are no hosts.
pub(super) async fn hosts(name: &str) -> Result<Vec<Host>, String> {
    let resolver = TokioResolver::builder_tokio().and_then(|builder| builder.build()).map_err(|e| e.to_string())?;
    ask(&resolver, name).await
}

async fn ask(resolver: &TokioResolver, name: &str) -> Result<Vec<Host>, String> {
    // The trailing dot prevents a lookup below this machine's own domain.
    let query = format!("_mongodb._tcp.{}.", name.trim_end_matches('.'));
    let answer = resolver.srv_lookup(query).await.map_err(|e| e.to_string())?;
    let services = answer.answers().iter().filter_map(|record| match &record.data {
        RData::SRV(service) => Some(service),
        _ => None,
    });
    let hosts: Vec<Host> = services
        .map(|service| Host { name: service.target.to_utf8().trim_end_matches('.').to_owned(), port: service.port })
        .collect();
    if let Some(astray) = hosts.iter().find(|host| !is_of_the_domain(&host.name, name)) {
        return Err(format!("it names `{}`, which is outside the domain of `{name}`", astray.name));
    }
    if hosts.is_empty() { Err("the list is empty".to_owned()) } else { Ok(hosts) }
}

/// Whether a host is in the parent domain of the name that was looked up, or below the name if it has only two parts.
fn is_of_the_domain(host: &str, name: &str) -> bool {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    let domain = match name.split_once('.') {
        Some((_, parent)) if parent.contains('.') => parent,
        _ => &name,
    };
    let host = host.to_ascii_lowercase();
    host.strip_suffix(domain).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, UdpSocket};
    use std::str::FromStr as _;

    use hickory_resolver::config::{NameServerConfig, ResolverConfig};
    use hickory_resolver::net::runtime::TokioRuntimeProvider;
    use hickory_resolver::proto::op::{Message, OpCode};
    use hickory_resolver::proto::rr::rdata::SRV;
    use hickory_resolver::proto::rr::{Name, Record};
    use hickory_resolver::proto::serialize::binary::BinEncodable as _;

    use super::*;

    /// A DNS server that knows one name, with these hosts.
    fn dns(name: &'static str, hosts: &'static [(&'static str, u16)]) -> SocketAddr {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        std::thread::spawn(move || {
            let mut buffer = [0; 512];
            while let Ok((length, from)) = socket.recv_from(&mut buffer) {
                let request = Message::from_vec(&buffer[..length]).unwrap();
                let query = request.queries[0].clone();
                let mut response = Message::response(request.id, OpCode::Query);
                let known = query.name().to_utf8() == name;
                response.add_query(query.clone());
                for (host, port) in hosts.iter().filter(|_| known) {
                    let service = SRV::new(0, 0, *port, Name::from_str(host).unwrap());
                    response.add_answer(Record::from_rdata(query.name().clone(), 60, RData::SRV(service)));
                }
                let _ = socket.send_to(&response.to_bytes().unwrap(), from);
            }
        });
        address
    }

    fn asked(server: SocketAddr, name: &str) -> Result<Vec<Host>, String> {
        let mut at = NameServerConfig::udp(server.ip());
        at.connections[0].port = server.port();
        let config = ResolverConfig::from_name_servers(vec![at]);
        let resolver = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default()).build().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(ask(&resolver, name))
    }

    #[test]
    fn hosts_are_those_of_the_service_record() {
        let server = dns("_mongodb._tcp.shop.example.net.", &[("a.example.net.", 27017), ("b.example.net.", 27018)]);
        let mut hosts = asked(server, "shop.example.net").unwrap();
        hosts.sort_by_key(|host| host.port);
        let host = |name: &str, port| Host { name: name.to_owned(), port };
        assert_eq!(hosts, [host("a.example.net", 27017), host("b.example.net", 27018)]);
        let unknown = asked(server, "other.example.net").unwrap_err();
        assert!(!unknown.is_empty());
    }

    #[test]
    fn a_host_of_another_domain_is_refused() {
        let server = dns("_mongodb._tcp.shop.example.net.", &[("a.example.net.", 1), ("a.example.org.", 1)]);
        let told = asked(server, "shop.example.net").unwrap_err();
        assert!(told.contains("`a.example.org`") && told.contains("outside the domain"), "{told}");
    }

    #[test]
    fn domains_are_compared_by_whole_parts() {
        for (host, name, of_it) in [
            ("a.example.net", "shop.example.net", true),
            ("A.Example.Net", "shop.example.net", true),
            ("deep.a.example.net", "shop.example.net", true),
            ("example.net", "shop.example.net", false),
            ("aexample.net", "shop.example.net", false),
            ("a.shop.example", "shop.example", true),
            ("a.example", "shop.example", false),
            ("shop.example", "shop.example", false),
        ] {
            assert_eq!(is_of_the_domain(host, name), of_it, "{host} of {name}");
        }
    }
}
