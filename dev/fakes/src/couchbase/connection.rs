//! One connection of the data service: negotiation, login, and the requests that follow.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::cluster::Shared;
use super::documents::Name;
use super::operations::{Agreed, Step, execute};
use super::packet::{Request, Response, Unreadable, be_u64, opcode, status, write_map_changed};
use super::scram::{Hash, Login};

/// The polling interval of waiting tasks.
const LOOK_EVERY: Duration = Duration::from_millis(2);

mod feature {
    pub(super) const MUTATION_TOKENS: u16 = 0x04;
    pub(super) const SNAPPY: u16 = 0x0a;
    pub(super) const JSON: u16 = 0x0b;
    pub(super) const SYNC_REPLICATION: u16 = 0x11;
    pub(super) const COLLECTIONS: u16 = 0x12;
    pub(super) const KEEPING_EXPIRY: u16 = 0x14;
    pub(super) const MAP_CHANGES: u16 = 0x1f;
    /// The features that the fake supports.
    pub(super) const KNOWN: [u16; 18] = [
        0x01,
        0x03,
        MUTATION_TOKENS,
        0x06,
        0x07,
        0x08,
        SNAPPY,
        JSON,
        0x0c,
        0x0e,
        0x10,
        SYNC_REPLICATION,
        COLLECTIONS,
        0x13,
        KEEPING_EXPIRY,
        0x17,
        0x1d,
        MAP_CHANGES,
    ];
}

/// The state of a connection.
struct Connection {
    shared: Arc<Shared>,
    node: usize,
    encrypted: bool,
    agreed: Agreed,
    wants_map_changes: bool,
    login: Option<Login>,
    logged_in: bool,
    bucket: bool,
    /// Delayed answers.
    later: mpsc::UnboundedSender<Vec<u8>>,
}

/// Serves a connection until either side closes it.
pub(super) async fn serve<S>(stream: S, shared: Arc<Shared>, node: usize, encrypted: bool)
where
    S: AsyncRead + AsyncWrite + Send + 'static,
{
    let (mut reader, mut writer) = tokio::io::split(stream);
    let (later, mut answers) = mpsc::unbounded_channel::<Vec<u8>>();
    let mut closing = shared.closing[node].subscribe();
    let mut revision = shared.revision.subscribe();
    let mut connection = Connection {
        shared: Arc::clone(&shared),
        node,
        encrypted,
        agreed: Agreed::default(),
        wants_map_changes: false,
        login: None,
        logged_in: false,
        bucket: false,
        later,
    };
    let (mut stream, mut out) = (Vec::new(), Vec::new());
    let mut chunk = vec![0; 64 << 10];
    let work = async {
        loop {
            tokio::select! {
                read = reader.read(&mut chunk) => match read {
                    Ok(0) | Err(_) => return,
                    Ok(count) => stream.extend_from_slice(&chunk[..count]),
                },
                Some(answer) = answers.recv() => out.extend_from_slice(&answer),
                Ok(()) = revision.changed() => {
                    let revision = *revision.borrow_and_update();
                    if connection.wants_map_changes && connection.bucket {
                        write_map_changed(1, revision, &mut out);
                    }
                }
            }
            let mut from = 0;
            loop {
                match Request::read(&stream[from..]) {
                    Ok((request, bytes)) => {
                        from += bytes;
                        // Send earlier answers now, before waiting for a stalled request.
                        if connection.stalls(&request) {
                            if writer.write_all(&out).await.is_err() {
                                return;
                            }
                            out.clear();
                            connection.wait_while_stalled().await;
                        }
                        connection.take(request, &mut out);
                    }
                    Err(Unreadable::Partial) => break,
                    Err(Unreadable::NotThis) => return,
                }
            }
            stream.drain(..from);
            if !out.is_empty() && writer.write_all(&out).await.is_err() {
                return;
            }
            out.clear();
        }
    };
    tokio::select! {
        // A node that was stopped answers nothing more, also if a stall ends at the same time.
        biased;
        _ = closing.changed() => {}
        () = work => {}
    }
}

fn is_handshake(code: u8) -> bool {
    matches!(
        code,
        opcode::HELLO
            | opcode::SASL_LIST
            | opcode::SASL_AUTH
            | opcode::SASL_STEP
            | opcode::SELECT_BUCKET
            | opcode::GET_CLUSTER_CONFIG
            | opcode::GET_ERROR_MAP
            | opcode::GET_COLLECTION_ID
    )
}

impl Connection {
    fn stalls(&self, request: &Request) -> bool {
        !is_handshake(request.opcode) && self.shared.lock().faults.stalled
    }

    async fn wait_while_stalled(&self) {
        loop {
            let (stalled, up) = {
                let cluster = self.shared.lock();
                (cluster.faults.stalled, cluster.nodes[self.node].up)
            };
            if !stalled && up {
                return;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    fn take(&mut self, request: Request, out: &mut Vec<u8>) {
        let mut packet = Vec::new();
        if is_handshake(request.opcode) || request.opcode == opcode::NOOP {
            self.handshake(&request).write(request.opcode, request.opaque, &mut packet);
        } else if !self.logged_in {
            Response::status(status::NO_ACCESS).write(request.opcode, request.opaque, &mut packet);
        } else if !self.bucket {
            Response::status(status::NO_BUCKET).write(request.opcode, request.opaque, &mut packet);
        } else {
            let step = execute(&mut self.shared.lock(), self.node, self.agreed, &request, false);
            match step {
                Step::Answer(response) => response.write(request.opcode, request.opaque, &mut packet),
                Step::Wait(vbucket, name) => return self.wait(request, vbucket, name),
            }
        }
        if let Some((garbage, random)) = &mut self.shared.lock().faults.garbage {
            garbage.spoil(random, &mut packet);
        }
        out.extend_from_slice(&packet);
    }

    /// Answers a durable write when its copies can accept it, or at its timeout.
    fn wait(&self, request: Request, vbucket: u16, name: Name) {
        let (shared, later) = (Arc::clone(&self.shared), self.later.clone());
        let (node, agreed) = (self.node, self.agreed);
        let time = shared.lock().options.durability_timeout;
        shared.lock().under_way.insert((vbucket, name.clone()));
        tokio::spawn(async move {
            let deadline = Instant::now() + time;
            let response = loop {
                tokio::time::sleep(LOOK_EVERY).await;
                let step = execute(&mut shared.lock(), node, agreed, &request, true);
                match step {
                    Step::Answer(response) => break response,
                    Step::Wait(..) if Instant::now() >= deadline => {
                        break Response::status(status::SYNC_WRITE_AMBIGUOUS);
                    }
                    Step::Wait(..) => {}
                }
            };
            shared.lock().under_way.remove(&(vbucket, name));
            let mut packet = Vec::new();
            response.write(request.opcode, request.opaque, &mut packet);
            // Ignore clients that disconnected.
            let _ = later.send(packet);
        });
    }

    fn handshake(&mut self, request: &Request) -> Response {
        match request.opcode {
            opcode::HELLO => self.hello(&request.value),
            opcode::NOOP => Response::default(),
            opcode::GET_ERROR_MAP => Response::value(r#"{"version":2,"revision":1,"errors":{}}"#),
            opcode::SASL_LIST => {
                let plain = if self.encrypted { " PLAIN" } else { "" };
                Response::value(format!("SCRAM-SHA512 SCRAM-SHA256 SCRAM-SHA1{plain}"))
            }
            opcode::SASL_AUTH => self.sasl_auth(request),
            opcode::SASL_STEP => self.sasl_step(request),
            _ if !self.logged_in => Response::status(status::NO_ACCESS),
            opcode::SELECT_BUCKET => {
                self.bucket = request.key == self.shared.lock().options.bucket.as_bytes();
                Response::status(if self.bucket { status::SUCCESS } else { status::NO_ACCESS })
            }
            opcode::GET_CLUSTER_CONFIG => self.config(request),
            opcode::GET_COLLECTION_ID if self.agreed.collections => self.collection_id(&request.value),
            _ => Response::status(status::UNKNOWN_COMMAND),
        }
    }

    fn hello(&mut self, asked: &[u8]) -> Response {
        let asked = asked.chunks_exact(2).map(|code| u16::from_be_bytes([code[0], code[1]]));
        let lacks = self.shared.lock().options.lacks;
        let has = |code: &u16| match *code {
            feature::COLLECTIONS => !lacks.collections,
            feature::SYNC_REPLICATION => !lacks.durable_writes,
            feature::KEEPING_EXPIRY => !lacks.keeping_expiry,
            feature::SNAPPY => !lacks.snappy,
            code => feature::KNOWN.contains(&code),
        };
        let agreed: Vec<u16> = asked.filter(has).collect();
        let has = |code| agreed.contains(&code);
        self.agreed = Agreed {
            collections: has(feature::COLLECTIONS),
            mutation_tokens: has(feature::MUTATION_TOKENS),
            durability: has(feature::SYNC_REPLICATION),
            keeping_expiry: has(feature::KEEPING_EXPIRY),
            json: has(feature::JSON),
            snappy: has(feature::SNAPPY),
        };
        self.wants_map_changes = has(feature::MAP_CHANGES);
        Response::value(agreed.iter().flat_map(|code| code.to_be_bytes()).collect::<Vec<u8>>())
    }

    fn sasl_auth(&mut self, request: &Request) -> Response {
        self.logged_in = false;
        if request.key == b"PLAIN" && self.encrypted {
            let cluster = self.shared.lock();
            let expected = format!("\0{}\0{}", cluster.options.user, cluster.options.password);
            self.logged_in = request.value == expected.as_bytes();
            return Response::status(if self.logged_in { status::SUCCESS } else { status::AUTH_ERROR });
        }
        let nonce = format!("{:x}", self.shared.lock().next_cas());
        let begun = Hash::of(&request.key).and_then(|hash| Login::begin(hash, &request.value, &nonce));
        match begun {
            None => Response::status(status::AUTH_ERROR),
            Some((login, answer)) => {
                self.login = Some(login);
                Response { status: status::AUTH_CONTINUE, ..Response::value(answer) }
            }
        }
    }

    fn sasl_step(&mut self, request: &Request) -> Response {
        let cluster = self.shared.lock();
        let login = self.login.take();
        let proof = login.and_then(|l| l.finish(&request.value, &cluster.options.user, &cluster.options.password));
        self.logged_in = proof.is_some();
        proof.map_or_else(|| Response::status(status::AUTH_ERROR), Response::value)
    }

    fn config(&self, request: &Request) -> Response {
        let cluster = self.shared.lock();
        if request.extras.len() == 16 {
            let known = (be_u64(&request.extras[..8]) as i64, be_u64(&request.extras[8..]) as i64);
            if known >= (cluster.epoch, cluster.revision) {
                return Response::default();
            }
        }
        Response { datatype: 1, ..Response::value(cluster.config(self.bucket)) }
    }

    fn collection_id(&self, path: &[u8]) -> Response {
        let cluster = self.shared.lock();
        let path = std::str::from_utf8(path).unwrap_or_default();
        let (scope, collection) = path.split_once('.').unwrap_or_default();
        if !self.bucket {
            return Response::status(status::NO_BUCKET);
        }
        if !cluster.scopes.iter().any(|s| s.name == scope) {
            return Response::status(status::UNKNOWN_SCOPE);
        }
        match cluster.collection_uid(scope, collection) {
            None => Response::status(status::UNKNOWN_COLLECTION),
            Some(uid) => {
                let mut extras = cluster.manifest_uid.to_be_bytes().to_vec();
                extras.extend_from_slice(&uid.to_be_bytes());
                Response { extras, ..Response::default() }
            }
        }
    }
}
