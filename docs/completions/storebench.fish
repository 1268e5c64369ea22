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
complete -c storebench -n "__fish_storebench_needs_command" -f -a "run" -d 'Run a study on its stores, and judge what was measured'
complete -c storebench -n "__fish_storebench_needs_command" -f -a "bench" -d 'Measure one store quickly, the study given by flags'
complete -c storebench -n "__fish_storebench_needs_command" -f -a "compare" -d 'Say what differs between two runs, or between the arms of one, and what of it is sure'
complete -c storebench -n "__fish_storebench_needs_command" -f -a "report" -d 'Make the page of a run again, or one page of several runs'
complete -c storebench -n "__fish_storebench_needs_command" -f -a "copy" -d 'Move documents between files and stores, in parallel, losing nothing'
complete -c storebench -n "__fish_storebench_needs_command" -f -a "generate" -d 'Write a study\'s documents as JSON lines'
complete -c storebench -n "__fish_storebench_needs_command" -f -a "verify" -d 'Read every document back and compare it with what it should be'
complete -c storebench -n "__fish_storebench_needs_command" -f -a "plan" -d 'Say what a study would do: documents, trials, time and disk; nothing is touched'
complete -c storebench -n "__fish_storebench_needs_command" -f -a "stores" -d 'List the stores: URLs, options, operations, and what each promise is mapped to'
complete -c storebench -n "__fish_storebench_needs_command" -f -a "studies" -d 'List the built-in studies: what each shows, its sizes, and what the original got wrong'
complete -c storebench -n "__fish_storebench_needs_command" -f -a "conform" -d 'Check that a store does what Storebench takes every store to do'
complete -c storebench -n "__fish_storebench_needs_command" -f -a "doctor" -d 'Look at this machine for what would spoil a measurement'
complete -c storebench -n "__fish_storebench_needs_command" -f -a "host" -d 'Host an embedded store in this process, for others of this machine'
complete -c storebench -n "__fish_storebench_using_subcommand run" -l preset -d 'Take the study at one of its sizes, such as laptop; what is set here goes before it' -r
complete -c storebench -n "__fish_storebench_using_subcommand run" -l set -d 'Change one value of the study, such as phases.mixed.rate=500; may be given several times' -r
complete -c storebench -n "__fish_storebench_using_subcommand run" -l scale -d 'Multiply how many documents there are; their shape stays [default: the preset\'s, else 1]' -r
complete -c storebench -n "__fish_storebench_using_subcommand run" -l store -d 'Measure this store instead of those of the study; may be given several times' -r
complete -c storebench -n "__fish_storebench_using_subcommand run" -l resume -d 'Go on with the run in this folder: trials that completed are kept, the others run' -r -F
complete -c storebench -n "__fish_storebench_using_subcommand run" -l prices -d 'Price what is measured with this sheet (TOML), which the result keeps; see docs/cost.md' -r -F
complete -c storebench -n "__fish_storebench_using_subcommand run" -l out -d 'Folder that gets a folder for each run' -r -F
complete -c storebench -n "__fish_storebench_using_subcommand run" -l live -d 'Serve the report while the run goes on, at this address of the machine, such as 127.0.0.1:8080; a port alone is on the loopback interface' -r
complete -c storebench -n "__fish_storebench_using_subcommand run" -l keep -d 'Keep the documents that Storebench made there before, and load no others over them'
complete -c storebench -n "__fish_storebench_using_subcommand run" -l manage-servers -d 'Run the commands with which the study starts, stops and kills servers'
complete -c storebench -n "__fish_storebench_using_subcommand run" -l into-existing -d 'Add to a database that holds data of yours, also what `copy` wrote; none of it is changed'
complete -c storebench -n "__fish_storebench_using_subcommand run" -l discard-existing -d 'Delete what `storebench copy` wrote there, and begin with an empty place'
complete -c storebench -n "__fish_storebench_using_subcommand run" -l remove-after -d 'Remove from the store, at the end, what studies made there; what `copy` wrote stays'
complete -c storebench -n "__fish_storebench_using_subcommand run" -l anyway -d 'Begin even if the disk is too small or the time too long by the estimate of `plan`'
complete -c storebench -n "__fish_storebench_using_subcommand run" -l json -d 'Print the result as one JSON document instead of the summary'
complete -c storebench -n "__fish_storebench_using_subcommand run" -s q -l quiet -d 'No progress on stderr'
complete -c storebench -n "__fish_storebench_using_subcommand run" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l docs -d 'How many documents [default: 100k; with --from, every line]' -r
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l size -d 'Size of a document [default: 1KiB]' -r
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l compress-to -d 'Share of their bytes that zstd leaves of the documents, or none for plain words, which repeat [default: 0.4; below 200 B none]' -r
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l existing -d 'Documents that are in the store already, by the name of their table, bucket, database or collection: they are read, and nothing is written' -r
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l existing-key -d 'With --existing: the field or column that holds the key, where the store does not fix it' -r
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l existing-body -d 'With --existing: the field or column that holds the document, where the store does not fix it' -r
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l sample -d 'With --existing: how many keys to sample [default: 100k]' -r
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l from -d 'Your own documents: a JSONL file, plain, .gz or .zst' -r -F
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l key -d 'Template of the key, such as \'{country}-{id}\' or \'doc/{index}\'' -r
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l seed -d 'Everything random is drawn from it' -r
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l batch -d 'Documents in one bulk operation of the load' -r
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l mix -d 'Operations and their weights [default: read=95,update=5; with --existing read]' -r
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l popularity -d 'Which keys are asked for more often: uniform, zipf:0.99, hotspot:10%:90%, latest:0.99, sequential, working-set:20%:80%' -r
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l duration -d 'How long to measure [default: 30s]' -r
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l operations -d 'How many operations to measure, instead of a time' -r
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l warm-up -d 'How long to warm up before; 0s for not at all [default: a sixth of the duration, 5s at most]' -r
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l rate -d 'Operations due per second over all workers (open loop)' -r
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l arrival -d 'How operations are spaced at a rate' -r -f -a "constant\t'Evenly'
poisson\t'As from many independent users'"
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l pacing -d 'How a worker waits for the next operation: sleeping (up to 100 µs late), or spinning' -r -f -a "economical\t'Sleep, and send what has become due within up to 100 µs together'
precise\t'Spin for the last stretch: takes a core for each worker'"
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l think -d 'Closed loop: pause between operations' -r
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l drain -d 'How long to await, after the end, operations that were due' -r
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l workers -d 'Threads that send operations' -r
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l connections -d 'Connections of each worker' -r
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l in-flight -d 'Operations in flight on each connection' -r
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l timeout -d 'How long one operation may take' -r
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l on-disconnect -d 'What a lost connection does to the run' -r -f -a "go-on\t'It is made again and counted, and what failed meanwhile is counted'
end\t'The run ends there, keeps what was measured, and exits with 3'"
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l streams -d 'Whether workers draw from all keys, or each from its own share [default: independent; with --ledger disjoint]' -r -f -a "independent\t'Every worker draws from all keys'
disjoint\t'Each worker has keys of its own'"
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l durability -d 'What an acknowledged write survives: none, os, fsync, majority [default: the strongest of fsync, os and none that the store promises]' -r
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l consistency -d 'How fresh reads are [default: strong where the store promises it]' -r -f -a "stale-ok\t'May miss what was just written'
session\t'Sees what this session wrote'
strong\t'Sees every acknowledged write'"
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l check -d 'Share of the reads whose contents are compared with what they should be' -r
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l save-study -d 'Write the study that these flags stand for to a file, then run it' -r -F
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l out -d 'Folder that gets a folder for each run' -r -F
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l live -d 'Serve the report while the run goes on, at this address of the machine, such as 127.0.0.1:8080; a port alone is on the loopback interface' -r
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l skip-bad-lines -d 'With --from: leave out lines that are no JSON object, and count them'
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l no-load -d 'Measure the documents that an earlier bench or run loaded'
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l ledger -d 'Keep every acknowledged version, and read all of them back at the end'
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l force -d 'Overwrite the file of --save-study'
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l into-existing -d 'Add to a database that holds data of yours, also what `copy` wrote; none of it is changed'
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l discard-existing -d 'Delete what `storebench copy` wrote there, and begin with an empty place'
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l remove-after -d 'Remove from the store, at the end, what studies made there; what `copy` wrote stays'
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l anyway -d 'Begin even if the disk is too small or the time too long by the estimate of `plan`'
complete -c storebench -n "__fish_storebench_using_subcommand bench" -l json -d 'Print the result as one JSON document instead of the summary'
complete -c storebench -n "__fish_storebench_using_subcommand bench" -s q -l quiet -d 'No progress on stderr'
complete -c storebench -n "__fish_storebench_using_subcommand bench" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c storebench -n "__fish_storebench_using_subcommand compare" -l baseline -d 'Compare with this baseline: it is A' -r
complete -c storebench -n "__fish_storebench_using_subcommand compare" -l save-baseline -d 'Keep the run as a baseline of this name, and compare nothing' -r
complete -c storebench -n "__fish_storebench_using_subcommand compare" -l baselines -d 'Folder of the baselines' -r -F
complete -c storebench -n "__fish_storebench_using_subcommand compare" -l threshold -d 'Differences within this share are too small to matter' -r
complete -c storebench -n "__fish_storebench_using_subcommand compare" -l fail-on -d 'Exit with 1 when the whole interval of B/A lies beyond a line: \'[PHASE.][OP.]MEASURE > +5%\', or < -5%, or > x1.05; may be given several times' -r
complete -c storebench -n "__fish_storebench_using_subcommand compare" -l format -d 'How to print it' -r -f -a "text\t'For a terminal'
markdown\t'Such as for a comment on a pull request'
json\t'One document, with every figure'"
complete -c storebench -n "__fish_storebench_using_subcommand compare" -l force -d 'With --save-baseline: replace the baseline of this name'
complete -c storebench -n "__fish_storebench_using_subcommand compare" -l anyway -d 'Compare what is partial, unlike or invalid all the same; differences stand above the figures'
complete -c storebench -n "__fish_storebench_using_subcommand compare" -l all -d 'Show every figure'
complete -c storebench -n "__fish_storebench_using_subcommand compare" -l json -d 'Print one JSON document; the same as --format json'
complete -c storebench -n "__fish_storebench_using_subcommand compare" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c storebench -n "__fish_storebench_using_subcommand report" -s o -l output -d 'Write the page here, `-` is stdout [default: report.html in the run\'s folder; needed for several runs]' -r -F
complete -c storebench -n "__fish_storebench_using_subcommand report" -l tables -d 'Write the tables of each run as Parquet, into the folder `parquet` of the run' -r -f -a "parquet\t''"
complete -c storebench -n "__fish_storebench_using_subcommand report" -l force -d 'Overwrite the file of --output'
complete -c storebench -n "__fish_storebench_using_subcommand report" -l markdown -d 'Print Markdown for a comment on a change instead: the answer, what it is worth, the arms'
complete -c storebench -n "__fish_storebench_using_subcommand report" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l from-collection -d 'The collection to read: one that Storebench made, or what the store calls one of yours (a table, database, bucket, collection or key prefix) [default: the only one that there is]' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l from-key -d 'The field or column that holds keys in your own collection, in stores where that is not fixed' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l from-body -d 'The field or column that holds documents in your own collection, in stores where that is not fixed' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l query -d 'Read the rows of an SQL query instead of a collection: each column is a field, and --key names what is the key unless a column is named `_id`' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l view -d 'Read the documents of a view\'s rows instead of a whole collection' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l keys -d 'Keys of the view\'s rows, as JSON, several separated by `;`; a range such as ((00-19)) stands for each of its numbers, as wide as they are written, as in \'["20140401",((00-19))]\' or \'"page-((1-400))"\'' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l from-format -d 'How records stand in the files that are read: jsonl, json, csv, tsv, parquet or arrow [default: by their names]' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l types -d 'Types of CSV and TSV columns that are not text: `price=number,year=integer` (also boolean, json, and overflow for a column that `copy` made)' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l delimiter -d 'What separates the fields of CSV files: one character, or `tab` [default: a comma; of TSV a tab]' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l to-collection -d 'The collection to write [default: the name of the source\'s collection or file]' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l to-key -d 'The field or column that gets keys in your own collection, in stores where that is not fixed' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l to-body -d 'The field or column that gets documents in your own collection, in stores where that is not fixed' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l op -d 'What is done with each record' -r -f -a "upsert\t'Store it, whether or not its key exists'
insert\t'Store it; a key that exists is refused'
replace\t'Store it where its key exists; others are refused'
append\t'Add its text (see --value) behind the stored one'
prepend\t'Add its text (see --value) before the stored one'
delete\t'Remove the document with its key'
merge\t'Merge it into the stored document (JSON Merge Patch, RFC 7396)'
counter\t'Add its integer (see --value) to the stored one'
touch\t'Let the stored document expire (see --expiry)'"
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l durability -d 'What an acknowledged write survives, such as none, os, fsync, majority [default: fsync, or the most that the store can promise of it]' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l to-format -d 'How records stand in the file that is written: jsonl, json, csv, tsv, parquet or arrow [default: by its name]' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l key-field -d 'The field that gets the key in files [default: _id]' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l key -d 'The key of each record: a field (`id`, `address.zip`) or a template (`{user}-{book}`, `{uuid}`, `{seq}`) [default: of a file the field `_id`, of a store the document\'s key]' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l filter -d 'Only records for which this jq expression gives anything but false or null; `.` is the record with its key as `_id`' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l map -d 'The record that this jq expression makes of each, or none (`empty`); its `_id`, if it has one, is the key' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l fields -d 'Only these fields of each document: `title,address.zip`' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l without -d 'All fields but these' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l rename -d 'Fields under other names: `old=new,other=another`' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l value -d 'Write this field\'s value instead of the document: for append and prepend a text, for counter an integer' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l op-field -d 'What is done with each record is in this field: one of upsert, insert, replace, delete, merge, touch' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l merge -d 'For --op merge: the document that this jq expression makes of the stored one (`.`) and the record (`$new`), as in \'.n += $new.n\'; stored only if nobody was quicker, else made again' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l own-members -d 'What becomes of documents with members that the target keeps for itself, such as `_rev` in CouchDB: leave these members out, send them as they are, or reject the document' -r -f -a "drop\t'Write the document without them, and count it'
keep\t'Send the document as it is: the target decides'
reject\t'Reject the document, unless the member only repeats its key'"
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l expiry -d 'Let each document expire so long after it was written' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l expiry-field -d 'The field that says when a document expires: seconds from its writing, or a time such as 2031-01-31T12:00:00Z; where it is missing or null, --expiry counts' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l infer -d 'Find the columns of a CSV, TSV, Parquet or Arrow file in so many records, or in `all` [default: 10000]' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l schema -d 'Take the columns from this file; --dry-run prints one to begin with' -r -F
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l overflow -d 'Keep what has no column, or does not fit its type, as JSON in this column [default: _more]' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -s p -l workers -l parallel -d 'Workers, each with connections of its own [default: one for each processor]' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l batch -d 'Records in one bulk request, at most; 1000, and 4000 where an empty collection of PostgreSQL or MongoDB is filled by upserts' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l batch-bytes -d 'Bytes in one bulk request, at most, unless one record holds more; 1MiB, and 4MiB there' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l in-flight -d 'Requests in flight on each worker\'s connection' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l rate-docs -d 'Documents per second, at most, over all workers' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l rate-bytes -d 'Bytes of documents per second, at most, over all workers' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l timeout -d 'How long one try of a request may take' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l tries -d 'Tries of one request that fails for now, the first included' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l retry-cap -d 'The longest wait between two tries' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l retry-total -d 'No further try begins after so long' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l rejects -d 'The file of records that did not arrive, one JSON object a line [default: rejects.jsonl in the copy\'s folder]' -r -F
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l max-errors -d 'So many records may be rejected and the exit code still be 0; the copy goes on to its end either way' -r
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l out -d 'Folder that gets a folder for each copy' -r -F
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l drop-expiry -d 'Leave behind that documents expire, where the source tells of it (Redis); without it they expire in the target, too, or do not arrive where that knows no expiry'
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l drop-attachments -d 'Leave attachments behind; without it a document that has some does not arrive'
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l into-existing -d 'Write into a collection of yours, which --to-collection names as the store does (a table, database, bucket, collection or key prefix): nothing is made, emptied or marked there'
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l no-key-field -d 'Leave keys out of files'
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l merge-absent -d 'With --merge: where the key is not stored, begin with null and insert what comes of it; without it such a record is rejected'
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l no-overflow -d 'Reject records with fields that have no column or do not fit its type'
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l verify -d 'Read back what was written, and compare it with what was read'
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l resume -d 'Continue an unfinished copy; without one, start it'
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l restart -d 'Begin anew where a copy did not end'
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l force -d 'Overwrite the target file, the parts in the target folder, and the file of --rejects'
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l anyway -d 'Begin even if the disk is too small by an estimate'
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l dry-run -d 'Only look: what would be read, in how many parts, and where it would go'
complete -c storebench -n "__fish_storebench_using_subcommand copy" -l json -d 'Print the result as one JSON document instead of one line'
complete -c storebench -n "__fish_storebench_using_subcommand copy" -s q -l quiet -d 'No progress on stderr; the result is printed still'
complete -c storebench -n "__fish_storebench_using_subcommand copy" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c storebench -n "__fish_storebench_using_subcommand generate" -l preset -d 'Take the study at one of its sizes, such as laptop; what is set here goes before it' -r
complete -c storebench -n "__fish_storebench_using_subcommand generate" -l set -d 'Change one value of the study, such as phases.mixed.rate=500; may be given several times' -r
complete -c storebench -n "__fish_storebench_using_subcommand generate" -l scale -d 'Multiply how many documents there are; their shape stays [default: the preset\'s, else 1]' -r
complete -c storebench -n "__fish_storebench_using_subcommand generate" -l from -d 'Index of the first document' -r
complete -c storebench -n "__fish_storebench_using_subcommand generate" -l count -d 'How many documents of each collection [default: all from there on]' -r
complete -c storebench -n "__fish_storebench_using_subcommand generate" -s j -l jobs -d 'Threads that make documents [default: one for each processor]' -r
complete -c storebench -n "__fish_storebench_using_subcommand generate" -s o -l output -d 'Write to this file instead of stdout; it appears when it is whole' -r -F
complete -c storebench -n "__fish_storebench_using_subcommand generate" -l version -d 'Version of the documents; 0 is what a load writes' -r
complete -c storebench -n "__fish_storebench_using_subcommand generate" -l force -d 'Overwrite the file of --output'
complete -c storebench -n "__fish_storebench_using_subcommand generate" -l keys -d 'Write {"key": …, "document": …} on each line'
complete -c storebench -n "__fish_storebench_using_subcommand generate" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c storebench -n "__fish_storebench_using_subcommand verify" -l preset -d 'Take the study at one of its sizes, such as laptop; what is set here goes before it' -r
complete -c storebench -n "__fish_storebench_using_subcommand verify" -l set -d 'Change one value of the study, such as phases.mixed.rate=500; may be given several times' -r
complete -c storebench -n "__fish_storebench_using_subcommand verify" -l scale -d 'Multiply how many documents there are; their shape stays [default: the preset\'s, else 1]' -r
complete -c storebench -n "__fish_storebench_using_subcommand verify" -s j -l jobs -d 'Threads that read [default: one for each processor, 8 at most]' -r
complete -c storebench -n "__fish_storebench_using_subcommand verify" -l json -d 'Print the report as one JSON document'
complete -c storebench -n "__fish_storebench_using_subcommand verify" -s q -l quiet -d 'No progress on stderr'
complete -c storebench -n "__fish_storebench_using_subcommand verify" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c storebench -n "__fish_storebench_using_subcommand plan" -l preset -d 'Take the study at one of its sizes, such as laptop; what is set here goes before it' -r
complete -c storebench -n "__fish_storebench_using_subcommand plan" -l set -d 'Change one value of the study, such as phases.mixed.rate=500; may be given several times' -r
complete -c storebench -n "__fish_storebench_using_subcommand plan" -l scale -d 'Multiply how many documents there are; their shape stays [default: the preset\'s, else 1]' -r
complete -c storebench -n "__fish_storebench_using_subcommand plan" -l store -d 'Plan for this store instead of those of the study; may be given several times' -r
complete -c storebench -n "__fish_storebench_using_subcommand plan" -l prices -d 'Price the plan with this sheet (TOML); see docs/cost.md' -r -F
complete -c storebench -n "__fish_storebench_using_subcommand plan" -l json -d 'Print the plan as one JSON document'
complete -c storebench -n "__fish_storebench_using_subcommand plan" -s h -l help -d 'Print help'
complete -c storebench -n "__fish_storebench_using_subcommand stores" -l json -d 'Print the list as one JSON document'
complete -c storebench -n "__fish_storebench_using_subcommand stores" -s h -l help -d 'Print help'
complete -c storebench -n "__fish_storebench_using_subcommand studies" -l file -d 'Print the study file itself, to be changed and run'
complete -c storebench -n "__fish_storebench_using_subcommand studies" -l json -d 'Print the list as one JSON document'
complete -c storebench -n "__fish_storebench_using_subcommand studies" -s h -l help -d 'Print help'
complete -c storebench -n "__fish_storebench_using_subcommand conform" -l discard-existing -d 'Delete what `storebench copy` wrote there, too'
complete -c storebench -n "__fish_storebench_using_subcommand conform" -l json -d 'Print the table as one JSON document'
complete -c storebench -n "__fish_storebench_using_subcommand conform" -s q -l quiet -d 'No progress on stderr'
complete -c storebench -n "__fish_storebench_using_subcommand conform" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c storebench -n "__fish_storebench_using_subcommand doctor" -l json -d 'Print the findings as one JSON document'
complete -c storebench -n "__fish_storebench_using_subcommand doctor" -s h -l help -d 'Print help'
complete -c storebench -n "__fish_storebench_using_subcommand host" -l socket -d 'The socket that is made for those who ask: a file, of at most 100 bytes with its folders' -r -F
complete -c storebench -n "__fish_storebench_using_subcommand host" -l until-input-ends -d 'End as soon as standard input does, as it does when whoever began this process ends'
complete -c storebench -n "__fish_storebench_using_subcommand host" -s h -l help -d 'Print help (see more with \'--help\')'
