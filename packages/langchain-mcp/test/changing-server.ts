import { randomUUID } from 'node:crypto'
import { McpServer, type RegisteredTool } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { startTestServer } from '@x/mcp-testing'
import { z } from 'zod'

/** A server of SDK v1 with sessions, whose tools can change. */
export interface ChangingServer extends AsyncDisposable {
  readonly url: string
  /** Number of executions of a tool. */
  readonly runs: readonly string[]
  /** Adds a tool, and notifies the clients. */
  add(name: string): void
  remove(name: string): void
  /** Changes the description of a tool. */
  redefine(name: string, description: string): void
  /** Adds a required parameter to a tool. */
  require(name: string, parameter: string): void
}

/** Has the tools `pay` and `look`. */
export async function startChangingServer(): Promise<ChangingServer> {
  const descriptions = new Map([
    ['pay', 'Pays an amount.'],
    ['look', 'Looks around.'],
  ])
  const required = new Map<string, string>()
  const runs: string[] = []
  const sessions = new Map<
    string,
    {
      readonly mcp: McpServer
      readonly transport: StreamableHTTPServerTransport
      readonly tools: Map<string, RegisteredTool>
    }
  >()

  const register = (mcp: McpServer, name: string): RegisteredTool => {
    const parameter = required.get(name)
    const inputSchema = parameter === undefined ? {} : { [parameter]: z.string() }
    return mcp.registerTool(
      name,
      { description: descriptions.get(name) ?? name, inputSchema },
      () => {
        runs.push(name)
        return { content: [{ type: 'text', text: `${name} done` }] }
      },
    )
  }

  const opened = async (): Promise<StreamableHTTPServerTransport> => {
    const mcp = new McpServer({ name: 'changing', version: '1.0.0' })
    const tools = new Map([...descriptions.keys()].map((name) => [name, register(mcp, name)]))
    const transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (id) => void sessions.set(id, { mcp, transport, tools }),
    })
    await mcp.connect(transport)
    return transport
  }

  const http = await startTestServer((request, response) => {
    const id = request.headers['mcp-session-id']
    const known = typeof id === 'string' ? sessions.get(id)?.transport : undefined
    void (async () => (known ?? (await opened())).handleRequest(request, response))()
  })

  return {
    url: http.url,
    runs,
    add(name) {
      descriptions.set(name, `Does ${name}.`)
      for (const { mcp, tools } of sessions.values()) tools.set(name, register(mcp, name))
    },
    remove(name) {
      descriptions.delete(name)
      for (const { tools } of sessions.values()) tools.get(name)?.remove()
    },
    redefine(name, description) {
      descriptions.set(name, description)
      for (const { tools } of sessions.values()) tools.get(name)?.update({ description })
    },
    require(name, parameter) {
      required.set(name, parameter)
      for (const { tools } of sessions.values()) {
        tools.get(name)?.update({ paramsSchema: { [parameter]: z.string() } })
      }
    },
    async [Symbol.asyncDispose]() {
      for (const { mcp } of sessions.values()) await mcp.close()
      await http[Symbol.asyncDispose]()
    },
  }
}
