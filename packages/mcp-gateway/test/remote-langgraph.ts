import type { IncomingMessage, ServerResponse } from 'node:http'
import { text } from 'node:stream/consumers'
import { startTestServer } from '@x/mcp-testing'

type Json = Readonly<Record<string, unknown>>

interface RemoteRun {
  readonly id: string
  readonly thread: string
  readonly body: Json
  status: 'running' | 'success' | 'interrupted' | 'error'
  readonly streams: Set<ServerResponse>
}

/** A LangGraph server with one assistant. It has threads and runs, which go on until the test ends them. */
export interface RemoteLangGraph extends AsyncDisposable {
  readonly url: string
  readonly runs: readonly RemoteRun[]
  /** Method and path of all requests. */
  readonly lines: readonly string[]
  /** Ends the newest run that goes on. Its thread then has this state. */
  end(status: RemoteRun['status'], state: Json): void
  /** Cuts all streams. */
  cut(): void
  /** Forgets all runs, as a server does that keeps them in memory and starts again. */
  forget(): void
  /** Somebody else changes all threads, for example in Studio. `undefined` deletes them. */
  change(state: Json | undefined): void
  /** Status of the response to each new run. `undefined`: the run is started. */
  refusal: number | undefined
  /** Number of requests for a state that fail from now on. */
  failures: number
}

/** The text of the assistant, as the state of its thread. */
export function answered(content: string): Json {
  return { values: { messages: [{ type: 'ai', content }] }, tasks: [] }
}

/** A question, as the state of the thread. */
export function asking(value: string): Json {
  const id = 'f3fc6cde1fe7734b6705036f31d3bd04'
  return { values: { messages: [] }, tasks: [{ interrupts: [{ id, value }] }] }
}

export async function startRemoteLangGraph(): Promise<RemoteLangGraph> {
  const runs: RemoteRun[] = []
  const states = new Map<string, Json>()
  const lines: string[] = []
  const faults: Pick<RemoteLangGraph, 'failures' | 'refusal'> = { failures: 0, refusal: undefined }
  let threads = 0
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const body = JSON.parse((await text(request)) || '{}') as Json
    const { pathname } = new URL(request.url ?? '', 'http://langgraph.test')
    lines.push(`${request.method} ${pathname}`)
    const json = (value: unknown): void => {
      response.setHeader('content-type', 'application/json')
      response.end(JSON.stringify(value))
    }
    const stream = (run: RemoteRun): void => {
      response.setHeader('content-type', 'text/event-stream')
      response.setHeader('content-location', `/threads/${run.thread}/runs/${run.id}`)
      response.write(`event: metadata\ndata: ${JSON.stringify({ run_id: run.id })}\n\n`)
      if (run.status !== 'running') response.end()
      else run.streams.add(response)
    }
    const [, thread = '', id = '', action = ''] =
      /^\/threads\/([^/]+)(?:\/(?:runs|state)(?:\/([^/]+))?(?:\/(\w+))?)?$/.exec(pathname) ?? []
    const run = runs.find((each) => each.thread === thread && each.id === id)
    if (pathname === '/assistants/search') json([support])
    else if (pathname === '/assistants/a1/schemas') {
      json({ input_schema: { properties: { messages: {} } } })
    } else if (pathname === '/threads') {
      const threadId = `t${++threads}`
      states.set(threadId, answered(''))
      json({ thread_id: threadId })
    } else if (!states.has(thread)) response.writeHead(404).end()
    else if (request.method === 'DELETE') {
      states.delete(thread)
      response.writeHead(204).end()
    } else if (id === 'stream' && faults.refusal !== undefined) {
      response.writeHead(faults.refusal).end('{"detail":"Thread is already running a task."}')
    } else if (id === 'stream') {
      const streams = new Set<ServerResponse>()
      const created = {
        id: `r${runs.length + 1}`,
        thread,
        body,
        status: 'running',
        streams,
      } as const
      runs.push(created)
      stream(created)
    } else if (pathname.endsWith('/state')) {
      if (faults.failures > 0) {
        faults.failures -= 1
        response.writeHead(503).end()
      } else json(states.get(thread))
    } else if (pathname.endsWith('/runs')) {
      const own = runs.filter((each) => each.thread === thread)
      json(own.map((each) => ({ run_id: each.id, metadata: each.body['metadata'] })))
    } else if (run === undefined) response.writeHead(404).end()
    else if (action === 'stream') stream(run)
    else if (action === 'cancel') {
      run.status = 'interrupted'
      for (const open of run.streams) open.end()
      response.writeHead(204).end()
    } else json({ run_id: run.id, status: run.status })
  }
  const server = await startTestServer((request, response) => void answer(request, response), '')
  return Object.assign(faults, {
    url: server.url,
    runs,
    lines,
    end(status: RemoteRun['status'], state: Json) {
      const run = runs.findLast((each) => each.status === 'running')
      if (run === undefined) return
      states.set(run.thread, state)
      run.status = status
      for (const open of run.streams) open.end()
    },
    cut: () => {
      for (const { streams } of runs) for (const open of streams) open.destroy()
    },
    forget: () => void runs.splice(0),
    change: (state: Json | undefined) => {
      for (const thread of states.keys()) {
        if (state === undefined) states.delete(thread)
        else states.set(thread, state)
      }
    },
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  })
}

/** An assistant, as a LangGraph server describes it. */
export const support: Json = {
  assistant_id: 'a1',
  graph_id: 'support',
  name: 'support',
  description: 'Answers questions',
  version: 1,
  updated_at: '2026-01-01',
}
