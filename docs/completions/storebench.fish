# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_storebench_global_optspecs
    string join \n h/help V/version
end

function __fish_storebench_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_storebench_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_storebench_using_subcommand
    set -l cmd (__fish_storebench_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c storebench -n "__fish_storebench_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c storebench -n "__fish_storebench_needs_command" -s V -l version -d 'Print version'
complete -c storebench -n "__fish_storebench_needs_command" -f -a "init" -d 'Write a commented study file for your stores, to change and run'
complete -c storebench -n "__fish_storebench_needs_command" -f -a "run" -d 'Run a study on its stores and check the results'
complete -c storebench -n "__fish_storebench_needs_command" -f -a "bench" -d 'Measure one store quickly, without a study file'
complete -c storebench -n "__fish_storebench_needs_command" -f -a "merge" -d 'Merge the parts of a run into one run folder'
complete -c storebench -n "__fish_storebench_needs_command" -f -a "compare" -d 'Compare the configurations of one run, or sets of runs, with 95 % intervals'
complete -c storebench -n "__fish_storebench_needs_command" -f -a "history" -d 'Keep the figures of runs over months, and find the run with which one became worse'
complete -c storebench -n "__fish_storebench_needs_command" -f -a "report" -d 'Create the report of a run again, or one report of several runs'
complete -c storebench -n "__fish_storebench_needs_command" -f -a "pack" -d 'Pack a run into one file that others can check and repeat'
complete -c storebench -n "__fish_storebench_needs_command" -f -a "rerun" -d 'Repeat the run of a bundle here, and say whether its result reproduces'
complete -c storebench -n "__fish_storebench_needs_command" -f -a "gallery" -d 'Make a static site of a folder of bundles'
complete -c storebench -n "__fish_storebench_needs_command" -f -a "copy" -d 'Copy documents between files and stores, in parallel and without losing any'
complete -c storebench -n "__fish_storebench_needs_command" -f -a "generate" -d 'Write a study\'s documents as JSON lines'
complete -c storebench -n "__fish_storebench_needs_command" -f -a "infer" -d 'Describe a collection that generates documents like a sample'
complete -c storebench -n "__fish_storebench_needs_command" -f -a "trace" -d 'Make a trace from the logs of a store, to replay it'
complete -c storebench -n "__fish_storebench_needs_command" -f -a "verify" -d 'Read every document back and compare it with the expected content'
complete -c storebench -n "__fish_storebench_needs_command" -f -a "check" -d 'Judge a history of reads and writes: whether some order explains what each client saw'
complete -c storebench -n "__fish_storebench_needs_command" -f -a "plan" -d 'Show the documents, trials, time and disk space of a study, without touching anything'
complete -c storebench -n "__fish_storebench_needs_command" -f -a "stores" -d 'List the stores: URLs, options, operations, and the settings behind each guarantee'
complete -c storebench -n "__fish_storebench_needs_command" -f -a "studies" -d 'List the built-in studies: what each shows, its presets, and flaws of the original'
complete -c storebench -n "__fish_storebench_needs_command" -f -a "conform" -d 'Check that a store behaves as Storebench expects of every store'
complete -c storebench -n "__fish_storebench_needs_command" -f -a "doctor" -d 'Check this machine for what would spoil a measurement'
complete -c storebench -n "__fish_storebench_needs_command" -f -a "host" -d 'Host an embedded store in this process, for other processes on this machine'
complete -c storebench -n "__fish_storebench_needs_command" -f -a "completions" -d 'Print a shell\'s completion script'
complete -c storebench -n "__fish_storebench_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c storebench -n "__fish_storebench_using_subcommand init" -s o -l output -d 'File to write, or `-` for stdout' -r -F
complete -c storebench -n "__fish_storebench_using_subcommand init" -l from -d 'Use your own documents: a file of JSON lines' -r -F
complete -c storebench -n "__fish_storebench_using_subcommand init" -l count -d 'Number of synthetic documents' -r
complete -c storebench -n "__fish_storebench_using_subcommand init" -l size -d 'Size of a synthetic document' -r
complete -c storebench -n "__fish_storebench_using_subcommand init" -l rate -d 'Operations per second (open loop) [default: as fast as the store answers]' -r
complete -c storebench -n "__fish_storebench_using_subcommand init" -l force -d 'Overwrite the file'
complete -c storebench -n "__fish_storebench_using_subcommand init" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c storebench -n "__fish_storebench_using_subcommand run" -l preset -d 'Use one of the study\'s presets, such as laptop' -r
complete -c storebench -n "__fish_storebench_using_subcommand run" -l set -d 'Change one value of the study, such as phases.mixed.rate=500; repeatable' -r
complete -c storebench -n "__fish_storebench_using_subcommand run" -l scale -d 'Multiply the number of documents by this factor [default: the preset\'s, or 1]' -r
complete -c storebench -n "__fish_storebench_using_subcommand run" -l store -d 'Measure this store instead of the study\'s stores; repeatable' -r
complete -c storebench -n "__fish_storebench_using_subcommand run" -l durability -d 'Durability of acknowledged writes, at least: none, os, fsync or majority [default: the study\'s, or else the strongest of fsync, os and none that the store guarantees]' -r
complete -c storebench -n "__fish_storebench_using_subcommand run" -l resume -d 'Resume the run in this folder: keep completed trials and run the rest' -r -F
complete -c storebench -n "__fish_storebench_using_subcommand run" -l prices -d 'Compute costs with this price sheet (TOML); see docs/cost.md' -r -F
complete -c storebench -n "__fish_storebench_using_subcommand run" -l part -d 'Run only this part of the study, such as 2/8, into the folder --out, which is new for each run' -r
complete -c storebench -n "__fish_storebench_using_subcommand run" -l start-at -d 'When the first phase begins, such as 2026-11-26T10:00:00Z or @1795687200; PHASE= for a later phase; repeatable' -r
complete -c storebench -n "__fish_storebench_using_subcommand run" -l out -d 'Folder in which to create a folder for each run' -r -F
complete -c storebench -n "__fish_storebench_using_subcommand run" -l live -d 'Serve the report during the run, at an address such as 127.0.0.1:8080' -r
complete -c storebench -n "__fish_storebench_using_subcommand run" -l metrics -d 'Serve metrics for Prometheus during the run at this address, or push them to otlp+http://HOST:PORT' -r
complete -c storebench -n "__fish_storebench_using_subcommand run" -l skip-unsupported -d 'On each store, leave out what it does not support'
complete -c storebench -n "__fish_storebench_using_subcommand run" -l keep -d 'Keep the documents that Storebench loaded before'
complete -c storebench -n "__fish_storebench_using_subcommand run" -l compare-answers -d 'Compare what the stores answer to each operation of a replayed trace'
complete -c storebench -n "__fish_storebench_using_subcommand run" -l manage-servers -d 'Run the study\'s commands that start, stop and kill servers'
complete -c storebench -n "__fish_storebench_using_subcommand run" -l into-existing -d 'Add to a database that contains your own data'
complete -c storebench -n "__fish_storebench_using_subcommand run" -l discard-existing -d 'Delete data that `storebench copy` wrote, and start empty'
complete -c storebench -n "__fish_storebench_using_subcommand run" -l remove-after -d 'At the end, remove from the store what studies created'
complete -c storebench -n "__fish_storebench_using_subcommand run" -l anyway -d 'Start even if `plan` estimates too little disk space or too much time'
complete -c storebench -n "__fish_storebench_using_subcommand run" -l full -d 'Print everything: each check with its advice, each phase, sweeps, costs and published claims'
complete -c storebench -n "__fish_storebench_using_subcommand run" -l json -d 'Print the result as one JSON document instead of the summary'
complete -c storebench -n "__fish_storebench_using_subcommand run" -s q -l quiet -d 'Do not show progress on stderr'
complete -c storebench -n "__fish_storebench_using_subcommand run" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l docs -d 'Number of documents [default: 100k; with --from, every line]' -r
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l size -d 'Size of each document [default: 1KiB]' -r
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l compress-to -d 'Compressed size with zstd as a share of the original, or none [default: 0.4; below 200 B, none]' -r
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l existing -d 'Measure documents already in the store, in this table, bucket, database or collection' -r
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l existing-key -d 'With --existing: field or column with the key, unless the store fixes it' -r
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l existing-body -d 'With --existing: field or column with the document, unless the store fixes it' -r
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l sample -d 'With --existing: number of keys to sample [default: 100k]' -r
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l from -d 'Use your own documents from a JSONL file (plain, .gz or .zst)' -r -F
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l without -d 'With --from: leave these top-level fields out of the documents, such as \'_id\'' -r
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l key -d 'Key template, such as \'{country}-{id}\' or \'doc/{index}\'' -r
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l seed -d 'Seed for everything random' -r
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l batch -d 'Documents per bulk operation of the load' -r
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l mix -d 'Operations and their weights [default: read=95,update=5; with --existing, read]' -r
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l popularity -d 'Key popularity: uniform, zipf:0.99, hotspot:10%:90%, latest:0.99, sequential or working-set:20%:80%' -r
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l duration -d 'Duration of the measurement [default: 30s]' -r
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l operations -d 'Number of operations to measure, instead of a duration' -r
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l warm-up -d 'Warm-up before the measurement; 0s for none [default: a sixth of the duration, at most 5s]' -r
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l rate -d 'Operations scheduled per second over all workers (open loop)' -r
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l arrival -d 'Spacing of scheduled starts at a rate' -r -f -a "constant\t'Evenly'
poisson\t'At random, as from many independent users'"
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l pacing -d 'How a worker waits for the next scheduled start' -r -f -a "economical\t'Sleep; send operations scheduled within 100 µs together, up to 100 µs late'
precise\t'Spin just before each scheduled start; takes one core per worker'"
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l think -d 'Pause between operations, in a closed loop' -r
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l drain -d 'Time to wait after the end for scheduled operations' -r
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l workers -d 'Threads that send operations; auto: one for each core that the store does not need' -r
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l connections -d 'Connections per worker' -r
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l in-flight -d 'Operations in flight per connection' -r
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l timeout -d 'Timeout of one operation' -r
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l on-disconnect -d 'What to do when a connection is lost' -r -f -a "go-on\t'Reconnect and continue; count lost connections and failed operations'
end\t'End the run, keep the results so far and exit with 3'"
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l streams -d 'Keys that each worker uses [default: independent; with --ledger, disjoint]' -r -f -a "independent\t'Every worker draws from all keys'
disjoint\t'Each worker draws from its own share of the keys'"
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l durability -d 'Durability of acknowledged writes, at least: none, os, fsync or majority [default: the study\'s, or else the strongest of fsync, os and none that the store guarantees]' -r
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l consistency -d 'Consistency of reads [default: strong if the store guarantees it]' -r -f -a "stale-ok\t'May miss recent writes'
session\t'Sees the writes of this session'
strong\t'Sees every acknowledged write'"
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l check -d 'Share of reads whose content is compared with the expected document' -r
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l save-study -d 'Write the equivalent study to this file, then run it' -r -F
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l out -d 'Folder in which to create a folder for each run' -r -F
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l live -d 'Serve the report during the run, at an address such as 127.0.0.1:8080' -r
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l metrics -d 'Serve metrics for Prometheus during the run at this address, or push them to otlp+http://HOST:PORT' -r
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l skip-bad-lines -d 'With --from: skip and count lines that are not JSON objects'
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l no-load -d 'Measure the documents that an earlier bench or run loaded'
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l pin-workers -d 'Keep each worker on one processor of its own'
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l skip-unsupported -d 'On each store, leave out what it does not support'
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l ledger -d 'Record every acknowledged version and read them all back at the end'
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l force -d 'Overwrite the --save-study file'
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l into-existing -d 'Add to a database that contains your own data'
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l discard-existing -d 'Delete data that `storebench copy` wrote, and start empty'
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l remove-after -d 'At the end, remove from the store what studies created'
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l anyway -d 'Start even if `plan` estimates too little disk space or too much time'
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l full -d 'Print everything: each check with its advice, each phase, sweeps, costs and published claims'
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l json -d 'Print the result as one JSON document instead of the summary'
complete -c storebench -n "__fish_storebench_using_subcommand bench" -s q -l quiet -d 'Do not show progress on stderr'
complete -c storebench -n "__fish_storebench_using_subcommand bench" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c storebench -n "__fish_storebench_using_subcommand merge" -l out -d 'Folder in which to create the folder of the merged run' -r -F
complete -c storebench -n "__fish_storebench_using_subcommand merge" -l full -d 'Print everything: each check with its advice, each phase, sweeps, costs and published claims'
complete -c storebench -n "__fish_storebench_using_subcommand merge" -l json -d 'Print the result as one JSON document instead of the summary'
complete -c storebench -n "__fish_storebench_using_subcommand merge" -s q -l quiet -d 'Do not show progress on stderr'
complete -c storebench -n "__fish_storebench_using_subcommand merge" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c storebench -n "__fish_storebench_using_subcommand compare" -l baseline -d 'Compare with this baseline, which is A; history:BRANCH is the last runs of a history' -r
complete -c storebench -n "__fish_storebench_using_subcommand compare" -l save-baseline -d 'Add the run to the baseline with this name, and compare nothing' -r
complete -c storebench -n "__fish_storebench_using_subcommand compare" -l keep-newest -d 'With --save-baseline, remove all but so many runs of the baseline: the newest, with this one' -r
complete -c storebench -n "__fish_storebench_using_subcommand compare" -l baselines -d 'Folder with the baselines' -r -F
complete -c storebench -n "__fish_storebench_using_subcommand compare" -l history -d 'Folder of the history, with --baseline history:BRANCH' -r -F
complete -c storebench -n "__fish_storebench_using_subcommand compare" -l last -d 'With --baseline history:BRANCH, compare with at most so many last runs' -r
complete -c storebench -n "__fish_storebench_using_subcommand compare" -l threshold -d 'Treat differences within this percentage as too small to matter' -r
complete -c storebench -n "__fish_storebench_using_subcommand compare" -l fail-on -d 'Exit with 1 if the entire interval of B/A is beyond a limit, and with 5 unless it is within it: \'[PHASE.][OP.]MEASURE > +5%\', or < -5%, or > x1.05; repeatable' -r
complete -c storebench -n "__fish_storebench_using_subcommand compare" -l undecided -d 'What an undecided gate does to the exit code' -r -f -a "fail\t'Exit with 5'
pass\t'Exit with 0'"
complete -c storebench -n "__fish_storebench_using_subcommand compare" -l must-detect -d 'Exit with 4 if an undecided gate could not have detected a change of this percentage' -r
complete -c storebench -n "__fish_storebench_using_subcommand compare" -l format -d 'Output format' -r -f -a "text\t'For a terminal'
markdown\t'For a comment on a pull request'
json\t'One document with all figures'"
complete -c storebench -n "__fish_storebench_using_subcommand compare" -s o -l output -d 'Also write the comparison as a page (HTML) into this file, with time lines of A and B' -r -F
complete -c storebench -n "__fish_storebench_using_subcommand compare" -l force -d 'Overwrite the --output file, or with --save-baseline remove the baseline\'s other runs'
complete -c storebench -n "__fish_storebench_using_subcommand compare" -l anyway -d 'Compare runs even if they are partial, incomparable or invalid'
complete -c storebench -n "__fish_storebench_using_subcommand compare" -l all -d 'Show all figures'
complete -c storebench -n "__fish_storebench_using_subcommand compare" -l json -d 'Print one JSON document; same as --format json'
complete -c storebench -n "__fish_storebench_using_subcommand compare" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c storebench -n "__fish_storebench_using_subcommand history; and not __fish_seen_subcommand_from add show check help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c storebench -n "__fish_storebench_using_subcommand history; and not __fish_seen_subcommand_from add show check help" -f -a "add" -d 'Add runs to the history'
complete -c storebench -n "__fish_storebench_using_subcommand history; and not __fish_seen_subcommand_from add show check help" -f -a "show" -d 'Show the lines of the history, and where they changed'
complete -c storebench -n "__fish_storebench_using_subcommand history; and not __fish_seen_subcommand_from add show check help" -f -a "check" -d 'Exit with 1 if a figure became worse'
complete -c storebench -n "__fish_storebench_using_subcommand history; and not __fish_seen_subcommand_from add show check help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c storebench -n "__fish_storebench_using_subcommand history; and __fish_seen_subcommand_from add" -l commit -d 'The commit that was measured [default: for one run of today, that of the CI job or of the working directory]' -r
complete -c storebench -n "__fish_storebench_using_subcommand history; and __fish_seen_subcommand_from add" -l branch -d 'The branch of the commit [default: likewise]' -r
complete -c storebench -n "__fish_storebench_using_subcommand history; and __fish_seen_subcommand_from add" -l history -d 'Folder of the history' -r -F
complete -c storebench -n "__fish_storebench_using_subcommand history; and __fish_seen_subcommand_from add" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c storebench -n "__fish_storebench_using_subcommand history; and __fish_seen_subcommand_from show" -l history -d 'Folder of the history' -r -F
complete -c storebench -n "__fish_storebench_using_subcommand history; and __fish_seen_subcommand_from show" -l branch -d 'Branch to look at [default: that of the CI job or of the working directory, or else that of the newest run]' -r
complete -c storebench -n "__fish_storebench_using_subcommand history; and __fish_seen_subcommand_from show" -l figure -d 'Figure to look at, [PHASE.][OP.]MEASURE; repeatable [default: the main one of each phase]' -r
complete -c storebench -n "__fish_storebench_using_subcommand history; and __fish_seen_subcommand_from show" -l false-alarm-every -d 'Allow one false alarm in so many runs without a change, over all lines together' -r
complete -c storebench -n "__fish_storebench_using_subcommand history; and __fish_seen_subcommand_from show" -s o -l output -d 'Also write a page (HTML) into this file, with a chart of each line' -r -F
complete -c storebench -n "__fish_storebench_using_subcommand history; and __fish_seen_subcommand_from show" -l json -d 'Print one JSON document'
complete -c storebench -n "__fish_storebench_using_subcommand history; and __fish_seen_subcommand_from show" -l force -d 'Overwrite the files of --output and --junit'
complete -c storebench -n "__fish_storebench_using_subcommand history; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c storebench -n "__fish_storebench_using_subcommand history; and __fish_seen_subcommand_from check" -l history -d 'Folder of the history' -r -F
complete -c storebench -n "__fish_storebench_using_subcommand history; and __fish_seen_subcommand_from check" -l branch -d 'Branch to look at [default: that of the CI job or of the working directory, or else that of the newest run]' -r
complete -c storebench -n "__fish_storebench_using_subcommand history; and __fish_seen_subcommand_from check" -l figure -d 'Figure to look at, [PHASE.][OP.]MEASURE; repeatable [default: the main one of each phase]' -r
complete -c storebench -n "__fish_storebench_using_subcommand history; and __fish_seen_subcommand_from check" -l false-alarm-every -d 'Allow one false alarm in so many runs without a change, over all lines together' -r
complete -c storebench -n "__fish_storebench_using_subcommand history; and __fish_seen_subcommand_from check" -s o -l output -d 'Also write a page (HTML) into this file, with a chart of each line' -r -F
complete -c storebench -n "__fish_storebench_using_subcommand history; and __fish_seen_subcommand_from check" -l recent -d 'Fail if one of so many last runs found a change for the worse' -r
complete -c storebench -n "__fish_storebench_using_subcommand history; and __fish_seen_subcommand_from check" -l undecided -d 'What a history with too few runs does to the exit code' -r -f -a "fail\t'Exit with 5'
pass\t'Exit with 0'"
complete -c storebench -n "__fish_storebench_using_subcommand history; and __fish_seen_subcommand_from check" -l junit -d 'Also write the lines as test cases (JUnit XML) into this file' -r -F
complete -c storebench -n "__fish_storebench_using_subcommand history; and __fish_seen_subcommand_from check" -l json -d 'Print one JSON document'
complete -c storebench -n "__fish_storebench_using_subcommand history; and __fish_seen_subcommand_from check" -l force -d 'Overwrite the files of --output and --junit'
complete -c storebench -n "__fish_storebench_using_subcommand history; and __fish_seen_subcommand_from check" -l github -d 'Print annotations for GitHub\'s workflows, and add the result to the job\'s summary'
complete -c storebench -n "__fish_storebench_using_subcommand history; and __fish_seen_subcommand_from check" -l markdown -d 'Print Markdown, such as for a comment on a pull request'
complete -c storebench -n "__fish_storebench_using_subcommand history; and __fish_seen_subcommand_from check" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c storebench -n "__fish_storebench_using_subcommand history; and __fish_seen_subcommand_from help" -f -a "add" -d 'Add runs to the history'
complete -c storebench -n "__fish_storebench_using_subcommand history; and __fish_seen_subcommand_from help" -f -a "show" -d 'Show the lines of the history, and where they changed'
complete -c storebench -n "__fish_storebench_using_subcommand history; and __fish_seen_subcommand_from help" -f -a "check" -d 'Exit with 1 if a figure became worse'
complete -c storebench -n "__fish_storebench_using_subcommand history; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c storebench -n "__fish_storebench_using_subcommand report" -s o -l output -d 'File to write, or `-` for stdout [default: report.html in the run\'s folder, index.html in a folder of runs; required for several runs]' -r -F
complete -c storebench -n "__fish_storebench_using_subcommand report" -l tables -d 'Write the tables of each run as Parquet into its folder `parquet`' -r -f -a "parquet\t''"
complete -c storebench -n "__fish_storebench_using_subcommand report" -l picture -d 'Write the first chart into this file, as SVG; `-` for stdout' -r -F
complete -c storebench -n "__fish_storebench_using_subcommand report" -l force -d 'Overwrite FILE if it exists; the report.html of a run is always written again'
complete -c storebench -n "__fish_storebench_using_subcommand report" -l full -d 'Print everything to the terminal instead, as `run --full` does'
complete -c storebench -n "__fish_storebench_using_subcommand report" -l markdown -d 'Print Markdown for a pull request comment instead: the answer, the checks and the configurations'
complete -c storebench -n "__fish_storebench_using_subcommand report" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c storebench -n "__fish_storebench_using_subcommand pack" -s o -l output -d 'File to write [default: the name of the run folder, with .sbz]' -r -F
complete -c storebench -n "__fish_storebench_using_subcommand pack" -l sign -d 'Sign with this Ed25519 key (PEM), as `openssl genpkey -algorithm ed25519` makes it' -r -F
complete -c storebench -n "__fish_storebench_using_subcommand pack" -l trust -d 'Refuse a bundle that the owner of this public key did not sign: base64, or a file (PEM)' -r
complete -c storebench -n "__fish_storebench_using_subcommand pack" -l force -d 'Overwrite the file'
complete -c storebench -n "__fish_storebench_using_subcommand pack" -l with-inputs -d 'Also pack the files that the study reads'
complete -c storebench -n "__fish_storebench_using_subcommand pack" -l check -d 'Check a bundle instead: whether its content matches, and who signed it'
complete -c storebench -n "__fish_storebench_using_subcommand pack" -l json -d 'With --check, print the manifest as one JSON document'
complete -c storebench -n "__fish_storebench_using_subcommand pack" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c storebench -n "__fish_storebench_using_subcommand rerun" -l store -d 'Measure this store in place of the bundle\'s store of that name; repeatable' -r
complete -c storebench -n "__fish_storebench_using_subcommand rerun" -l inputs -d 'Folder of the study\'s input files, if the bundle has only their hashes' -r -F
complete -c storebench -n "__fish_storebench_using_subcommand rerun" -l trust -d 'Refuse a bundle that the owner of this public key did not sign: base64, or a file (PEM)' -r
complete -c storebench -n "__fish_storebench_using_subcommand rerun" -l out -d 'Folder in which to create a folder for each run' -r -F
complete -c storebench -n "__fish_storebench_using_subcommand rerun" -l live -d 'Serve the report during the run, at an address such as 127.0.0.1:8080' -r
complete -c storebench -n "__fish_storebench_using_subcommand rerun" -l metrics -d 'Serve metrics for Prometheus during the run at this address, or push them to otlp+http://HOST:PORT' -r
complete -c storebench -n "__fish_storebench_using_subcommand rerun" -l manage-servers -d 'Run the study\'s commands that start, stop and kill servers'
complete -c storebench -n "__fish_storebench_using_subcommand rerun" -l into-existing -d 'Add to a database that contains your own data'
complete -c storebench -n "__fish_storebench_using_subcommand rerun" -l discard-existing -d 'Delete data that `storebench copy` wrote, and start empty'
complete -c storebench -n "__fish_storebench_using_subcommand rerun" -l remove-after -d 'At the end, remove from the store what studies created'
complete -c storebench -n "__fish_storebench_using_subcommand rerun" -l anyway -d 'Start even if `plan` estimates too little disk space or too much time'
complete -c storebench -n "__fish_storebench_using_subcommand rerun" -l full -d 'Print everything: each check with its advice, each phase, sweeps, costs and published claims'
complete -c storebench -n "__fish_storebench_using_subcommand rerun" -l json -d 'Print the result as one JSON document instead of the summary'
complete -c storebench -n "__fish_storebench_using_subcommand rerun" -s q -l quiet -d 'Do not show progress on stderr'
complete -c storebench -n "__fish_storebench_using_subcommand rerun" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c storebench -n "__fish_storebench_using_subcommand gallery" -s o -l output -d 'Folder of the site [default: gallery in FOLDER]' -r -F
complete -c storebench -n "__fish_storebench_using_subcommand gallery" -l trust -d 'Refuse a bundle that the owner of this public key did not sign: base64, or a file (PEM)' -r
complete -c storebench -n "__fish_storebench_using_subcommand gallery" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l from-collection -d 'Collection to read [default: the only one]' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l from-key -d 'Field or column with the key in your own collection, unless the store fixes it' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l from-body -d 'Field or column with the document in your own collection, unless the store fixes it' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l query -d 'Read the rows of an SQL query instead of a collection' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l view -d 'Read the documents of a view\'s rows instead of a collection' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l keys -d 'Keys of the view\'s rows, as JSON, separated by `;`' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l from-format -d 'Format of the source files: jsonl, json, csv, tsv, parquet or arrow [default: by their names]' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l types -d 'Types of CSV and TSV columns that are not text, such as `price=number,year=integer`' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l delimiter -d 'Field separator of CSV files: one character, or `tab` [default: a comma; for TSV a tab]' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l escapes -d 'How fields of TSV and CSV files are escaped: backslash or none' -r -f -a "backslash\t'As PostgreSQL\'s COPY and MySQL write them: \\N is null, \\t a tab'
none\t'Fields may be quoted, and a backslash is a plain character'"
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l to-collection -d 'Collection to write [default: the name of the source\'s collection or file]' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l to-key -d 'Field or column that receives the key in your own collection, unless the store fixes it' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l to-body -d 'Field or column that receives the document in your own collection, unless the store fixes it' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l op -d 'Operation for each record' -r -f -a "upsert\t'Store it, whether or not its key exists'
insert\t'Store it; a key that exists is refused'
replace\t'Store it where its key exists; others are refused'
append\t'Add its text (see --value) behind the stored one'
prepend\t'Add its text (see --value) before the stored one'
delete\t'Remove the document with its key'
merge\t'Merge it into the stored document (JSON Merge Patch, RFC 7396)'
counter\t'Add its integer (see --value) to the stored one'
touch\t'Let the stored document expire (see --expiry)'"
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l durability -d 'Durability of acknowledged writes, at least: none, os, fsync or majority [default: fsync, or the strongest below it that the store guarantees]' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l to-format -d 'Format of the target file: jsonl, json, csv, tsv, parquet or arrow [default: by its name]' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l key-field -d 'Field that receives the key in files [default: _id]' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l key -d 'Key of each record: a field (`id`, `address.zip`) or a template (`{user}-{book}`, `{uuid}`, `{seq}`) [default: in a file the field `_id`, in a store the document\'s key]' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l filter -d 'Copy only records for which this jq expression gives anything but false or null' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l map -d 'Replace each record with the result of this jq expression, or with none (`empty`)' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l fields -d 'Keep only these fields of each document, such as `title,address.zip`' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l without -d 'Remove these fields from each document' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l rename -d 'Rename fields, such as `old=new,other=another`' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l value -d 'Write this field\'s value instead of the document' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l op-field -d 'Field with the operation for each record: upsert, insert, replace, delete, merge or touch' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l merge -d 'With --op merge: compute the new document with this jq expression, such as \'.n += $new.n\'' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l own-members -d 'What to do with documents that have members reserved by the target, such as `_rev` in CouchDB' -r -f -a "drop\t'Write the document without them, and count it'
keep\t'Send the document as it is: the target decides'
reject\t'Reject the document, unless the member only repeats its key'"
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l expiry -d 'Time from writing a document until it expires' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l expiry-field -d 'Field with the expiry of a document: seconds from its writing, or a time such as 2031-01-31T12:00:00Z' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l infer -d 'Infer the columns of a CSV, TSV, Parquet or Arrow file from this many records, or from `all` [default: 10000]' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l schema -d 'Read the columns from this file; --dry-run prints one to start from' -r -F
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l overflow -d 'Name of the overflow column [default: _more]' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -s p -l workers -l parallel -d 'Number of workers, each with its own connections [default: one per processor]' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l batch -d 'Maximum records per bulk request [default: 1000; 4000 for upserts into an empty collection of PostgreSQL or MongoDB]' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l batch-bytes -d 'Maximum bytes per bulk request, unless one record is larger [default: 1MiB; 4MiB where --batch defaults to 4000]' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l in-flight -d 'Requests in flight per worker connection' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l rate-docs -d 'Maximum documents per second over all workers, such as 1000, 20k or 0.4' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l rate-bytes -d 'Maximum bytes of documents per second over all workers' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l timeout -d 'Timeout of one attempt of a request' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l tries -d 'Maximum attempts for a request with a temporary failure, including the first' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l retry-cap -d 'Longest wait between two attempts' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l retry-total -d 'Time after which no further attempt starts' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l rejects -d 'File for records that did not arrive, one JSON object per line [default: rejects.jsonl in the copy\'s folder]' -r -F
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l max-errors -d 'Number of rejected records that still gives exit code 0' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l out -d 'Folder in which to create a folder for each copy' -r -F
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l metrics -d 'Serve metrics for Prometheus during the copy at this address, or push them to otlp+http://HOST:PORT' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l no-partitions -d 'Do not add fields that the folders of the source files name, such as `year=2024/month=01/`'
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l drop-expiry -d 'Drop the expiry of documents, if the source reports it (such as Redis)'
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l drop-attachments -d 'Drop attachments'
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l into-existing -d 'Write into your own collection, given by --to-collection'
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l no-key-field -d 'Omit keys from files'
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l merge-absent -d 'With --merge: insert keys that do not exist, with null as the stored document'
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l no-overflow -d 'Reject records with fields that have no column or do not fit its type'
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l verify -d 'Read back what was written and compare it with what was read'
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l resume -d 'Continue an unfinished copy, or start one if there is none'
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l restart -d 'Start over instead of continuing an unfinished copy'
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l force -d 'Overwrite the target file, the parts in the target folder, and the --rejects file'
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l anyway -d 'Start even if the estimated disk space is too small'
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l dry-run -d 'Show what would be read, in how many parts, and where it would go; copy nothing'
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l json -d 'Print the result as one JSON document instead of one line'
complete -c storebench -n "__fish_storebench_using_subcommand copy" -s q -l quiet -d 'Do not show progress on stderr; still print the result'
complete -c storebench -n "__fish_storebench_using_subcommand copy" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c storebench -n "__fish_storebench_using_subcommand generate" -l preset -d 'Use one of the study\'s presets, such as laptop' -r
complete -c storebench -n "__fish_storebench_using_subcommand generate" -l set -d 'Change one value of the study, such as phases.mixed.rate=500; repeatable' -r
complete -c storebench -n "__fish_storebench_using_subcommand generate" -l scale -d 'Multiply the number of documents by this factor [default: the preset\'s, or 1]' -r
complete -c storebench -n "__fish_storebench_using_subcommand generate" -l from -d 'Index of the first document' -r
complete -c storebench -n "__fish_storebench_using_subcommand generate" -l count -d 'Number of documents from each collection [default: all from --from on]' -r
complete -c storebench -n "__fish_storebench_using_subcommand generate" -s j -l jobs -d 'Threads that generate documents [default: one per processor]' -r
complete -c storebench -n "__fish_storebench_using_subcommand generate" -s o -l output -d 'Write to this file instead of stdout' -r -F
complete -c storebench -n "__fish_storebench_using_subcommand generate" -l version -d 'Version of the documents; a load writes version 0' -r
complete -c storebench -n "__fish_storebench_using_subcommand generate" -l force -d 'Overwrite the --output file'
complete -c storebench -n "__fish_storebench_using_subcommand generate" -l keys -d 'Write {"key": …, "document": …} on each line'
complete -c storebench -n "__fish_storebench_using_subcommand generate" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c storebench -n "__fish_storebench_using_subcommand infer" -l collection -d 'Name of the collection' -r
complete -c storebench -n "__fish_storebench_using_subcommand infer" -s o -l output -d 'Write to this file instead of stdout' -r -F
complete -c storebench -n "__fish_storebench_using_subcommand infer" -l store -d 'With --check: load the sample and the generated documents into this store, and compare index sizes and read times' -r
complete -c storebench -n "__fish_storebench_using_subcommand infer" -l seed -d 'With --check: seed of the random tenth of a large sample from which documents are made' -r
complete -c storebench -n "__fish_storebench_using_subcommand infer" -l force -d 'Overwrite the --output file'
complete -c storebench -n "__fish_storebench_using_subcommand infer" -l keep-values -d 'Use the sample\'s own texts where a field has at most 64 different ones; these texts are then in the study'
complete -c storebench -n "__fish_storebench_using_subcommand infer" -l check -d 'Compare generated documents with the sample instead of printing the study'
complete -c storebench -n "__fish_storebench_using_subcommand infer" -l json -d 'Print the comparison as one JSON document'
complete -c storebench -n "__fish_storebench_using_subcommand infer" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c storebench -n "__fish_storebench_using_subcommand trace" -l from -d 'Whose log it is' -r -f -a "postgres\t'PostgreSQL\'s log with log_statement = \'all\' or log_min_duration_statement = 0'
mysql\t'The general log of MariaDB or MySQL'
mongodb\t'Documents of MongoDB\'s profiler (system.profile) as JSON Lines'
redis\t'What redis-cli MONITOR prints'
couchdb\t'CouchDB\'s log, with a line for each request'
http\t'An access log of an HTTP server in the common or combined format'"
complete -c storebench -n "__fish_storebench_using_subcommand trace" -l within -d 'The table, collection, database, key prefix or path that holds the documents [default: the only one in the log]' -r
complete -c storebench -n "__fish_storebench_using_subcommand trace" -l key -d 'PostgreSQL, MySQL: the column of the key [default: the one that statements compare, the first one that they insert]' -r
complete -c storebench -n "__fish_storebench_using_subcommand trace" -s o -l output -d 'Write to this file instead of stdout: .jsonl or .csv' -r -F
complete -c storebench -n "__fish_storebench_using_subcommand trace" -l salt-file -d 'Hash with the salt in this file, so that the same key has the same hash in other traces' -r -F
complete -c storebench -n "__fish_storebench_using_subcommand trace" -l force -d 'Overwrite the --output file'
complete -c storebench -n "__fish_storebench_using_subcommand trace" -l hash-keys -d 'Replace each key by a hash, with a salt that is forgotten'
complete -c storebench -n "__fish_storebench_using_subcommand trace" -l bodies -d 'Keep the documents that were written, and not only their sizes'
complete -c storebench -n "__fish_storebench_using_subcommand trace" -l by-key -d 'Take the operations of each key as those of one client'
complete -c storebench -n "__fish_storebench_using_subcommand trace" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c storebench -n "__fish_storebench_using_subcommand verify" -l preset -d 'Use one of the study\'s presets, such as laptop' -r
complete -c storebench -n "__fish_storebench_using_subcommand verify" -l set -d 'Change one value of the study, such as phases.mixed.rate=500; repeatable' -r
complete -c storebench -n "__fish_storebench_using_subcommand verify" -l scale -d 'Multiply the number of documents by this factor [default: the preset\'s, or 1]' -r
complete -c storebench -n "__fish_storebench_using_subcommand verify" -s j -l jobs -d 'Threads that read [default: one per processor, at most 8]' -r
complete -c storebench -n "__fish_storebench_using_subcommand verify" -l json -d 'Print the report as one JSON document'
complete -c storebench -n "__fish_storebench_using_subcommand verify" -s q -l quiet -d 'Do not show progress on stderr'
complete -c storebench -n "__fish_storebench_using_subcommand verify" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c storebench -n "__fish_storebench_using_subcommand check" -l jepsen -d 'Also write the history to a new file, in the form that Jepsen\'s tools read (EDN)' -r -F
complete -c storebench -n "__fish_storebench_using_subcommand check" -l budget -d 'Orders to try for each operation of a key before it counts as undecided [default: 1000]' -r
complete -c storebench -n "__fish_storebench_using_subcommand check" -l json -d 'Print the report as one JSON document'
complete -c storebench -n "__fish_storebench_using_subcommand check" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c storebench -n "__fish_storebench_using_subcommand plan" -l preset -d 'Use one of the study\'s presets, such as laptop' -r
complete -c storebench -n "__fish_storebench_using_subcommand plan" -l set -d 'Change one value of the study, such as phases.mixed.rate=500; repeatable' -r
complete -c storebench -n "__fish_storebench_using_subcommand plan" -l scale -d 'Multiply the number of documents by this factor [default: the preset\'s, or 1]' -r
complete -c storebench -n "__fish_storebench_using_subcommand plan" -l durability -d 'Durability of acknowledged writes, at least: none, os, fsync or majority [default: the study\'s, or else the strongest of fsync, os and none that the store guarantees]' -r
complete -c storebench -n "__fish_storebench_using_subcommand plan" -l store -d 'Plan for this store instead of the study\'s stores; repeatable' -r
complete -c storebench -n "__fish_storebench_using_subcommand plan" -l parts -d 'Also show the share of each part, if the study is run in this many parts' -r
complete -c storebench -n "__fish_storebench_using_subcommand plan" -l pilot -d 'Say how many rounds the study needs, from how much the rounds of this run of it differ' -r
complete -c storebench -n "__fish_storebench_using_subcommand plan" -l gate -d 'The change that the gate allows, with --pilot of several runs or of a history' -r
complete -c storebench -n "__fish_storebench_using_subcommand plan" -l history -d 'Folder of the history, with --pilot history:BRANCH' -r -F
complete -c storebench -n "__fish_storebench_using_subcommand plan" -l within -d 'How narrow intervals should be, with --pilot' -r
complete -c storebench -n "__fish_storebench_using_subcommand plan" -l prices -d 'Estimate costs with this price sheet (TOML); see docs/cost.md' -r -F
complete -c storebench -n "__fish_storebench_using_subcommand plan" -l skip-unsupported -d 'On each store, leave out what it does not support'
complete -c storebench -n "__fish_storebench_using_subcommand plan" -l json -d 'Print the plan as one JSON document'
complete -c storebench -n "__fish_storebench_using_subcommand plan" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c storebench -n "__fish_storebench_using_subcommand stores" -l json -d 'Print the list as one JSON document'
complete -c storebench -n "__fish_storebench_using_subcommand stores" -s h -l help -d 'Print help'
complete -c storebench -n "__fish_storebench_using_subcommand studies" -l file -d 'Print the study file, to edit and run'
complete -c storebench -n "__fish_storebench_using_subcommand studies" -l json -d 'Print the list as one JSON document'
complete -c storebench -n "__fish_storebench_using_subcommand studies" -s h -l help -d 'Print help'
complete -c storebench -n "__fish_storebench_using_subcommand conform" -l discard-existing -d 'Also delete data that `storebench copy` wrote'
complete -c storebench -n "__fish_storebench_using_subcommand conform" -l json -d 'Print the table as one JSON document'
complete -c storebench -n "__fish_storebench_using_subcommand conform" -s q -l quiet -d 'Do not show progress on stderr'
complete -c storebench -n "__fish_storebench_using_subcommand conform" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c storebench -n "__fish_storebench_using_subcommand doctor" -l json -d 'Print the findings as one JSON document'
complete -c storebench -n "__fish_storebench_using_subcommand doctor" -s h -l help -d 'Print help'
complete -c storebench -n "__fish_storebench_using_subcommand host" -l socket -d 'Socket file to create for clients; its path has at most 100 bytes' -r -F
complete -c storebench -n "__fish_storebench_using_subcommand host" -l until-input-ends -d 'End when standard input ends, as it does when the parent process ends'
complete -c storebench -n "__fish_storebench_using_subcommand host" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c storebench -n "__fish_storebench_using_subcommand completions" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c storebench -n "__fish_storebench_using_subcommand help; and not __fish_seen_subcommand_from init run bench merge compare history report pack rerun gallery copy generate infer trace verify check plan stores studies conform doctor host completions help" -f -a "init" -d 'Write a commented study file for your stores, to change and run'
complete -c storebench -n "__fish_storebench_using_subcommand help; and not __fish_seen_subcommand_from init run bench merge compare history report pack rerun gallery copy generate infer trace verify check plan stores studies conform doctor host completions help" -f -a "run" -d 'Run a study on its stores and check the results'
complete -c storebench -n "__fish_storebench_using_subcommand help; and not __fish_seen_subcommand_from init run bench merge compare history report pack rerun gallery copy generate infer trace verify check plan stores studies conform doctor host completions help" -f -a "bench" -d 'Measure one store quickly, without a study file'
complete -c storebench -n "__fish_storebench_using_subcommand help; and not __fish_seen_subcommand_from init run bench merge compare history report pack rerun gallery copy generate infer trace verify check plan stores studies conform doctor host completions help" -f -a "merge" -d 'Merge the parts of a run into one run folder'
complete -c storebench -n "__fish_storebench_using_subcommand help; and not __fish_seen_subcommand_from init run bench merge compare history report pack rerun gallery copy generate infer trace verify check plan stores studies conform doctor host completions help" -f -a "compare" -d 'Compare the configurations of one run, or sets of runs, with 95 % intervals'
complete -c storebench -n "__fish_storebench_using_subcommand help; and not __fish_seen_subcommand_from init run bench merge compare history report pack rerun gallery copy generate infer trace verify check plan stores studies conform doctor host completions help" -f -a "history" -d 'Keep the figures of runs over months, and find the run with which one became worse'
complete -c storebench -n "__fish_storebench_using_subcommand help; and not __fish_seen_subcommand_from init run bench merge compare history report pack rerun gallery copy generate infer trace verify check plan stores studies conform doctor host completions help" -f -a "report" -d 'Create the report of a run again, or one report of several runs'
complete -c storebench -n "__fish_storebench_using_subcommand help; and not __fish_seen_subcommand_from init run bench merge compare history report pack rerun gallery copy generate infer trace verify check plan stores studies conform doctor host completions help" -f -a "pack" -d 'Pack a run into one file that others can check and repeat'
complete -c storebench -n "__fish_storebench_using_subcommand help; and not __fish_seen_subcommand_from init run bench merge compare history report pack rerun gallery copy generate infer trace verify check plan stores studies conform doctor host completions help" -f -a "rerun" -d 'Repeat the run of a bundle here, and say whether its result reproduces'
complete -c storebench -n "__fish_storebench_using_subcommand help; and not __fish_seen_subcommand_from init run bench merge compare history report pack rerun gallery copy generate infer trace verify check plan stores studies conform doctor host completions help" -f -a "gallery" -d 'Make a static site of a folder of bundles'
complete -c storebench -n "__fish_storebench_using_subcommand help; and not __fish_seen_subcommand_from init run bench merge compare history report pack rerun gallery copy generate infer trace verify check plan stores studies conform doctor host completions help" -f -a "copy" -d 'Copy documents between files and stores, in parallel and without losing any'
complete -c storebench -n "__fish_storebench_using_subcommand help; and not __fish_seen_subcommand_from init run bench merge compare history report pack rerun gallery copy generate infer trace verify check plan stores studies conform doctor host completions help" -f -a "generate" -d 'Write a study\'s documents as JSON lines'
complete -c storebench -n "__fish_storebench_using_subcommand help; and not __fish_seen_subcommand_from init run bench merge compare history report pack rerun gallery copy generate infer trace verify check plan stores studies conform doctor host completions help" -f -a "infer" -d 'Describe a collection that generates documents like a sample'
complete -c storebench -n "__fish_storebench_using_subcommand help; and not __fish_seen_subcommand_from init run bench merge compare history report pack rerun gallery copy generate infer trace verify check plan stores studies conform doctor host completions help" -f -a "trace" -d 'Make a trace from the logs of a store, to replay it'
complete -c storebench -n "__fish_storebench_using_subcommand help; and not __fish_seen_subcommand_from init run bench merge compare history report pack rerun gallery copy generate infer trace verify check plan stores studies conform doctor host completions help" -f -a "verify" -d 'Read every document back and compare it with the expected content'
complete -c storebench -n "__fish_storebench_using_subcommand help; and not __fish_seen_subcommand_from init run bench merge compare history report pack rerun gallery copy generate infer trace verify check plan stores studies conform doctor host completions help" -f -a "check" -d 'Judge a history of reads and writes: whether some order explains what each client saw'
complete -c storebench -n "__fish_storebench_using_subcommand help; and not __fish_seen_subcommand_from init run bench merge compare history report pack rerun gallery copy generate infer trace verify check plan stores studies conform doctor host completions help" -f -a "plan" -d 'Show the documents, trials, time and disk space of a study, without touching anything'
complete -c storebench -n "__fish_storebench_using_subcommand help; and not __fish_seen_subcommand_from init run bench merge compare history report pack rerun gallery copy generate infer trace verify check plan stores studies conform doctor host completions help" -f -a "stores" -d 'List the stores: URLs, options, operations, and the settings behind each guarantee'
complete -c storebench -n "__fish_storebench_using_subcommand help; and not __fish_seen_subcommand_from init run bench merge compare history report pack rerun gallery copy generate infer trace verify check plan stores studies conform doctor host completions help" -f -a "studies" -d 'List the built-in studies: what each shows, its presets, and flaws of the original'
complete -c storebench -n "__fish_storebench_using_subcommand help; and not __fish_seen_subcommand_from init run bench merge compare history report pack rerun gallery copy generate infer trace verify check plan stores studies conform doctor host completions help" -f -a "conform" -d 'Check that a store behaves as Storebench expects of every store'
complete -c storebench -n "__fish_storebench_using_subcommand help; and not __fish_seen_subcommand_from init run bench merge compare history report pack rerun gallery copy generate infer trace verify check plan stores studies conform doctor host completions help" -f -a "doctor" -d 'Check this machine for what would spoil a measurement'
complete -c storebench -n "__fish_storebench_using_subcommand help; and not __fish_seen_subcommand_from init run bench merge compare history report pack rerun gallery copy generate infer trace verify check plan stores studies conform doctor host completions help" -f -a "host" -d 'Host an embedded store in this process, for other processes on this machine'
complete -c storebench -n "__fish_storebench_using_subcommand help; and not __fish_seen_subcommand_from init run bench merge compare history report pack rerun gallery copy generate infer trace verify check plan stores studies conform doctor host completions help" -f -a "completions" -d 'Print a shell\'s completion script'
complete -c storebench -n "__fish_storebench_using_subcommand help; and not __fish_seen_subcommand_from init run bench merge compare history report pack rerun gallery copy generate infer trace verify check plan stores studies conform doctor host completions help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c storebench -n "__fish_storebench_using_subcommand help; and __fish_seen_subcommand_from history" -f -a "add" -d 'Add runs to the history'
complete -c storebench -n "__fish_storebench_using_subcommand help; and __fish_seen_subcommand_from history" -f -a "show" -d 'Show the lines of the history, and where they changed'
complete -c storebench -n "__fish_storebench_using_subcommand help; and __fish_seen_subcommand_from history" -f -a "check" -d 'Exit with 1 if a figure became worse'
