//! What a copy is asked to do, and where it begins.

use std::path::PathBuf;

use storebench_engine::store::{OpKind, RowsKind};
use storebench_results::{dated, redact_url};
use storebench_transfer::{
    Access, Begin, Expiry, KEY_FIELD, MergeBy, RetryPolicy, TheirExpiry, is_finished, is_unfinished, name_of,
    settings_of,
};

use super::settings::Settings;
use super::{guards, records};
use crate::args::CopyArgs;
use crate::endpoints::Endpoint;
use crate::failure::Failure;
use crate::processors;

/// What a copy is asked to do.
pub(super) struct Plan {
    /// The arguments, with the collection to read if the source has collections.
    pub(super) args: CopyArgs,
    pub(super) from: Endpoint,
    pub(super) to: Endpoint,
    /// Identifies this copy: the same arguments give the same id.
    pub(super) id: String,
    pub(super) parallel: u32,
    pub(super) settings: Settings,
    pub(super) to_collection: Option<String>,
    pub(super) merge: Option<MergeBy>,
    pub(super) expiry: Option<Expiry>,
    pub(super) their_expiry: TheirExpiry,
    /// Whether the copy is idempotent.
    pub(super) repeatable: bool,
}

/// How a copy starts, and the folder of its log.
pub(super) struct Begun {
    pub(super) folder: PathBuf,
    pub(super) begin: Begin,
    /// The unfinished copy to abandon.
    pub(super) given_up: Option<PathBuf>,
}

impl Plan {
    /// Asks the source for its collection if none is named. Accesses nothing else.
    ///
    /// # Errors
    /// The arguments contradict each other, or a collection has to be named.
    pub(super) fn of(args: CopyArgs) -> Result<Self, Failure> {
        let (from, to) = (Endpoint::of(&args.from)?, Endpoint::of(&args.to)?);
        let args = guards::with_collection(args, &from)?;
        let to_collection = match to {
            Endpoint::Store(..) => Some(to_collection(&args, &from)?),
            _ => None,
        };
        let settings = Settings::of(&args, to_collection.as_ref());
        let cwd = std::env::current_dir().unwrap_or_default();
        // The working folder is part of the id, because relative paths depend on it.
        let id = name_of(&format!("{:?} {}", settings.0, cwd.display()));
        let parallel = args.parallel.unwrap_or_else(processors);
        let (merge, expiry) = (records::merge(&args.records)?, records::expiry(&args.records)?);
        let their_expiry = their_expiry(&args, &from, &to);
        let repeatable = args.op.repeatable() && merge.is_none() && args.records.op_field.is_none();
        Ok(Self { args, from, to, id, parallel, settings, to_collection, merge, expiry, their_expiry, repeatable })
    }

    /// Timeout and retries.
    pub(super) fn access(&self) -> Access {
        let (tries, cap, total) = (self.args.tries, self.args.retry_cap.0, self.args.retry_total.0);
        Access { retry: RetryPolicy { tries, cap, total, ..RetryPolicy::default() }, timeout: self.args.timeout.0 }
    }

    /// The field that receives the key in target files.
    pub(super) fn key_field(&self) -> Option<String> {
        (!self.args.no_key_field).then(|| self.args.key_field.clone().unwrap_or_else(|| KEY_FIELD.to_owned()))
    }

    /// Where this copy continues or starts.
    pub(super) fn begin(&self) -> Result<Begun, Failure> {
        let args = &self.args;
        let folders: Vec<PathBuf> = std::fs::read_dir(&args.out)
            .into_iter()
            .flatten()
            .filter_map(Result::ok)
            .map(|entry| entry.path())
            .collect();
        let is_this = |path: &&PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.starts_with("copy-") && name.split('-').any(|part| part == self.id))
        };
        let unfinished = folders.iter().filter(|path| is_unfinished(path));
        let mut given_up = None;
        if let Some(folder) = unfinished.clone().find(is_this) {
            if args.resume {
                return Ok(Begun { folder: folder.clone(), begin: Begin::Resume, given_up: None });
            }
            if !args.restart && !args.dry_run {
                return Err(Failure::bad_input(format!(
                    "found an unfinished copy in {}; use --resume to continue or --restart to start over",
                    folder.display()
                )));
            }
            given_up = Some(folder.clone());
        } else if args.resume {
            for folder in unfinished {
                // What cannot be read may be this copy, and starting it again may apply its records a second time.
                let settings = settings_of(folder).map_err(|error| {
                    Failure::bad_input(format!("{error}, or, if it is of another copy, move its folder elsewhere"))
                })?;
                if let Some(flags) = self.settings.differs_from(&settings) {
                    return Err(Failure::bad_input(format!(
                        "the unfinished copy in {} was started with another {flags}; to resume it, use the same \
                         arguments in the same working folder",
                        folder.display()
                    )));
                }
            }
            if let (false, Some(folder)) =
                (self.repeatable, folders.iter().filter(is_this).find(|folder| is_finished(folder)))
            {
                return Err(Failure::bad_input(format!(
                    "the copy in {} has finished, and running it again would apply its records a second time; to do \
                     that, omit --resume",
                    folder.display()
                )));
            }
        }
        let stem = format!("{}-{}", dated("copy"), self.id);
        let name = |more: u32| args.out.join(if more == 1 { stem.clone() } else { format!("{stem}-{more}") });
        let folder = (1..).map(name).find(|folder| !folder.exists()).unwrap_or_else(|| name(1));
        Ok(Begun { folder, begin: Begin::Fresh, given_up })
    }
}

/// The collection to write, named by the arguments or by the source.
fn to_collection(args: &CopyArgs, from: &Endpoint) -> Result<String, Failure> {
    let as_read = || args.from_collection.clone().filter(|name| !name.contains(['.', ':', '/']));
    args.to_collection.clone().or_else(as_read).or_else(|| from.name()).ok_or_else(|| {
        let why = from.files().map_or_else(String::new, |files| {
            format!("{files} names no collection, because the name of a collection begins with a letter; ")
        });
        Failure::bad_input(format!(
            "{why}name the target collection of {} with --to-collection NAME",
            redact_url(&args.to)
        ))
    })
}

/// What to do with expiries that the source reports: keep them if the target supports expiry, and otherwise reject the
/// documents.
fn their_expiry(args: &CopyArgs, from: &Endpoint, to: &Endpoint) -> TheirExpiry {
    let (Endpoint::Store(_, from), Endpoint::Store(_, to), false) = (from, to, args.drop_expiry) else {
        return if args.drop_expiry { TheirExpiry::Dropped } else { TheirExpiry::Rejected };
    };
    let shown = from.capabilities().rows.iter().any(|kind| matches!(kind, RowsKind::Walk | RowsKind::Range));
    let known = to.capabilities().supports(OpKind::Touch).is_some();
    // In collections of the user's own, documents get no expiry there.
    let known = known && !(args.into_existing && matches!(to.describe().scheme, "mongodb" | "dynamodb"));
    let taken = args.op.expires();
    if shown && known && taken { TheirExpiry::Kept } else { TheirExpiry::Rejected }
}
