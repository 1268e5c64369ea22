//! `docs/choosing-a-store.md`, word for word, on two real servers.

use std::process::Command;

use crate::common::Cli;
use crate::server::Server;

/// The blocks of commands, in order.
fn blocks() -> Vec<String> {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/choosing-a-store.md");
    let page = std::fs::read_to_string(page).unwrap();
    let after = page.split("```sh\n").skip(1);
    after.map(|rest| rest.split_once("\n```").unwrap().0.to_owned()).collect()
}

#[test]
fn every_command_of_the_page_runs_as_it_is() {
    let [postgres, redis] = ["postgres", "redis"].map(Server::start);
    let cli = Cli::new();
    let cities = ["Lima", "Oslo", "Rome"];
    let orders: String = (0..3_000)
        .map(|i| {
            let (city, price) = (cities[i * i % 7 % 3], (i * 37 % 1_000) as f64 / 10.0);
            format!(
                "{{\"order\":{i},\"city\":\"{city}\",\"price\":{price},\"note\":\"order number {i} of the year\"}}\n"
            )
        })
        .collect();
    cli.write("orders.jsonl", &orders);
    let program = cli.command(&[]);
    let folder = std::path::Path::new(program.get_program()).parent().unwrap().to_owned();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let blocks = blocks();
    assert_eq!(blocks.len(), 6, "{blocks:#?}");
    let mut said = Vec::new();
    for block in &blocks {
        let mut shell = Command::new("sh");
        shell.args(["-e", "-c", block]).current_dir(cli.folder.path());
        shell.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
        shell.env("PATH", &path).env("POSTGRES", &postgres.url).env("REDIS", &redis.url);
        let done = shell.output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        // A busy machine may make the measurement invalid, which is a result as well.
        let runs = block.starts_with("storebench run");
        let fine = done.status.success() || runs && done.status.code() == Some(4);
        assert!(fine, "{block}\n{out}{err}");
        said.push(out.into_owned());
    }
    assert!(said[0].contains("figures are within 10 %"), "{}", said[0]);
    assert!(said[3].contains("guarantees\n  postgres") && said[3].contains("EUR"), "{}", said[3]);
    assert!(said[4].contains("ops/s in limits") && said[4].contains("report   "), "{}", said[4]);
    assert!(said[5].contains("per month") && said[5].contains("within limit"), "{}", said[5]);
}
