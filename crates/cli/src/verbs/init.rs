//! `init [STORE…]`: writes a commented study file, to change and run.

use std::io::{IsTerminal as _, Write as _};

use storebench_study::workload::{Stores, Study};
use toml_edit::Value;

use crate::args::InitArgs;
use crate::bench_study::absolute;
use crate::failure::Failure;
use crate::outputs::{refuse_existing, write_or_print};
use crate::progress::line;
use crate::stores;

/// The default stores. They need no server.
const STORES: [&str; 2] = ["sqlite:first-study.db", "fjall:first-study.fjall"];

pub(crate) fn init(args: &InitArgs) -> Result<u8, Failure> {
    let to_stdout = args.output.as_os_str() == "-";
    if !to_stdout {
        refuse_existing(&args.output, args.force)?;
    }
    let given = match args.stores.as_slice() {
        [] if std::io::stdin().is_terminal() => asked()?,
        [] => STORES.map(str::to_owned).to_vec(),
        stores => stores.to_vec(),
    };
    let text = text(args, &given)?;
    // The study must be able to run, so an invalid URL is reported now.
    stores::open_all(&Study::parse(&text, &args.output, &[])?)?;
    write_or_print(&args.output, &text, args.force)?;
    if !to_stdout {
        line(&format!("next: read it, then `storebench run {}`", args.output.display()));
    }
    Ok(0)
}

/// Asks for stores.
fn asked() -> Result<Vec<String>, Failure> {
    let failed = |error: std::io::Error| {
        Failure::bad_input(format!("cannot ask for the stores: {error}; give them as arguments"))
    };
    let mut err = std::io::stderr();
    write!(err, "Stores to compare, separated by spaces [{}]: ", STORES.join(" ")).map_err(failed)?;
    err.flush().map_err(failed)?;
    let mut typed = String::new();
    std::io::stdin().read_line(&mut typed).map_err(failed)?;
    let stores: Vec<String> = typed.split_whitespace().map(str::to_owned).collect();
    Ok(if stores.is_empty() { STORES.map(str::to_owned).to_vec() } else { stores })
}

/// The text of the study file.
fn text(args: &InitArgs, stores: &[String]) -> Result<String, Failure> {
    let named = Stores::from_entries(stores).map_err(Failure::bad_input)?.0;
    // The names of a list are chosen by Storebench.
    let stores = match named.values().eq(stores) {
        true => Value::from_iter(stores),
        false => Value::from_iter(named),
    };
    let file = args.output.display();
    let documents = match &args.from {
        Some(from) => format!(
            "from  = {}   # a JSON object on each line\n\
             # key = \"{{id}}\"                  # the key of a document: fields in braces; without it, its number\n",
            Value::from(absolute(from)?.display().to_string())
        ),
        None => format!(
            "count       = {}\n\
             size        = {}\n\
             key         = \"docs/{{index:08}}\"      # docs/00000000, docs/00000001, …\n\
             compress_to = 0.4                     # zstd compresses to 40 %, as with ordinary JSON\n\
             fields      = {{ name = {{ words = 2 }}, stars = {{ integer = [1, 5] }}, body = {{ text = \"fill\" }} }}\n",
            args.count.0, args.size.0
        ),
    };
    let rate = match args.rate {
        Some(rate) => format!(
            "rate       = {}                    # open loop: operations start on schedule, however slow the answers\n",
            rate.0
        ),
        None => {
            "# rate     = 1_000                  # open loop: operations start on schedule, however slow the answers\n"
                .to_owned()
        }
    };
    Ok(format!(
        "# A study: which documents, what is done with them, on which stores.\n\
         #\n\
         #   storebench plan {file}     what it does, how long it takes, how much disk it needs\n\
         #   storebench run {file}      measures, and writes a report into storebench-runs/\n\
         #\n\
         # Every key is described in docs/study-file.md.\n\
         \n\
         title   = \"Reads and updates by key\"\n\
         seed    = 1                           # the same seed gives the same documents and keys\n\
         repeats = 3                           # rounds: each store is measured once in each\n\
         stores  = {stores}\n\
         \n\
         [collections.docs]\n\
         {documents}\n\
         [[phases]]\n\
         name       = \"load\"                   # writes every document once\n\
         load       = [\"docs\"]\n\
         \n\
         [[phases]]\n\
         name       = \"warm-up\"                # fills caches; not part of the result\n\
         mix        = {{ read = 80, update = 20 }}\n\
         popularity = \"zipf:0.99\"\n\
         duration   = \"5s\"\n\
         warm_up    = true\n\
         \n\
         [[phases]]\n\
         name       = \"mixed\"\n\
         mix        = {{ read = 80, update = 20 }}  # weights\n\
         popularity = \"zipf:0.99\"              # a few keys are used much more often than the rest\n\
         workers    = 2                        # threads\n\
         {rate}\
         duration   = \"30s\"\n\
         \n\
         # [factors]                           # measure several values of a setting:\n\
         # \"phases.mixed.workers\" = [1, 2, 4]\n\
         \n\
         # [limits]                            # limits to meet; `storebench run` reports whether they were met:\n\
         # \"mixed.service.p99\" = \"10ms\"\n"
    ))
}
