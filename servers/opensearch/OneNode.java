import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;

import org.opensearch.common.logging.LogConfigurator;
import org.opensearch.common.settings.Settings;
import org.opensearch.env.Environment;
import org.opensearch.node.InternalSettingsPreparer;
import org.opensearch.node.Node;
import org.opensearch.plugins.Plugin;
import org.opensearch.transport.Netty4Plugin;

/** OpenSearch in one process, one node, on 127.0.0.1: {@code OneNode PORT FOLDER [SETTING=VALUE]...}. */
public final class OneNode extends Node {
    private OneNode(Environment environment) {
        super(environment, List.<Class<? extends Plugin>>of(Netty4Plugin.class), false);
    }

    public static void main(String[] arguments) throws Exception {
        Path folder = Path.of(arguments[1]);
        Files.createDirectories(folder);
        Settings.Builder settings = Settings.builder()
            .put("path.home", folder)
            .put("path.data", folder.resolve("data"))
            .put("path.logs", folder.resolve("logs"))
            .put("cluster.name", "storebench")
            .put("node.name", "one")
            .put("discovery.type", "single-node")
            .put("network.host", "127.0.0.1")
            .put("http.port", arguments[0])
            // Nobody connects to it.
            .put("transport.port", "0")
            // A test must not fail because the disk of its machine is nearly full.
            .put("cluster.routing.allocation.disk.threshold_enabled", "false");
        for (int i = 2; i < arguments.length; i++) {
            String[] pair = arguments[i].split("=", 2);
            settings.put(pair[0], pair[1]);
        }
        LogConfigurator.registerErrorListener();
        Environment environment = InternalSettingsPreparer.prepareEnvironment(settings.build(), Map.of(), null, () -> "one");
        OneNode node = new OneNode(environment);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            try {
                node.close();
            } catch (Exception error) {
                error.printStackTrace();
            }
        }));
        node.start();
        Thread.currentThread().join();
    }
}
