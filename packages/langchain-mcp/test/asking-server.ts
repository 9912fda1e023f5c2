import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { ElicitResultSchema, type ElicitResult } from '@modelcontextprotocol/sdk/types.js'
import { z } from 'zod'

/** A server with sessions (2025-11-25) that asks people in the middle of its calls, and waits. */
export interface AskingServer extends AsyncDisposable {
  readonly url: string
  /** How often a tool ran to its end. */
  executions(tool: string): number
  /** How often a tool was called. */
  calls(tool: string): number
  /** Resolves when a person was asked so often. */
  asked(times: number): Promise<void>
  /** Resolves when a tool has run to its end. */
  ended(tool: string): Promise<void>
}

/** Tools: `pay`; `ask`, which asks one question (`question`); `ask_twice`. They answer with what they heard. */
export async function startAskingServer(): Promise<AskingServer> {
  const sessions = new Map<string, StreamableHTTPServerTransport>()
  const called: string[] = []
  const ended: string[] = []
  const waiting: { readonly times: number; readonly resolve: () => void }[] = []
  const endings: { readonly tool: string; readonly resolve: () => void }[] = []
  let asked = 0

  const newServer = (): McpServer => {
    const server = new McpServer(
      { name: 'asking', version: '1.0.0' },
      { capabilities: { logging: {} } },
    )
    type Ask = (message: string) => Promise<ElicitResult>
    const register = (
      name: string,
      run: (args: { question: string }, ask: Ask) => Promise<string>,
    ): void => {
      server.registerTool(
        name,
        { inputSchema: { question: z.string().default('Who?') } },
        async (args, { sendRequest }) => {
          called.push(name)
          const text = await run(args, (message) => {
            const requestedSchema = {
              type: 'object' as const,
              properties: { name: { type: 'string' as const } },
            }
            const answer = sendRequest(
              { method: 'elicitation/create', params: { mode: 'form', message, requestedSchema } },
              ElicitResultSchema,
            )
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
    register('ask', async ({ question }, ask) => `${question} ${heard(await ask(question))}`)
    register('ask_twice', async ({ question }, ask) => {
      const first = heard(await ask(`${question} First`))
      return `${question} ${first}, ${heard(await ask(`${question} Second`))}`
    })
    return server
  }

  const http = createServer((request, response) => {
    const handle = async (): Promise<void> => {
      const id = request.headers['mcp-session-id']
      const known = typeof id === 'string' ? sessions.get(id) : undefined
      if (id !== undefined && known === undefined) {
        response.writeHead(404).end()
        return
      }
      if (known !== undefined) return known.handleRequest(request, response)
      const transport = new StreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        onsessioninitialized: (session) => void sessions.set(session, transport),
      })
      await newServer().connect(transport)
      await transport.handleRequest(request, response)
    }
    handle().catch((error: unknown) => {
      response.destroy()
      throw error
    })
  })
  http.listen(0, '127.0.0.1')
  await once(http, 'listening')
  const count = (names: readonly string[], tool: string): number =>
    names.filter((name) => name === tool).length
  return {
    url: `http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`,
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
    async [Symbol.asyncDispose]() {
      await Promise.all(Array.from(sessions.values(), (transport) => transport.close()))
      http.closeAllConnections()
      http.close()
    },
  }
}

function heard({ action, content }: ElicitResult): string {
  return action === 'accept' ? String(content?.['name']) : action
}
