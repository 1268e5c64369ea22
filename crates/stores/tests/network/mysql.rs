//! Tests of the `mysql` driver with MariaDB.

#[path = "mysql/faults.rs"]
mod faults;
#[path = "mysql/foreign_data.rs"]
mod foreign_data;
#[path = "mysql/guarantees.rs"]
mod guarantees;
#[path = "mysql/operations.rs"]
mod operations;

use std::process::{Command, Stdio};

use crate::server::Server;

/// A server that syncs nothing, and says so. For tests of many writes that claim nothing about what is on the disk.
pub(crate) fn quick() -> Server {
    Server::start_with(
        "mariadb",
        &[
            "--option=innodb-flush-log-at-trx-commit=0",
            "--option=innodb-flush-method=nosync",
            "--option=innodb-doublewrite=OFF",
            "--option=debug-no-sync",
        ],
    )
}

/// The client `mariadb` of the server's package, on its database.
fn client(server: &Server) -> Command {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../servers/where");
    let ask = |arguments: &[&str]| {
        let done = Command::new(script).args(arguments).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap().trim().to_owned()
    };
    let mut client = Command::new(format!("{}/usr/bin/mariadb", ask(&["mariadb"])));
    client.env("LD_LIBRARY_PATH", ask(&["mariadb", "--libraries"])).env("MYSQL_PWD", "storebench");
    client.args(["--no-defaults", "-h127.0.0.1", "-ustorebench", "-N", "-B", "--raw", "storebench"]);
    client.arg(format!("-P{}", server.port)).stdin(Stdio::null());
    client
}

/// Runs statements, and returns their rows as text.
fn sql(server: &Server, statements: &str) -> String {
    let done = client(server).arg(format!("-e{statements}")).output().unwrap();
    assert!(done.status.success(), "{statements}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap().trim().to_owned()
}
