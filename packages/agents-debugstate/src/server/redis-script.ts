import { createHash } from 'node:crypto'

/** A script that Redis runs in one step: nothing else happens between its first line and its last. */
export interface RedisScript {
  readonly text: string
  /** The name under which Redis keeps it once it has seen it. */
  readonly sha: string
}

/**
 * The clock is that of Redis: machines that share it agree on it. `holds` follows RFC 9110, sections
 * 13.1.1 and 13.1.2, as `holds` of precondition.ts does.
 */
const PRELUDE = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function text(number) return string.format('%.0f', number) end
local function matches(tags, version)
  if not version then return false end
  if tags == '*' then return true end
  for _, tag in ipairs(tags) do
    if tag == version then return true end
  end
  return false
end
local function holds(json, version)
  if json == '' then return true end
  local precondition = cjson.decode(json)
  local yes, no = precondition.ifMatch, precondition.ifNoneMatch
  return (yes == nil or matches(yes, version)) and (no == nil or not matches(no, version))
end
local function forgetExpired(limit)
  local expired = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', '(' .. text(now), 'LIMIT', 0, limit)
  if #expired == 0 then return end
  redis.call('ZREM', KEYS[2], unpack(expired))
  redis.call('ZREM', KEYS[3], unpack(expired))
end
`

/**
 * KEYS record, names, expiries; ARGV key, value, version, time to live, precondition. 1: written, 0: conflict.
 * Each write takes a few expired keys out of the sets, more than it puts in; and the sets end with
 * their last value, so that nothing is left of an agent that nobody asks for again.
 */
export const PUT: RedisScript = script(`
if not holds(ARGV[5], redis.call('HGET', KEYS[1], 'version')) then return 0 end
forgetExpired(16)
local ttl = tonumber(ARGV[4])
local expiresAt = text(now + ttl)
redis.call('HSET', KEYS[1], 'value', ARGV[2], 'version', ARGV[3], 'bytes', #ARGV[2],
  'updatedAt', text(now), 'expiresAt', expiresAt)
redis.call('PEXPIREAT', KEYS[1], expiresAt)
redis.call('ZADD', KEYS[2], 0, ARGV[1])
redis.call('ZADD', KEYS[3], expiresAt, ARGV[1])
for set = 2, 3 do
  if redis.call('PTTL', KEYS[set]) < ttl then redis.call('PEXPIREAT', KEYS[set], expiresAt) end
end
return 1
`)

/** KEYS record, names, expiries; ARGV key, precondition. 1: deleted, 0: nothing was there, -1: conflict. */
export const DELETE: RedisScript = script(`
local version = redis.call('HGET', KEYS[1], 'version')
if not holds(ARGV[2], version) then return -1 end
if not version then return 0 end
redis.call('DEL', KEYS[1])
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('ZREM', KEYS[3], ARGV[1])
return 1
`)

/** KEYS record (not used), names, expiries; ARGV from, count: so many keys in order, `from` as ZRANGEBYLEX has it. */
export const NAMES: RedisScript = script(`
forgetExpired(500)
return redis.call('ZRANGEBYLEX', KEYS[2], ARGV[1], '+', 'LIMIT', 0, ARGV[2])
`)

function script(body: string): RedisScript {
  const text = PRELUDE + body
  return { text, sha: createHash('sha1').update(text).digest('hex') }
}
