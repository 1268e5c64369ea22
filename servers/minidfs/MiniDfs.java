import java.io.File;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.HdfsConfiguration;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/** Hadoop's file system in one process, name node and one data node, on 127.0.0.1: {@code MiniDfs PORT FOLDER}. */
public final class MiniDfs {
    private MiniDfs() {}

    public static void main(String[] arguments) throws Exception {
        int port = Integer.parseInt(arguments[0]);
        File folder = new File(arguments[1]);
        // What it kept is served again.
        boolean format = !new File(folder, "name-0-1").exists();
        Configuration settings = new HdfsConfiguration();
        settings.set(MiniDFSCluster.HDFS_MINIDFS_BASEDIR, folder.getPath());
        settings.setInt("dfs.replication", 1);
        // As real clusters have them: a block of a file is not all of it.
        settings.setLong("dfs.blocksize", 4 << 20);
        MiniDFSCluster cluster = new MiniDFSCluster.Builder(settings)
            .nameNodePort(port)
            .numDataNodes(1)
            .format(format)
            .build();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> cluster.shutdown()));
        cluster.waitActive();
        System.out.println("serving " + cluster.getURI());
        Thread.currentThread().join();
    }
}
