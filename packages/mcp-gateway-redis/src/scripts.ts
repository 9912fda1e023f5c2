import { createRedisScript, type RedisScript } from '@x/internal/redis'

/** `now` is the clock of Redis, so that all processes use one clock. */
const PRELUDE = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function text(number) return string.format('%.0f', number) end
`

/**
 * Functions for records. KEYS record, names (all with score 0, so they are in the order of their bytes), ends (sorted by
 * the time of expiry). Each write removes more expired names than it adds.
 */
const RECORDS = `
local function forgetEnded(limit)
  local ended = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', text(now), 'LIMIT', 0, limit)
  if #ended == 0 then return end
  redis.call('ZREM', KEYS[2], unpack(ended))
  redis.call('ZREM', KEYS[3], unpack(ended))
end
local function setEnd(key, ttl)
  if ttl == '' then
    redis.call('PERSIST', KEYS[1])
    redis.call('ZREM', KEYS[3], key)
  else
    local endsAt = text(now + tonumber(ttl))
    redis.call('PEXPIREAT', KEYS[1], endsAt)
    redis.call('ZADD', KEYS[3], endsAt, key)
  end
end
local function remove(key)
  redis.call('DEL', KEYS[1])
  redis.call('ZREM', KEYS[2], key)
  redis.call('ZREM', KEYS[3], key)
end
`

/**
 * Function that appends an event to a log, or replaces the log by it. Returns the id of the new entry. A log ends with its
 * head: Redis before 7.2 may keep the stream for a millisecond longer.
 */
const APPEND = `
local function append(stream, head, content, isLast, maxEvents, ttl, header, isNew)
  if isNew == '1' then redis.call('DEL', head) end
  if redis.call('PEXPIRE', head, ttl) == 0 then
    redis.call('SET', head, header, 'PX', ttl)
    redis.call('XTRIM', stream, 'MAXLEN', 0)
  end
  local before = redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1)[1]
  local id = redis.call('XADD', stream, 'MAXLEN', maxEvents, '*',
    'text', content, 'last', isLast, 'before', before and before[1] or '0-0')
  redis.call('PEXPIRE', stream, ttl)
  return id
end
`

/**
 * ARGV key, text, version, time to live or '', expected version: '' for any, 'none', or '=' and a version. More keys and
 * arguments are an event that is appended if it writes. Returns 1 if it wrote.
 */
export const PUT: RedisScript = script(`${RECORDS}${APPEND}
local before = redis.call('HGET', KEYS[1], 'version')
if ARGV[5] == 'none' and before then return 0 end
if string.sub(ARGV[5], 1, 1) == '=' and before ~= string.sub(ARGV[5], 2) then return 0 end
forgetEnded(8)
redis.call('HSET', KEYS[1], 'text', ARGV[2], 'version', ARGV[3])
redis.call('ZADD', KEYS[2], 0, ARGV[1])
setEnd(ARGV[1], ARGV[4])
if KEYS[4] then append(KEYS[4], KEYS[5], unpack(ARGV, 6)) end
return 1
`)

/** ARGV key, time to live or ''. Returns 1 if the record exists. */
export const TOUCH: RedisScript = script(`${RECORDS}
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
setEnd(ARGV[1], ARGV[2])
return 1
`)

/** ARGV key. Returns the text, or nothing. */
export const TAKE: RedisScript = script(`${RECORDS}
local found = redis.call('HGET', KEYS[1], 'text')
if found then remove(ARGV[1]) end
return found
`)

/** ARGV key, expected version or ''. Returns 1 if it deleted the record. */
export const DELETE: RedisScript = script(`${RECORDS}
local version = redis.call('HGET', KEYS[1], 'version')
if not version or (ARGV[2] ~= '' and version ~= ARGV[2]) then return 0 end
remove(ARGV[1])
return 1
`)

/**
 * KEYS[1] is the first part of the keys of all records. ARGV first key (as in ZRANGEBYLEX), count. Returns triples of key,
 * text and version. A record that has just expired has no text and no version.
 */
export const LIST: RedisScript = script(`${RECORDS}
forgetEnded(500)
local reply = {}
for _, key in ipairs(redis.call('ZRANGEBYLEX', KEYS[2], ARGV[1], '+', 'LIMIT', 0, ARGV[2])) do
  local found = redis.call('HMGET', KEYS[1] .. key, 'text', 'version')
  table.insert(reply, { key, found[1], found[2] })
end
return reply
`)

/** ARGV first key, and the end of the range, as in ZLEXCOUNT. */
export const COUNT: RedisScript = script(`${RECORDS}
forgetEnded(4000)
return redis.call('ZLEXCOUNT', KEYS[2], ARGV[1], ARGV[2])
`)

/** KEYS and ARGV as the parameters of `append`. Returns the id of the new entry. */
export const APPEND_EVENT: RedisScript = script(`${APPEND}
return append(KEYS[1], KEYS[2], unpack(ARGV))
`)

/** KEYS stream, head. The empty stream stays for a moment, so that a new log of the same name gets other ids. */
export const DELETE_LOG: RedisScript = script(`
redis.call('XTRIM', KEYS[1], 'MAXLEN', 0)
redis.call('PEXPIRE', KEYS[1], 1000)
redis.call('DEL', KEYS[2])
`)

/** KEYS stream, head; ARGV id of an entry. Returns the head if the entry exists. */
export const FIND_EVENT: RedisScript = script(`
if #redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[1]) == 0 then return false end
return redis.call('GET', KEYS[2])
`)

/** KEYS stream that a process reads together with its tails; ARGV time to live. Ends the blocking read of the process. */
export const WAKE: RedisScript = script(`
redis.call('XADD', KEYS[1], 'MAXLEN', 1, '*', 'wake', 1)
redis.call('PEXPIRE', KEYS[1], ARGV[1])
`)

/**
 * KEYS bytes; ARGV field, value, time to live. Each field sets the end anew, in the same step: so the bytes of a writer that
 * was killed end too.
 */
export const PUT_FIELD: RedisScript = script(`
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
`)

/** KEYS bucket; ARGV tokens per minute, which is also the size of the bucket. Returns 0, or the milliseconds to wait. */
export const TAKE_TOKEN: RedisScript = script(`
local size = tonumber(ARGV[1])
local perMs = size / 60000
local found = redis.call('HMGET', KEYS[1], 'tokens', 'at')
local tokens = size
if found[1] then
  tokens = math.min(size, tonumber(found[1]) + math.max(0, now - tonumber(found[2])) * perMs)
end
local wait = 0
if tokens >= 1 then tokens = tokens - 1 else wait = math.max(1, math.ceil((1 - tokens) / perMs)) end
redis.call('HSET', KEYS[1], 'tokens', string.format('%.17g', tokens), 'at', text(now))
redis.call('PEXPIRE', KEYS[1], math.ceil((size - tokens) / perMs) + 1)
return wait
`)

function script(body: string): RedisScript {
  return createRedisScript(PRELUDE + body)
}
