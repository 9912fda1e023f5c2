import type { ListedValue, ListOptions, PutOptions, Values, Versioned } from '../gateway-store.ts'
import { jsonTextOf } from '../json-text.ts'
import { randomId } from '../random-id.ts'
import type { RedisCommands } from './redis-commands.ts'
import type { RedisKeys } from './redis-keys.ts'
import { jsonFrom, listFrom, numberFrom, textFrom } from './redis-reply.ts'
import { COUNT, DELETE, LIST, PUT, TAKE, TOUCH } from './redis-scripts.ts'

/** Keys asked for at once. */
const PAGE_KEYS = 200

/** Values as hashes that expire by themselves, and two sorted sets of their keys. */
export class RedisValues implements Values {
  readonly #commands: RedisCommands
  readonly #keys: RedisKeys

  constructor(commands: RedisCommands, keys: RedisKeys) {
    this.#commands = commands
    this.#keys = keys
  }

  async get(key: string): Promise<Versioned | undefined> {
    const record = this.#keys.records + key
    const reply = await this.#commands.send(['HMGET', record, 'text', 'version'])
    const [text, version] = listFrom(reply)
    if (text === null || version === null) return undefined
    return { value: jsonFrom(text), version: textFrom(version) }
  }

  async put(key: string, value: unknown, options: PutOptions = {}): Promise<string | undefined> {
    const { ttlMs, ifVersion } = options
    const version = randomId()
    const ttl = ttlMs === undefined || ttlMs === Infinity ? '' : wholeMs(ttlMs)
    const held = ifVersion === undefined ? '' : ifVersion === null ? 'none' : `=${ifVersion}`
    const args = [key, jsonTextOf(value), version, ttl, held]
    const reply = await this.#commands.run(PUT, this.#of(key), args)
    return numberFrom(reply) === 1 ? version : undefined
  }

  async touch(key: string, ttlMs: number): Promise<boolean> {
    const ttl = ttlMs === Infinity ? '' : wholeMs(ttlMs)
    return numberFrom(await this.#commands.run(TOUCH, this.#of(key), [key, ttl])) === 1
  }

  async take(key: string): Promise<unknown> {
    const reply = await this.#commands.run(TAKE, this.#of(key), [key])
    return reply === null ? undefined : jsonFrom(reply)
  }

  async delete(key: string, ifVersion = ''): Promise<boolean> {
    return numberFrom(await this.#commands.run(DELETE, this.#of(key), [key, ifVersion])) === 1
  }

  async list(prefix: string, options: ListOptions = {}): Promise<readonly ListedValue[]> {
    const { after, limit = 1000 } = options
    const listed: ListedValue[] = []
    const isBehind =
      after !== undefined && Buffer.compare(Buffer.from(after), Buffer.from(prefix)) >= 0
    let from = isBehind ? `(${after}` : `[${prefix}`
    while (listed.length < limit) {
      const count = Math.min(limit - listed.length, PAGE_KEYS)
      const { records, names, ends } = this.#keys
      const page = await this.#commands.run(LIST, [records, names, ends], [from, `${count}`])
      const rows = listFrom(page).map(listFrom)
      for (const [name, text, version] of rows) {
        const key = textFrom(name)
        if (!key.startsWith(prefix)) return listed
        from = `(${key}`
        if (text === null || version === null) continue
        listed.push({ key, value: jsonFrom(text), version: textFrom(version) })
      }
      if (rows.length < count) break
    }
    return listed
  }

  async count(prefix: string): Promise<number> {
    const { records, names, ends } = this.#keys
    const behind = Buffer.concat([Buffer.from(`(${prefix}`), Buffer.of(0xff)]) // no text has this byte
    return numberFrom(
      await this.#commands.run(COUNT, [records, names, ends], [`[${prefix}`, behind]),
    )
  }

  #of(key: string): readonly string[] {
    return [this.#keys.records + key, this.#keys.names, this.#keys.ends]
  }
}

function wholeMs(ms: number): string {
  return String(Math.max(1, Math.round(ms)))
}
