// An agent whose process is killed and started again. The next process finds what was kept outside.
import { InMemoryStore, MemorySaver } from '@langchain/langgraph'
import { startRecordingProxy, type Exchange, type RecordingProxy } from '@x/mcp-testing'
import { SessionInfo, sessionRecordFrom, type SessionRecord } from '@x/mcp-transport'
import { createAgent } from 'langchain'
import { onTestFinished } from 'vitest'
import {
  createMcpTools,
  SessionInfoFactory,
  type CreateMcpToolsOptions,
  type McpTools,
} from '../src/index.ts'
import { ScriptedModel } from './scripted-model.ts'

/** Keeps sessions and lists of tools for the next process. It answers at once: a slow disk must not decide a test. */
class KeptSessions extends SessionInfoFactory {
  /** Records as JSON text. */
  readonly items: Map<string, string> = new Map()

  override createSession(...place: Parameters<SessionInfoFactory['createSession']>): SessionInfo {
    return new KeptSession(this.items, JSON.stringify(place))
  }
}

class KeptSession extends SessionInfo {
  override readonly durable: boolean = true
  readonly #items: Map<string, string>
  readonly #key: string

  constructor(items: Map<string, string>, key: string) {
    super()
    this.#items = items
    this.#key = key
  }

  override async getSessionId(): Promise<string | undefined> {
    return (await this.getRecord())?.sessionId
  }

  override async setSessionId(id: string | undefined): Promise<void> {
    if (id !== (await this.getSessionId())) this.#items.delete(this.#key)
  }

  override async getRecord(): Promise<SessionRecord | undefined> {
    return sessionRecordFrom(JSON.parse(this.#items.get(this.#key) ?? 'null'))
  }

  override async setRecord(record: SessionRecord | undefined): Promise<void> {
    if (record === undefined) this.#items.delete(this.#key)
    else this.#items.set(this.#key, JSON.stringify(record))
  }
}

export type ToolsOptions = Omit<CreateMcpToolsOptions, 'servers'>

export interface AgentProcess {
  readonly mcp: McpTools
  /** Says something in the one thread, and returns the answer. */
  readonly say: (content: string) => Promise<string>
}

export interface AgentWorld {
  readonly proxy: RecordingProxy
  /** What outlives a process. */
  readonly kept: KeptSessions
  readonly store: InMemoryStore
  /** Starts a process that lists the tools, and has an agent with them. The one before it is not closed. */
  start(options: ToolsOptions): Promise<AgentProcess>
}

export async function startAgentWorld(url: string): Promise<AgentWorld> {
  const proxy = await startRecordingProxy(url)
  onTestFinished(() => proxy[Symbol.asyncDispose]())
  const store = new InMemoryStore()
  const checkpointer = new MemorySaver()
  return {
    proxy,
    kept: new KeptSessions(),
    store,
    async start(options) {
      const mcp = createMcpTools({ servers: { shop: proxy.url }, ...options })
      onTestFinished(() => mcp.close())
      const tools = await mcp.listTools()
      const agent = createAgent({ model: new ScriptedModel(), tools, checkpointer, store })
      return {
        mcp,
        async say(content) {
          const { messages } = await agent.invoke(
            { messages: [{ role: 'user', content }] },
            { configurable: { thread_id: 't1' } },
          )
          return messages.at(-1)?.text ?? ''
        },
      }
    },
  }
}

/** Matches requests with a JSON-RPC method. */
export function isRpc(method: string): (exchange: Exchange) => boolean {
  return ({ rpcMethod }) => rpcMethod === method
}

/** Requests since a moment, by their methods. */
export function requestsIn(mark: ReturnType<RecordingProxy['mark']>): string[] {
  return mark.exchanges().map(({ httpMethod, rpcMethod }) => rpcMethod ?? httpMethod)
}
