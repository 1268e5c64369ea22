package storebench;

import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.Set;
import java.util.Vector;
import redis.clients.jedis.Jedis;
import site.ycsb.ByteIterator;
import site.ycsb.DB;
import site.ycsb.DBException;
import site.ycsb.Status;

/** One record is one string, so that YCSB sends the commands that the other clients send: SET and GET of 1 KiB. */
public class StringsOnRedis extends DB {
  private Jedis jedis;

  @Override
  public void init() throws DBException {
    jedis = new Jedis("127.0.0.1", Integer.parseInt(getProperties().getProperty("redis.port")));
  }

  @Override
  public void cleanup() throws DBException {
    jedis.close();
  }

  @Override
  public Status read(String table, String key, Set<String> fields, Map<String, ByteIterator> result) {
    return jedis.get(key.getBytes(StandardCharsets.US_ASCII)) == null ? Status.NOT_FOUND : Status.OK;
  }

  @Override
  public Status insert(String table, String key, Map<String, ByteIterator> values) {
    byte[] value = values.values().iterator().next().toArray();
    return "OK".equals(jedis.set(key.getBytes(StandardCharsets.US_ASCII), value)) ? Status.OK : Status.ERROR;
  }

  @Override
  public Status update(String table, String key, Map<String, ByteIterator> values) {
    return insert(table, key, values);
  }

  @Override
  public Status delete(String table, String key) {
    return Status.NOT_IMPLEMENTED;
  }

  @Override
  public Status scan(String table, String start, int count, Set<String> fields,
      Vector<java.util.HashMap<String, ByteIterator>> result) {
    return Status.NOT_IMPLEMENTED;
  }
}
