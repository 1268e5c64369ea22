//! `storebench` with support for Hadoop's file system: `hdfs://namenode:8020/path`.

use std::process::ExitCode;
use std::sync::Arc;

use hdfs_native_object_store::HdfsObjectStoreBuilder;
use object_store::ObjectStore;
use storebench_transfer::{HdfsCluster, register_hdfs};

fn open(cluster: HdfsCluster) -> Result<Arc<dyn ObjectStore>, String> {
    let builder = HdfsObjectStoreBuilder::new()
        .with_url(cluster.url)
        .with_config(cluster.settings)
        .with_io_runtime(cluster.runtime);
    builder.build().map(|store| Arc::new(store) as Arc<dyn ObjectStore>).map_err(|error| error.to_string())
}

fn main() -> ExitCode {
    register_hdfs(open);
    storebench_cli::main()
}
