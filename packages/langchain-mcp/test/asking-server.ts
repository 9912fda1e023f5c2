import { randomUUID } from 'node:crypto'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import {
  ElicitResultSchema,
  type ElicitResult,
  type ServerRequest,
} from '@modelcontextprotocol/sdk/types.js'
import { deferred, startTestServer, type Deferred } from '@x/mcp-testing'
import { z } from 'zod'

export interface AskingServerOptions {
  /**
   * Stream for questions: the response stream of their call, or the listening stream of the session, where they
   * have no reference to their call (`elicitInput()` of the SDK). @default 'call'
   */
  readonly asksOn?: 'call' | 'session'
}

/** A server with sessions (2025-11-25) that asks a person during a call, and waits for the answer. */
export interface AskingServer extends AsyncDisposable {
  readonly url: string
  /** Number of completed calls of a tool. */
  executions(tool: string): number
  /** Number of calls of a tool. */
  calls(tool: string): number
  /** Resolves when a person was asked the given number of times. */
  asked(times: number): Promise<void>
  /** Resolves when a call of the tool is complete. */
  ended(tool: string): Promise<void>
  /** Resolves when the tool was called the given number of times. */
  called(tool: string, times?: number): Promise<void>
  /** Lets a call of `ask_late` ask its question. */
  release(question: string): void
  /** Forgets all sessions: the next request of each is answered with 404. */
  forgetSessions(): void
  /** Ids of the sessions that have been opened. */
  readonly opened: readonly string[]
}

/**
 * Tools: `pay`; `ask`, which asks one question
 * (`question`); `ask_late`, which asks after `release(question)`, also after a cancellation; `ask_through`,
 * which asks on the stream of the previous call; `ask_twice`. They return the answers that they got.
 */
export async function startAskingServer({
  asksOn = 'call',
}: AskingServerOptions = {}): Promise<AskingServer> {
  const sessions = new Map<string, StreamableHTTPServerTransport>()
  const called: string[] = []
  const ended: string[] = []
  const waiting: { readonly times: number; readonly resolve: () => void }[] = []
  const endings: { readonly tool: string; readonly resolve: () => void }[] = []
  const callings: {
    readonly tool: string
    readonly times: number
    readonly resolve: () => void
  }[] = []
  const releases = new Map<string, Deferred<void>>()
  const opened: string[] = []
  /** By session: resolves when its listening stream is open. Earlier messages are lost. */
  const listening = new Map<string, Deferred<void>>()
  const count = (names: readonly string[], tool: string): number =>
    names.filter((name) => name === tool).length
  let asked = 0

  const releaseOf = (question: string): Deferred<void> => {
    const known = releases.get(question) ?? deferred()
    releases.set(question, known)
    return known
  }

  const newServer = (): McpServer => {
    const server = new McpServer(
      { name: 'asking', version: '1.0.0' },
      { capabilities: { logging: {} } },
    )
    type Ask = (message: string) => Promise<ElicitResult>
    type Send = (request: ServerRequest, schema: typeof ElicitResultSchema) => Promise<ElicitResult>
    const streams: Send[] = []
    const register = (
      name: string,
      run: (args: { question: string }, ask: Ask) => Promise<string>,
    ): void => {
      server.registerTool(
        name,
        { inputSchema: { question: z.string().default('Who?') } },
        async (args, { sendRequest, sendNotification, sessionId = '' }) => {
          called.push(name)
          streams.push(sendRequest)
          for (const { tool, times, resolve } of callings) {
            if (count(called, tool) >= times) resolve()
          }
          if (name === 'log_late') await listening.get(sessionId)?.promise
          if (name === 'log_late') {
            const { question } = args
            await releaseOf(question).promise
            const method = 'notifications/message'
            await sendNotification({ method, params: { level: 'info', data: question } })
            await server.server.sendLoggingMessage({ level: 'info', data: `${question}, aside` })
            await releaseOf(`end ${question}`).promise
          }
          if (asksOn === 'session') await listening.get(sessionId)?.promise
          const text = await run(args, (message) => {
            const requestedSchema = {
              type: 'object' as const,
              properties: { name: { type: 'string' as const } },
            }
            const params = { mode: 'form' as const, message, requestedSchema }
            const send = name === 'ask_through' ? streams.at(-2) : sendRequest
            const answer =
              asksOn === 'session' || send === undefined
                ? server.server.elicitInput(params)
                : send({ method: 'elicitation/create', params }, ElicitResultSchema)
            asked += 1
            for (const { times, resolve } of waiting) if (asked >= times) resolve()
            return answer
          })
          ended.push(name)
          for (const { tool, resolve } of endings) if (tool === name) resolve()
          return { content: [{ type: 'text', text }] }
        },
      )
    }
    register('pay', () => Promise.resolve('paid'))
    register('log_late', () => Promise.resolve('logged'))
    register('ask', async ({ question }, ask) => `${question} ${heard(await ask(question))}`)
    register(
      'ask_through',
      async ({ question }, ask) => `${question} ${heard(await ask(question))}`,
    )
    register('ask_late', async ({ question }, ask) => {
      await releaseOf(question).promise
      return `${question} ${heard(await ask(question))}`
    })
    register('ask_twice', async ({ question }, ask) => {
      const first = heard(await ask(`${question} First`))
      return `${question} ${first}, ${heard(await ask(`${question} Second`))}`
    })
    return server
  }

  const http = await startTestServer((request, response) => {
    const handle = async (): Promise<void> => {
      const id = request.headers['mcp-session-id']
      const known = typeof id === 'string' ? sessions.get(id) : undefined
      if (id !== undefined && known === undefined) {
        response.writeHead(404).end()
        return
      }
      if (known !== undefined) {
        if (request.method === 'GET') {
          const writeHead: (...head: never[]) => unknown = response.writeHead.bind(response)
          Object.assign(response, {
            writeHead: (...head: never[]): unknown => {
              listening.get(String(id))?.resolve()
              return writeHead(...head)
            },
          })
        }
        return known.handleRequest(request, response)
      }
      const transport = new StreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        onsessioninitialized(session) {
          opened.push(session)
          listening.set(session, deferred())
          sessions.set(session, transport)
        },
      })
      await newServer().connect(transport)
      await transport.handleRequest(request, response)
    }
    handle().catch((error: unknown) => {
      response.destroy()
      throw error
    })
  })
  return {
    url: http.url,
    executions: (tool) => count(ended, tool),
    calls: (tool) => count(called, tool),
    asked: (times) =>
      new Promise((resolve) => {
        if (asked >= times) resolve()
        else waiting.push({ times, resolve })
      }),
    ended: (tool) =>
      new Promise((resolve) => {
        if (ended.includes(tool)) resolve()
        else endings.push({ tool, resolve })
      }),
    called: (tool, times = 1) =>
      new Promise((resolve) => {
        if (count(called, tool) >= times) resolve()
        else callings.push({ tool, times, resolve })
      }),
    release: (question) => releaseOf(question).resolve(),
    forgetSessions: () => sessions.clear(),
    opened,
    async [Symbol.asyncDispose]() {
      await Promise.all(Array.from(sessions.values(), (transport) => transport.close()))
      await http[Symbol.asyncDispose]()
    },
  }
}

function heard({ action, content }: ElicitResult): string {
  return action === 'accept' ? String(content?.['name']) : action
}
