// An agent whose process is killed and started again. The next process finds what a folder and the graph's store keep.
import { InMemoryStore, MemorySaver } from '@langchain/langgraph'
import { temporaryFolder } from '@x/internal/testing'
import { startRecordingProxy, type Exchange, type RecordingProxy } from '@x/mcp-testing'
import { createAgent } from 'langchain'
import { onTestFinished } from 'vitest'
import { createMcpTools, type CreateMcpToolsOptions, type McpTools } from '../src/index.ts'
import { ScriptedModel } from './scripted-model.ts'

export type ToolsOptions = Omit<CreateMcpToolsOptions, 'servers'>

export interface AgentProcess {
  readonly mcp: McpTools
  /** Says something in the one thread, and returns the answer. */
  readonly say: (content: string) => Promise<string>
}

export interface AgentWorld {
  readonly proxy: RecordingProxy
  /** A folder, and a store, that outlive a process. */
  readonly folder: string
  readonly store: InMemoryStore
  /** Starts a process that lists the tools, and has an agent with them. The one before it is not closed. */
  start(options: ToolsOptions): Promise<AgentProcess>
}

export async function startAgentWorld(url: string): Promise<AgentWorld> {
  const proxy = await startRecordingProxy(url)
  const folder = await temporaryFolder()
  onTestFinished(async () => {
    await proxy[Symbol.asyncDispose]()
    await folder[Symbol.asyncDispose]()
  })
  const store = new InMemoryStore()
  const checkpointer = new MemorySaver()
  return {
    proxy,
    folder: folder.path,
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
