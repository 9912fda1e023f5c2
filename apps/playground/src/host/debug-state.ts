import { DatabaseSync } from 'node:sqlite'
import { createDebugStateServer, SqliteDebugStateStore } from '@x/agents-debugstate/server'
import { sessionRecordFrom } from '@x/mcp-transport'
import type { ServerDefinition } from '../servers/servers.ts'
import { DEBUG_STATE } from '../timeline/events.ts'
import type { SessionRecord } from '../timeline/events.ts'
import { shortId } from './mask.ts'

/** The debug-state service, which stores the sessions of an agent on SQLite. */
export class DebugState implements AsyncDisposable {
  readonly #store: SqliteDebugStateStore
  /** For the page only: a service lists no values. */
  readonly #file: DatabaseSync
  readonly #agentId: string
  readonly definition: ServerDefinition

  constructor(file: string, agentId: string, token: string) {
    const store = new SqliteDebugStateStore(file)
    this.#store = store
    this.#file = new DatabaseSync(store.path, { readOnly: true })
    this.#agentId = agentId
    this.definition = {
      name: DEBUG_STATE,
      title: 'Debug state: stores the sessions of the agent, on SQLite',
      troubles: ['cut-connections'],
      async start() {
        const service = createDebugStateServer({ store, tokens: [{ token, agentIds: [agentId] }] })
        const url = await service.listen()
        return { url, [Symbol.asyncDispose]: () => service[Symbol.asyncDispose]() }
      },
    }
  }

  /** Returns the sessions that are stored, in the order of their servers. */
  async records(): Promise<SessionRecord[]> {
    const rows = this.#file
      .prepare(
        'SELECT key, CAST(value AS TEXT) AS text, updated_at FROM debug_state WHERE agent_id = ? ORDER BY key',
      )
      .all(this.#agentId)
    return rows.flatMap(({ key, text, updated_at: savedAt }) => {
      const record = sessionRecordFrom(JSON.parse(String(text)))
      if (record === undefined) return []
      const { sessionId, protocolVersion: revision, era } = record
      const [, , server = String(key)] = String(key).split(':') // mcpsession:{folder}:{server}
      const shown = { server, sessionId: sessionId && shortId(sessionId), revision, era }
      return [{ ...shown, savedAt: Number(savedAt) }]
    })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#file.close()
    await this.#store[Symbol.asyncDispose]()
  }
}
