//! MariaDB compared with `LOAD DATA` and `mariadb-dump`, with the same documents in the same table.

use std::process::Command;
use std::time::Instant;

use super::postgres::figure;
use super::{Documents, Lab, TOPIC};
use crate::Failure;
use crate::figure::Figure;
use crate::options::Options;
use crate::rounds::interleave;
use crate::servers::{Server, child_cpu_us, program};

const DOCUMENTS: u64 = 200_000;
const TABLE: &str = "documents";

pub(super) fn measure(options: &Options, lab: &Lab) -> Result<Vec<Figure>, Failure> {
    let server = Server::start("mariadb", &[])?;
    let documents = Documents::new(options.work(DOCUMENTS), "1KiB")?;
    let lines = lab.lines(&documents)?;
    // As `LOAD DATA` reads them by default.
    let text = lab.tab_text(&documents)?;
    let client = |name: &str| -> Result<Command, Failure> {
        let mut command = program("mariadb", name)?;
        command.args(["--no-defaults", "-h127.0.0.1", "-ustorebench", "-pstorebench"]);
        command.arg(format!("-P{}", server.port));
        Ok(command)
    };
    let count = documents.count as f64;
    let timed = |command: &mut Command| {
        let begun = Instant::now();
        let (cpu_us, _) = child_cpu_us(command)?;
        Ok::<_, Failure>([count / begun.elapsed().as_secs_f64(), cpu_us / count])
    };
    let sql = |statement: &str| timed(client("mariadb")?.args(["--local-infile=1", "storebench", "-e", statement]));
    // Creates the table.
    lab.copy(&lines, &server.url, "--to-collection documents --durability fsync")?;
    let mut figures = Vec::new();
    if options.wants(TOPIC, "jsonl to mysql") {
        let mut ours = || {
            sql(&format!("TRUNCATE {TABLE}"))?;
            let done = lab.copy(&lines, &server.url, "--to-collection documents --durability fsync")?;
            Ok([done.documents / done.wall_s, done.cpu_us / count])
        };
        let mut theirs = || {
            sql(&format!("TRUNCATE {TABLE}"))?;
            let file = text.display();
            sql(&format!("LOAD DATA LOCAL INFILE '{file}' INTO TABLE {TABLE} CHARACTER SET utf8mb4 (`key`, `body`)"))
        };
        let all = interleave::<2>(options.rounds, vec![&mut ours, &mut theirs])?;
        let what = "jsonl to mysql: 1 KiB documents, one connection";
        figures.push(figure(what, &all, "LOAD DATA of its own format", 0.9)?);
    }
    if options.wants(TOPIC, "mysql to jsonl") {
        let (mine, their) = (lab.path("out.jsonl"), lab.path("out.sql"));
        let mut ours = || {
            let done = lab.copy(&server.url, &mine, "--from-collection documents --force")?;
            Ok([done.documents / done.wall_s, done.cpu_us / count])
        };
        let mut theirs = || {
            let result = format!("--result-file={}", their.display());
            timed(client("mariadb-dump")?.args(["--single-transaction", &result, "storebench", TABLE]))
        };
        let all = interleave::<2>(options.rounds, vec![&mut ours, &mut theirs])?;
        let what = "mysql to jsonl: 1 KiB documents, one connection";
        figures.push(figure(what, &all, "mariadb-dump to a file", 0.9)?);
    }
    Ok(figures)
}
