import { randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { text } from 'node:stream/consumers'
import { BaseMessage } from '@langchain/core/messages'
import { Command } from '@langchain/langgraph'
import { isRecord } from '@x/internal'
import { startTestServer } from '@x/mcp-testing'
import type { RunnableGraph } from '../src/agents/langgraph/definition.ts'

type Json = Readonly<Record<string, unknown>>

/** Writes messages as a LangGraph server does. */
function plain(value: unknown): unknown {
  if (value instanceof BaseMessage) {
    const { data, type } = value.toDict()
    return { ...data, type }
  }
  if (Array.isArray(value)) return value.map(plain)
  if (!isRecord(value) || Object.getPrototypeOf(value) !== Object.prototype) return value
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, plain(each)]))
}

interface GraphServer extends AsyncDisposable {
  readonly url: string
  /** Bodies of the runs that were started. */
  readonly runs: readonly Json[]
  /** Ids of the threads that were created. */
  readonly threads: readonly string[]
}

interface GraphServerOptions {
  /** JSON schema of the context. */
  readonly contextSchema?: Json
  /** Answers as a server for Python does. @default false */
  readonly isPython?: boolean
}

/** A LangGraph server that executes one real graph of this process. Its graph needs a checkpointer. */
export async function startGraphServer(
  graph: RunnableGraph,
  { contextSchema, isPython = false }: GraphServerOptions = {},
): Promise<GraphServer> {
  const runs: Json[] = []
  const threads: string[] = []
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const body = JSON.parse((await text(request)) || '{}') as Json
    const { pathname, searchParams } = new URL(request.url ?? '', 'http://langgraph.test')
    const json = (value: unknown): void => {
      response.setHeader('content-type', 'application/json')
      response.end(JSON.stringify(plain(value)))
    }
    const thread = pathname.split('/')[2] ?? ''
    const configurable = { thread_id: thread }
    if (pathname === '/info') json({ version: '1.5.1', ...(!isPython && { context: 'js' }) })
    else if (pathname === '/assistants/search') json([ASSISTANT])
    else if (pathname.endsWith('/schemas')) {
      json({ input_schema: INPUT_SCHEMA, ...(contextSchema && { context_schema: contextSchema }) })
    } else if (pathname === '/threads') {
      const id = randomUUID()
      threads.push(id)
      json({ thread_id: id })
    } else if (pathname.endsWith('/state')) {
      const subgraphs = searchParams.get('subgraphs') === 'true'
      const state = await graph.getState?.({ configurable }, { subgraphs })
      json({ ...(isRecord(state) && state), checkpoint: checkpointOf(state) })
    } else if (pathname.endsWith('/runs/stream')) {
      response.setHeader('content-type', 'text/event-stream')
      const send = (event: string, data: unknown): void => {
        response.write(`event: ${event}\ndata: ${JSON.stringify(plain(data))}\n\n`)
      }
      send('metadata', { run_id: randomUUID() })
      runs.push(body)
      const { command, context } = body
      const input = isRecord(command) ? new Command(command) : body['input']
      const streamMode = ['messages', 'updates', 'custom', 'values']
      const chunks = await graph.stream(input, {
        configurable,
        streamMode,
        subgraphs: true,
        ...(isRecord(context) && { context }),
      })
      for await (const chunk of chunks) {
        const [path, mode, payload] = chunk as [readonly string[], string, unknown]
        send([mode, ...path].join('|'), payload)
      }
      response.end()
    } else response.writeHead(204).end()
  }
  const server = await startTestServer((request, response) => void answer(request, response), '')
  return {
    url: server.url,
    runs,
    threads,
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  }
}

function checkpointOf(state: unknown): unknown {
  const config = isRecord(state) ? state['config'] : undefined
  return isRecord(config) ? config['configurable'] : undefined
}

const INPUT_SCHEMA: Json = { type: 'object', properties: { messages: { type: 'array' } } }
const ASSISTANT: Json = {
  assistant_id: 'a1',
  graph_id: 'support',
  name: 'support',
  description: 'Answers questions',
  version: 1,
  updated_at: '2026-01-01',
}
