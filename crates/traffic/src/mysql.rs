//! The general log of MariaDB and MySQL: the time, the number of the connection, a command, and its text, which may go over
//! several lines (<https://mariadb.com/kb/en/general-query-log/>). MariaDB writes the time only when another second begins.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;

use super::postgres::{Entry, Server, add, parse};
use super::{Error, Finds, Options, lines, rfc3339_ns};

const NOT_UTF8: &str = "a statement that is not UTF-8";

/// What is known at a line.
#[derive(Default)]
struct Log {
    at_ns: Option<i64>,
    /// The database of each connection.
    databases: HashMap<String, String>,
    /// The statement whose further lines may follow.
    pending: Option<Entry>,
}

/// Reads a log.
pub(crate) fn read(file: &Path, options: &Options, finds: &mut Finds) -> Result<(), Error> {
    let mut log = Log::default();
    // Names of columns have no case.
    let options = &Options { key: options.key.as_ref().map(|key| key.to_lowercase()), ..options.clone() };
    lines::each(file, finds, |line, finds| {
        let line = String::from_utf8_lossy(line);
        let is_utf8 = matches!(line, Cow::Borrowed(_));
        let Some(Head { at_ns, client, command, text }) = head(&line) else {
            match &mut log.pending {
                Some(pending) if is_utf8 => {
                    pending.message.push('\n');
                    pending.message.push_str(&line);
                }
                Some(_) => {
                    log.pending = None;
                    finds.leave_out(NOT_UTF8);
                }
                None => {}
            }
            return Ok(());
        };
        log.end(options, finds);
        log.at_ns = at_ns.or(log.at_ns);
        let client = client.to_owned();
        match command {
            "Query" | "Execute" if !is_utf8 => finds.leave_out(NOT_UTF8),
            "Query" | "Execute" => match log.at_ns {
                Some(at_ns) => {
                    let message = text.to_owned();
                    log.pending = Some(Entry { at_ns, client, message, detail: None, line: finds.line });
                }
                None => finds.leave_out("a statement before the first time of the log"),
            },
            // `user@host on database using TCP/IP`, or without the end
            "Connect" | "Change user" => {
                let database =
                    text.split_once(" on ").map_or("", |(_, rest)| rest.split(" using ").next().unwrap_or(rest));
                log.databases.insert(client, database.to_owned());
            }
            "Init DB" => {
                log.databases.insert(client, text.to_owned());
            }
            _ => {}
        }
        Ok(())
    })?;
    log.end(options, finds);
    Ok(())
}

impl Log {
    /// Takes the statement whose last line was read.
    fn end(&mut self, options: &Options, finds: &mut Finds) {
        let Some(entry) = self.pending.take() else { return };
        let now = std::mem::replace(&mut finds.line, entry.line);
        if let Some(database) = used(&entry.message) {
            self.databases.insert(entry.client.clone(), database);
        }
        let database = self.databases.get(&entry.client).filter(|database| !database.is_empty());
        for mut statement in parse(&entry.message, Server::Mysql) {
            if let Some(database) = database.filter(|_| !statement.table.is_empty() && !statement.table.contains('.')) {
                statement.table = format!("{database}.{}", statement.table);
            }
            add(&statement.unless_catalog(Server::Mysql), &[], &entry, options, finds);
        }
        finds.line = now;
    }
}

/// The database of `USE database`.
fn used(sql: &str) -> Option<String> {
    let (word, name) = sql.trim().split_once(char::is_whitespace)?;
    let name = name.trim_matches(|c: char| c.is_whitespace() || c == ';');
    let quoted = name.strip_prefix('`').and_then(|name| name.strip_suffix('`'));
    word.eq_ignore_ascii_case("use").then(|| quoted.map_or_else(|| name.to_owned(), |name| name.replace("``", "`")))
}

/// The first line of an entry.
struct Head<'l> {
    at_ns: Option<i64>,
    client: &'l str,
    command: &'l str,
    text: &'l str,
}

/// Reads it; `None` for a line that continues an entry, or is none.
fn head(line: &str) -> Option<Head<'_>> {
    let (time, rest) = line.split_once('\t')?;
    let (at_ns, rest) = if time.is_empty() { (None, rest.strip_prefix('\t')?) } else { (Some(time_ns(time)?), rest) };
    let (client, text) = rest.split_once('\t')?;
    let (client, command) = client.trim_start().split_once(' ')?;
    client.bytes().all(|byte| byte.is_ascii_digit()).then_some(Head { at_ns, client, command, text })
}

/// A time of MySQL, or one of MariaDB (`261130 17:08:17`), which does not tell its zone.
fn time_ns(text: &str) -> Option<i64> {
    rfc3339_ns(text).or_else(|| {
        let (date, time) = text.split_once(' ')?;
        let [year, month, day] = [0..2, 2..4, 4..6].map(|part| date.get(part).unwrap_or_default());
        rfc3339_ns(&format!("20{year}-{month}-{day}T{:0>8}Z", time.trim_start()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Source, read};

    /// Its operations, with the milliseconds since the first one.
    fn shown(text: impl AsRef<[u8]>) -> (Vec<String>, crate::Trace) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("general.log");
        std::fs::write(&file, text).unwrap();
        let trace = read(Source::Mysql, &[file], &Options::default()).unwrap_or_else(|error| panic!("{}", error.0));
        let ms = |of: &crate::Operation| (of.at_ns - trace.operations[0].at_ns) / 1_000_000;
        let show =
            |of: &crate::Operation| format!("{} {} {} c{} {}", ms(of), of.op, of.key, of.client, of.size.unwrap_or(0));
        (trace.operations.iter().map(show).collect(), trace)
    }

    #[test]
    fn a_log_of_mariadb() {
        let log = "/usr/sbin/mariadbd, Version: 10.11.19-MariaDB. started with:\n\
            Tcp port: 3306  Unix socket: \n\
            Time\t\t    Id Command\tArgument\n\
            261130  7:08:18\t    34 Connect\tme@localhost on shop using TCP/IP\n\
            \t\t    34 Query\tSET NAMES utf8mb4\n\
            \t\t    34 Prepare\tSELECT body FROM docs WHERE `key` = ?\n\
            \t\t    34 Execute\tSELECT body FROM docs WHERE `key` = 'it''s \\\\ \\\"a\\\"'\n\
            \t\t    35 Connect\tme@localhost on  using TCP/IP\n\
            \t\t    35 Execute\tINSERT INTO `shop`.`docs` (`key`, body) VALUES ('b','{\\\"n\\\": 1}') ON DUPLICATE KEY UPDATE body = VALUES(body)\n\
            261130  7:08:20\t    34 Query\tselect 1\n\
            from docs\n\
            where `key` = \"c\"\n\
            \t\t    34 Query\tREPLACE INTO docs (`key`, body) VALUES ('d', '{}')\n\
            \t\t    34 Query\tDELETE FROM docs WHERE `key` IN ('e', 'f')\n\
            \t\t    35 Init DB\tshop\n\
            \t\t    35 Query\tUPDATE docs SET body = '[]' WHERE `key` = 'g'\n\
            \t\t    35 Query\tSELECT TABLE_NAME FROM information_schema.TABLES\n\
            \t\t    35 Query\tSELECT body FROM docs WHERE n IN (1, 2) AND `key` = 'h'\n\
            \t\t    35 Quit\t\n";
        let (shown, trace) = shown(log);
        assert_eq!(trace.within.as_deref(), Some("shop.docs"));
        // The seconds are spread.
        let expected = [
            "0 read it's \\ \"a\" c1 0",
            "500 upsert b c2 8",
            "2000 exists c c1 0",
            "2200 upsert d c1 2",
            "2400 delete e c1 0",
            "2600 delete f c1 0",
            "2800 replace g c2 2",
        ];
        assert_eq!(shown, expected);
        let left: Vec<(&str, u64)> = trace.left_out.iter().map(|(why, left)| (why.as_str(), left.count)).collect();
        let ours = "SELECT of docs that is not by one key";
        assert_eq!(left, [(ours, 1), ("SET", 1), ("a statement about the server's own tables", 1)]);
    }

    #[test]
    fn names_databases_and_bytes_are_as_the_server_takes_them() {
        let mut log = b"2026-11-30T17:08:18.100000Z\t    8 Connect\tme@localhost on  using TCP/IP\n\
            2026-11-30T17:08:18.100000Z\t    8 Query\tuse `shop`;\n\
            2026-11-30T17:08:18.200000Z\t    8 Query\tSELECT Body FROM Docs\nWHERE `Key` = 'a'\n\
            2026-11-30T17:08:18.201000Z\t    8 Query\tINSERT INTO Docs (KEY1, b) VALUES ('\xff', '')\n\
            2026-11-30T17:08:18.202000Z\t    8 Query\tINSERT INTO Docs (KEY1, b) VALUES ('b',\n'\xff\n\xff')\n\
            2026-11-30T17:08:18.203000Z\t    8 Change user\tme@localhost on mysql\n\
            2026-11-30T17:08:18.204000Z\t    8 Query\tSELECT * FROM user WHERE `key` = 'x'\n\
            2026-11-30T17:08:18.205000Z\t    8 Query\tSELECT body FROM `shop`.`Docs` WHERE `key` = 'c'\n"
            .to_vec();
        log.extend(b"2026-11-30T17:08:18.206000Z\t    8 Query\tSELECT body FROM shop.Docs WHERE `KEY` = 'd'\n");
        let (shown, trace) = shown(log);
        assert_eq!(trace.within.as_deref(), Some("shop.Docs"));
        assert_eq!(shown, ["0 read a c1 0", "5 read c c1 0", "6 read d c1 0"]);
        let left: Vec<(&str, u64)> = trace.left_out.iter().map(|(why, left)| (why.as_str(), left.count)).collect();
        assert_eq!(left, [("USE", 1), ("a statement about the server's own tables", 1), (NOT_UTF8, 2)]);
        let pg = "2026-11-30T17:08:18.100000Z\t    8 Query\tSELECT a FROM shop.pg_notes WHERE id = 7\n";
        assert_eq!(super::tests::shown(pg).0, ["0 read 7 c1 0"], "another server's catalog");
    }

    #[test]
    fn a_log_of_mysql_has_each_time() {
        let log = "2026-11-30T17:08:18.100000Z\t    8 Init DB\tshop\n\
            2026-11-30T17:08:18.200000Z\t    8 Query\tSELECT body FROM docs WHERE id = 7\n\
            2026-11-30T17:08:18.203000Z\t    9 Execute\tINSERT INTO shop.docs VALUES (8, '{}')\n";
        assert_eq!(shown(log).0, ["0 read 7 c1 0", "3 insert 8 c2 2"]);
    }
}
