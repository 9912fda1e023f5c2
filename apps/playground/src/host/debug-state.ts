import { createDebugStateServer, SqliteDebugStateStore } from '@x/agents-debugstate/server'
import { sessionRecordFrom } from '@x/mcp-transport'
import type { ServerDefinition } from '../servers/servers.ts'
import { DEBUG_STATE } from '../timeline/events.ts'
import type { SessionRecord } from '../timeline/events.ts'
import { shortId } from './mask.ts'

/** The debug-state service, which stores the sessions of an agent on SQLite. */
export class DebugState implements AsyncDisposable {
  readonly #store: SqliteDebugStateStore
  readonly #agentId: string
  readonly definition: ServerDefinition

  constructor(file: string, agentId: string, token: string) {
    const store = new SqliteDebugStateStore(file)
    this.#store = store
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
    const agentId = this.#agentId
    const entries = await this.#store.list(agentId, 100)
    const records = entries.map(async ({ key, updatedAt: savedAt }): Promise<SessionRecord[]> => {
      const value = await this.#store.get({ agentId, key })
      if (value === undefined) return []
      const record = sessionRecordFrom(JSON.parse(new TextDecoder().decode(value)))
      if (record === undefined) return []
      const { sessionId, protocolVersion: revision, era } = record
      const [, , server = key] = key.split(':') // mcpsession:{folder}:{server}
      return [{ server, sessionId: sessionId && shortId(sessionId), revision, era, savedAt }]
    })
    return (await Promise.all(records)).flat()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#store[Symbol.asyncDispose]()
  }
}
