//! Runs requests on documents.

use super::cluster::Cluster;
use super::documents::{Document, Name, expires_s, split_key};
use super::durable::{Chance, Level, chance};
use super::packet::{Request, Response, be_u32, be_u64, opcode, status};
use super::subdoc;

/// The longest key in a user's collection, in bytes.
const LONGEST_KEY: usize = 246;
/// The longest key in the default collection.
const LONGEST_DEFAULT_KEY: usize = 250;
const COMPRESSED: u8 = 0x02;
const JSON: u8 = 0x01;
/// The expiry that means that a missing counter must not be created.
const NOT_TO_BE_MADE: u32 = u32::MAX;

/// The next step of a request.
#[derive(Debug)]
pub(super) enum Step {
    /// It has an answer.
    Answer(Response),
    /// Its durability cannot be met now. Try again until the durability timeout.
    Wait(u16, Name),
}

/// The negotiated features that operations need.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Agreed {
    pub collections: bool,
    pub mutation_tokens: bool,
    pub durability: bool,
    pub keeping_expiry: bool,
    pub json: bool,
    pub snappy: bool,
}

type Done = Result<Response, Response>;

fn fail<T>(status: u16) -> Result<T, Response> {
    Err(Response::status(status))
}

/// Runs a request on a node. `again` is set if it has already waited for its durability.
pub(super) fn execute(cluster: &mut Cluster, node: usize, agreed: Agreed, request: &Request, again: bool) -> Step {
    match prepare(cluster, node, agreed, request) {
        Err(response) => Step::Answer(response),
        Ok(name) => {
            let locked = cluster.under_way.contains(&(request.vbucket, name.clone()));
            if writes(request.opcode) && locked && !again {
                return Step::Answer(Response::status(status::SYNC_WRITE_IN_PROGRESS));
            }
            if let Some(code) = request.durability.filter(|code| *code != 0) {
                let Some(level) = Level::of(code).filter(|_| agreed.durability && writes(request.opcode)) else {
                    return Step::Answer(Response::status(status::DURABILITY_INVALID));
                };
                match chance(cluster, request.vbucket, level) {
                    Chance::Now => {}
                    Chance::Never => return Step::Answer(Response::status(status::DURABILITY_IMPOSSIBLE)),
                    Chance::Later => return Step::Wait(request.vbucket, name),
                }
            }
            if !again {
                cluster.operations += 1;
            }
            let (Ok(response) | Err(response)) = perform(cluster, agreed, request, &name);
            Step::Answer(response)
        }
    }
}

/// Makes the checks that all operations share: the key, its collection, its vbucket, the node.
fn prepare(cluster: &mut Cluster, node: usize, agreed: Agreed, request: &Request) -> Result<Name, Response> {
    if cluster.faults.temporary > 0 {
        cluster.faults.temporary -= 1;
        return fail(status::TEMPORARY);
    }
    if cluster.map.active(request.vbucket) != Some(node) {
        cluster.not_my_vbucket += 1;
        return Err(Response { status: status::NOT_MY_VBUCKET, ..Response::value(cluster.config(true)) });
    }
    if request.preserve_expiry && !agreed.keeping_expiry {
        return fail(status::INVALID);
    }
    let Some((collection, key)) =
        (if agreed.collections { split_key(&request.key) } else { Some((0, &request.key[..])) })
    else {
        return fail(status::INVALID);
    };
    if !cluster.has_collection(collection) {
        let context = format!("{{\"manifest_uid\":\"{:x}\"}}", cluster.manifest_uid);
        return Err(Response { status: status::UNKNOWN_COLLECTION, ..Response::value(context) });
    }
    let longest = if collection == 0 { LONGEST_DEFAULT_KEY } else { LONGEST_KEY };
    if key.is_empty() || key.len() > longest || cluster.map.vbucket(key) != request.vbucket {
        return fail(status::INVALID);
    }
    Ok((collection, key.to_vec()))
}

fn writes(opcode: u8) -> bool {
    matches!(
        opcode,
        opcode::SET
            | opcode::ADD
            | opcode::REPLACE
            | opcode::DELETE
            | opcode::INCREMENT
            | opcode::DECREMENT
            | opcode::APPEND
            | opcode::PREPEND
            | opcode::TOUCH
            | opcode::GET_AND_TOUCH
            | opcode::SUBDOC_MUTATE
    )
}

fn perform(cluster: &mut Cluster, agreed: Agreed, request: &Request, name: &Name) -> Done {
    let vbucket = request.vbucket;
    let active = cluster.map.active(vbucket).ok_or_else(|| Response::status(status::TEMPORARY))?;
    let found = cluster.nodes[active].copies.get(&vbucket).and_then(|copy| copy.get(name)).cloned();
    match request.opcode {
        opcode::GET => {
            let document = present(found, status::KEY_NOT_FOUND)?;
            let datatype = if agreed.json && document.is_json() { JSON } else { 0 };
            let extras = document.flags.to_be_bytes().to_vec();
            let (value, compressed) = match agreed.snappy {
                true => (snap::raw::Encoder::new().compress_vec(&document.value).unwrap_or_default(), COMPRESSED),
                false => (document.value, 0),
            };
            Ok(Response { cas: document.cas, datatype: datatype | compressed, extras, ..Response::value(value) })
        }
        opcode::GET_META => {
            let document = present(found, status::KEY_NOT_FOUND)?;
            let mut extras = [[0; 4], document.flags.to_be_bytes(), document.expires_s.to_be_bytes()].concat();
            extras.extend_from_slice(&document.seqno.to_be_bytes());
            extras.push(u8::from(document.is_json()));
            Ok(Response { cas: document.cas, extras, ..Response::default() })
        }
        opcode::SUBDOC_LOOKUP => {
            let document = present(found, status::KEY_NOT_FOUND)?;
            let specs = subdoc::specs(&request.value, false).ok_or_else(|| Response::status(status::INVALID))?;
            let (all, value) = subdoc::lookup(&document, &specs);
            let status = if all { status::SUCCESS } else { status::MULTI_PATH_FAILURE };
            Ok(Response { status, cas: document.cas, ..Response::value(value) })
        }
        opcode::DELETE => {
            let document = present(found, status::KEY_NOT_FOUND)?;
            check_cas(request, &document)?;
            commit(cluster, agreed, vbucket, name, None)
        }
        opcode::SET | opcode::ADD | opcode::REPLACE => store(cluster, agreed, request, name, found),
        opcode::APPEND | opcode::PREPEND => {
            let document = present(found, status::NOT_STORED)?;
            check_cas(request, &document)?;
            let added = contents(cluster, agreed, request)?;
            let parts =
                if request.opcode == opcode::APPEND { [document.value, added] } else { [added, document.value] };
            put(cluster, agreed, vbucket, name, Document { value: parts.concat(), ..document })
        }
        opcode::INCREMENT | opcode::DECREMENT => counter(cluster, agreed, request, name, found),
        opcode::TOUCH | opcode::GET_AND_TOUCH => {
            let mut document = present(found, status::KEY_NOT_FOUND)?;
            let expiry = be_u32(&request.extras, 0).ok_or_else(|| Response::status(status::INVALID))?;
            document.expires_s = expires_s(expiry);
            let (cas, _) = cluster.commit(vbucket, name, Some(document.clone()));
            if request.opcode == opcode::TOUCH {
                return Ok(Response { cas, ..Response::default() });
            }
            Ok(Response { cas, extras: document.flags.to_be_bytes().to_vec(), ..Response::value(document.value) })
        }
        opcode::SUBDOC_MUTATE => mutate(cluster, agreed, request, name, found),
        _ => fail(status::UNKNOWN_COMMAND),
    }
}

fn present(found: Option<Document>, otherwise: u16) -> Result<Document, Response> {
    found.ok_or_else(|| Response::status(otherwise))
}

fn check_cas(request: &Request, document: &Document) -> Result<(), Response> {
    if request.cas != 0 && request.cas != document.cas { fail(status::KEY_EXISTS) } else { Ok(()) }
}

/// The value of a request, decompressed.
fn contents(cluster: &mut Cluster, agreed: Agreed, request: &Request) -> Result<Vec<u8>, Response> {
    cluster.compressed += u64::from(request.datatype & COMPRESSED != 0);
    let value = if request.datatype & COMPRESSED == 0 {
        request.value.clone()
    } else if agreed.snappy {
        snap::raw::Decoder::new().decompress_vec(&request.value).map_err(|_| Response::status(status::INVALID))?
    } else {
        return fail(status::INVALID);
    };
    if value.len() > cluster.options.largest_value_bytes { fail(status::TOO_BIG) } else { Ok(value) }
}

fn store(cluster: &mut Cluster, agreed: Agreed, request: &Request, name: &Name, found: Option<Document>) -> Done {
    let (Some(flags), Some(expiry)) = (be_u32(&request.extras, 0), be_u32(&request.extras, 4)) else {
        return fail(status::INVALID);
    };
    match (&found, request.opcode) {
        (Some(_), opcode::ADD) => return fail(status::KEY_EXISTS),
        (None, opcode::REPLACE) => return fail(status::KEY_NOT_FOUND),
        (None, _) if request.cas != 0 => return fail(status::KEY_NOT_FOUND),
        (Some(document), _) => check_cas(request, document)?,
        (None, _) => {}
    }
    let value = contents(cluster, agreed, request)?;
    let kept = found.filter(|_| request.preserve_expiry).map(|document| document.expires_s);
    let expires_s = kept.unwrap_or_else(|| expires_s(expiry));
    put(cluster, agreed, request.vbucket, name, Document { value, flags, expires_s, ..Document::default() })
}

fn counter(cluster: &mut Cluster, agreed: Agreed, request: &Request, name: &Name, found: Option<Document>) -> Done {
    if request.extras.len() != 20 {
        return fail(status::INVALID);
    }
    let (delta, initial) = (be_u64(&request.extras[..8]), be_u64(&request.extras[8..16]));
    let expiry = be_u32(&request.extras, 16).unwrap_or(0);
    let (number, mut document) = match found {
        None if expiry == NOT_TO_BE_MADE => return fail(status::KEY_NOT_FOUND),
        None => (initial, Document { expires_s: expires_s(expiry), ..Document::default() }),
        Some(document) => {
            let text = std::str::from_utf8(&document.value).unwrap_or_default();
            let Ok(number) = text.parse::<u64>() else { return fail(status::BAD_DELTA) };
            let up = request.opcode == opcode::INCREMENT;
            (if up { number.wrapping_add(delta) } else { number.saturating_sub(delta) }, document)
        }
    };
    document.value = number.to_string().into_bytes();
    let mut response = put(cluster, agreed, request.vbucket, name, document)?;
    response.value = number.to_be_bytes().to_vec();
    Ok(response)
}

fn mutate(cluster: &mut Cluster, agreed: Agreed, request: &Request, name: &Name, found: Option<Document>) -> Done {
    let document = present(found, status::KEY_NOT_FOUND)?;
    check_cas(request, &document)?;
    let specs =
        subdoc::specs(&request.value, true).filter(|specs| !specs.is_empty() && specs.len() <= subdoc::MOST_PATHS);
    let specs = specs.ok_or_else(|| Response::status(status::INVALID))?;
    let value = subdoc::mutate(&document.value, &specs).map_err(|(position, status)| {
        let [high, low] = status.to_be_bytes();
        Response { status: status::MULTI_PATH_FAILURE, ..Response::value([position, high, low]) }
    })?;
    if value.len() > cluster.options.largest_value_bytes {
        return fail(status::TOO_BIG);
    }
    let expiry = be_u32(&request.extras, 0).unwrap_or(0);
    let expires_s = if request.preserve_expiry { document.expires_s } else { expires_s(expiry) };
    put(cluster, agreed, request.vbucket, name, Document { value, expires_s, ..document })
}

fn put(cluster: &mut Cluster, agreed: Agreed, vbucket: u16, name: &Name, document: Document) -> Done {
    if document.value.len() > cluster.options.largest_value_bytes {
        return fail(status::TOO_BIG);
    }
    commit(cluster, agreed, vbucket, name, Some(document))
}

fn commit(cluster: &mut Cluster, agreed: Agreed, vbucket: u16, name: &Name, document: Option<Document>) -> Done {
    let (cas, seqno) = cluster.commit(vbucket, name, document);
    let token = || [(0x1000 + u64::from(vbucket)).to_be_bytes(), seqno.to_be_bytes()].concat();
    let extras = if agreed.mutation_tokens { token() } else { Vec::new() };
    Ok(Response { cas, extras, ..Response::default() })
}
