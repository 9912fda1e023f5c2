import {
  ARGS,
  checkResult,
  checkText,
  CLIENT_INFO,
  DEFINITION,
  isModern,
  TOOL,
} from './messages.ts'

/** One way to call the tool of the server. */
export interface Contender extends AsyncDisposable {
  /** Calls the tool once. Rejects unless the result is the right one. */
  call(): Promise<void>
}

type Maker = (url: string, file: string) => Promise<Contender>

/** Makes each contender. Loads only the code of that one, because the process is measured. */
const makers = {
  /** A bare `dispatch` of undici, the least that any client costs. */
  async dispatch(url) {
    const { bareDispatch } = await import('./undici.ts')
    return bareDispatch(url)
  },
  /** `undici.request`, without session handling, errors or deadlines. */
  async 'undici-request'(url) {
    const { undiciRequest } = await import('./undici.ts')
    return undiciRequest(url)
  },
  /** Our transport with a bare `onmessage`. */
  async transport(url) {
    const { StreamableHttpTransport } = await import('@x/mcp-transport')
    const { overTransport } = await import('./over-transport.ts')
    const era = isModern(url) ? 'modern' : 'legacy'
    return overTransport(new StreamableHttpTransport(url, { era }))
  },
  /** The transport of SDK v1 with a bare `onmessage`. */
  async 'sdk-v1-transport'(url) {
    const sdk = await import('@modelcontextprotocol/sdk/client/streamableHttp.js')
    const { overTransport } = await import('./over-transport.ts')
    return overTransport(new sdk.StreamableHTTPClientTransport(new URL(url)))
  },
  /** `McpClient`, with its session in a file if one is named. */
  async 'mcp-client'(url, file) {
    const { McpClient, SessionInfoFactory } = await import('@x/mcp-client')
    const { FileSessionInfo } = await import('@x/mcp-transport')
    const inFile = new SessionInfoFactory()
    inFile.createSession = () => new FileSessionInfo(file)
    const sessionInfoFactory = file === '' ? undefined : inFile
    const client = new McpClient({ url }, { clientInfo: CLIENT_INFO, sessionInfoFactory })
    return {
      call: async () => checkResult(await client.callTool(TOOL, ARGS)),
      [Symbol.asyncDispose]: () => client.dispose(),
    }
  },
  /** `McpClient`. A call starts a task, and leaves it to be polled. */
  async polling(url) {
    const { McpClient } = await import('@x/mcp-client')
    const client = new McpClient({ url }, { clientInfo: CLIENT_INFO })
    return {
      async call() {
        const { task } = await client.startTool(TOOL, ARGS)
        if (task === undefined) throw new Error('The call did not become a task')
        task.result().catch(() => {}) // ends with the client
      },
      [Symbol.asyncDispose]: () => client.dispose(),
    }
  },
  /** The `Client` of SDK v1 on its own transport. */
  async 'sdk-v1'(url) {
    const { Client } = await import('@modelcontextprotocol/sdk/client/index.js')
    const sdk = await import('@modelcontextprotocol/sdk/client/streamableHttp.js')
    const client = new Client(CLIENT_INFO)
    await client.connect(new sdk.StreamableHTTPClientTransport(new URL(url)))
    return overClient(client)
  },
  /** The `Client` of SDK v2 on its own transport. */
  async 'sdk-v2'(url) {
    const sdk = await import('@modelcontextprotocol/client')
    const client = new sdk.Client(CLIENT_INFO)
    await client.connect(new sdk.StreamableHTTPClientTransport(new URL(url)))
    return overClient(client)
  },
  /** A tool of `createMcpTools`, called as an agent calls it. */
  async 'tools-live'(url) {
    const { createMcpTools } = await import('@x/langchain-mcp')
    const mcp = createMcpTools({ servers: { bench: { url } }, clientInfo: CLIENT_INFO })
    return invoking(await mcp.listTools(), () => mcp.close())
  },
  /** A tool of an agent definition. Its stored schema is compared with the server's before each call. */
  async 'tools-cached'(url) {
    const { createMcpToolsFromAgent } = await import('@x/langchain-mcp')
    const { StaticServerDirectory } = await import('@x/mcp-client')
    const resource = {
      $resourceType: 'mcp',
      name: 'Bench',
      slug: 'bench',
      availableTools: [DEFINITION],
    }
    const { tools, clients } = await createMcpToolsFromAgent(
      { resources: [resource] },
      { directory: new StaticServerDirectory({ bench: url }), clientInfo: CLIENT_INFO },
    )
    return invoking(tools, async () => {
      await Promise.all(clients.map((client) => client.dispose()))
    })
  },
  /** A tool of `@langchain/mcp-adapters`. */
  async adapters(url) {
    const { MultiServerMCPClient } = await import('@langchain/mcp-adapters')
    const client = new MultiServerMCPClient({ mcpServers: { bench: { transport: 'http', url } } })
    return invoking(await client.getTools(), () => client.close())
  },
} satisfies Record<string, Maker>

export type ContenderName = keyof typeof makers

export function makeContender(name: ContenderName, url: string, file = ''): Promise<Contender> {
  return (makers[name] as Maker)(url, file)
}

/** The method that both versions of the SDK's `Client` have. */
interface SdkClient {
  callTool(params: { name: string; arguments: typeof ARGS }): Promise<unknown>
  close(): Promise<void>
}

function overClient(client: SdkClient): Contender {
  return {
    call: async () => checkResult(await client.callTool({ name: TOOL, arguments: ARGS })),
    [Symbol.asyncDispose]: () => client.close(),
  }
}

interface Invokable {
  readonly name: string
  invoke(args: typeof ARGS): Promise<unknown>
}

/** Calls a LangChain tool as an agent does. */
function invoking(tools: readonly Invokable[], dispose: () => Promise<void>): Contender {
  const tool = tools.find(({ name }) => name === TOOL)
  if (tool === undefined) throw new Error(`There is no tool "${TOOL}"`)
  return {
    call: async () => checkText(await tool.invoke(ARGS)),
    [Symbol.asyncDispose]: dispose,
  }
}
