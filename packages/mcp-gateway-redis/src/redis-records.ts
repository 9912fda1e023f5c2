import { parseList, parseNumber, parseText } from '@x/internal/redis'
import type { ListedRecord, ListOptions, PutOptions, Records, Versioned } from '@x/mcp-gateway'
import { randomId, toJsonText } from '@x/mcp-gateway/adapter'
import { parseJson, wholeMs, type RedisCommands } from './redis-commands.ts'
import type { RedisLogs } from './redis-logs.ts'
import { COUNT, DELETE, LIST, PUT, TAKE, TOUCH } from './scripts.ts'

/** Records that one script reads. */
const PAGE_KEYS = 200

/** Records as hashes that expire by themselves, and two sorted sets of their keys. */
export class RedisRecords implements Records {
  readonly #commands: RedisCommands
  readonly #logs: RedisLogs

  constructor(commands: RedisCommands, logs: RedisLogs) {
    this.#commands = commands
    this.#logs = logs
  }

  async get(key: string): Promise<Versioned | undefined> {
    const record = this.#commands.key('value', key)
    const reply = await this.#commands.send(['HMGET', record, 'text', 'version'])
    const [text, version] = parseList(reply)
    if (text === null || version === null) return undefined
    return { value: parseJson(text), version: parseText(version) }
  }

  async put(key: string, value: unknown, options: PutOptions = {}): Promise<string | undefined> {
    const { ttlMs, ifVersion, event } = options
    const version = randomId()
    const ttl = ttlMs === undefined || ttlMs === Infinity ? '' : wholeMs(ttlMs)
    const held = ifVersion === undefined ? '' : ifVersion === null ? 'none' : `=${ifVersion}`
    const args = [key, toJsonText(value), version, ttl, held]
    const [logKeys, logArgs] = event ? this.#logs.toAppend(event) : [[], []]
    const reply = await this.#commands.run(
      PUT,
      [...this.#of(key), ...logKeys],
      [...args, ...logArgs],
    )
    return parseNumber(reply) === 1 ? version : undefined
  }

  async touch(key: string, ttlMs: number): Promise<boolean> {
    const ttl = ttlMs === Infinity ? '' : wholeMs(ttlMs)
    return parseNumber(await this.#commands.run(TOUCH, this.#of(key), [key, ttl])) === 1
  }

  async take(key: string): Promise<unknown> {
    const reply = await this.#commands.run(TAKE, this.#of(key), [key])
    return reply === null ? undefined : parseJson(reply)
  }

  async delete(key: string, ifVersion = ''): Promise<boolean> {
    return parseNumber(await this.#commands.run(DELETE, this.#of(key), [key, ifVersion])) === 1
  }

  async list(prefix: string, options: ListOptions = {}): Promise<readonly ListedRecord[]> {
    const { after, limit = 1000 } = options
    const listed: ListedRecord[] = []
    const isBehind =
      after !== undefined && Buffer.compare(Buffer.from(after), Buffer.from(prefix)) >= 0
    let from = isBehind ? `(${after}` : `[${prefix}`
    while (listed.length < limit) {
      const count = Math.min(limit - listed.length, PAGE_KEYS)
      const page = await this.#commands.run(LIST, this.#of(''), [from, `${count}`])
      const rows = parseList(page).map(parseList)
      for (const [name, text, version] of rows) {
        const key = parseText(name)
        if (!key.startsWith(prefix)) return listed
        from = `(${key}`
        if (text === null || version === null) continue
        listed.push({ key, value: parseJson(text), version: parseText(version) })
      }
      if (rows.length < count) break
    }
    return listed
  }

  async count(prefix: string): Promise<number> {
    const behind = Buffer.concat([Buffer.from(`(${prefix}`), Buffer.of(0xff)]) // no UTF-8 text has this byte
    return parseNumber(await this.#commands.run(COUNT, this.#of(''), [`[${prefix}`, behind]))
  }

  #of(key: string): readonly string[] {
    const commands = this.#commands
    return [commands.key('value', key), commands.key('names'), commands.key('ends')]
  }
}
