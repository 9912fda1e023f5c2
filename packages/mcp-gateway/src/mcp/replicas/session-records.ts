import { createHash } from 'node:crypto'

import { GatewayError } from '../../errors.ts'
import type { Values } from '../../store/gateway-store.ts'
import { sessionRecordFrom, type SessionRecord } from './session-record.ts'

export interface ListedSession {
  /** As `sessionName` makes it. */
  readonly name: string
  readonly record: SessionRecord
}

const PREFIX = 'session:'
const PAGE = 500
/** Of what a client says of itself. */
const MAX_CHARS = 65_536
const MAX_CONFLICTS = 10

/**
 * The records of sessions, for all processes that share a store. A session lies under its caller and its id,
 * both hashed: whoever looks for it as another caller finds nothing, and the store tells nobody an id.
 */
export class SessionRecords {
  readonly #values: Values

  constructor(values: Values) {
    this.#values = values
  }

  /** @throws GatewayError `LIMIT`: the client says too much of itself; `UNAVAILABLE` */
  async put(name: string, record: SessionRecord, ttlMs: number): Promise<void> {
    if (JSON.stringify(record).length > MAX_CHARS) {
      throw new GatewayError('LIMIT', 'The handshake of a session may have 65536 characters')
    }
    await this.#values.put(PREFIX + name, record, { ttlMs })
  }

  async find(name: string): Promise<SessionRecord | undefined> {
    const found = await this.#values.get(PREFIX + name)
    return sessionRecordFrom(found?.value)
  }

  /** @returns the record as it is then; `undefined`: the session has ended */
  async update(
    name: string,
    change: (record: SessionRecord) => SessionRecord,
    ttlMs: number,
  ): Promise<SessionRecord | undefined> {
    for (let conflicts = 0; conflicts < MAX_CONFLICTS; conflicts++) {
      const found = await this.#values.get(PREFIX + name)
      const record = sessionRecordFrom(found?.value)
      if (!found || !record) return undefined
      const changed = change(record)
      const options = { ttlMs, ifVersion: found.version }
      if ((await this.#values.put(PREFIX + name, changed, options)) !== undefined) return changed
    }
    throw new GatewayError('UNAVAILABLE', 'A session is being changed by too many at once')
  }

  /** It was used. @returns whether it is still there */
  touch(name: string, ttlMs: number): Promise<boolean> {
    return this.#values.touch(PREFIX + name, ttlMs)
  }

  /** @returns whether it was there */
  remove(name: string): Promise<boolean> {
    return this.#values.delete(PREFIX + name)
  }

  /** Every session, of all processes. */
  async all(): Promise<readonly ListedSession[]> {
    const sessions: ListedSession[] = []
    for (let after: string | undefined; ;) {
      const page = await this.#values.list(PREFIX, { after, limit: PAGE })
      for (const { key, value } of page) {
        const record = sessionRecordFrom(value)
        if (record) sessions.push({ name: key.slice(PREFIX.length), record })
      }
      if (page.length < PAGE) return sessions
      after = page.at(-1)?.key
    }
  }

  /** Sessions of one caller, at all processes. @param principal @default of all callers */
  count(principal?: string): Promise<number> {
    return this.#values.count(principal === undefined ? PREFIX : `${PREFIX}${hashOf(principal)}:`)
  }
}

/** What stands for a session outside of its own process. */
export function sessionName(principal: string, id: string): string {
  return `${hashOf(principal)}:${hashOf(id)}`
}

function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 32)
}
