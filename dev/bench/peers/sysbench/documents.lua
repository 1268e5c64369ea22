-- The statements that the driver prepares, on its table of documents. `--statement` is `read` or `upsert`.

sysbench.cmdline.options = {
   keys = {"Documents that the work is spread over", 100000},
   statement = {"What to do with them", "read"},
}

local TEXT = {
   read = "SELECT `body` FROM docs WHERE `key` = ?",
   upsert = "INSERT INTO docs (`key`, `body`) VALUES (?, ?) ON DUPLICATE KEY UPDATE `body` = VALUES(`body`)",
}

function thread_init()
   connection = sysbench.sql.driver():connect()
   statement = connection:prepare(TEXT[sysbench.opt.statement])
   key = statement:bind_create(sysbench.sql.type.CHAR, 20)
   if sysbench.opt.statement == "read" then
      statement:bind_param(key)
   else
      document = statement:bind_create(sysbench.sql.type.CHAR, 2048)
      document:set('{"text":"' .. string.rep("x", 1013) .. '"}')
      statement:bind_param(key, document)
   end
end

function event()
   key:set("k" .. sysbench.rand.uniform(0, sysbench.opt.keys - 1))
   statement:execute()
end
