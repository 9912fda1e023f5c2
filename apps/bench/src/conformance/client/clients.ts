import type { McpSkills } from '@x/mcp-client/skills'
import { StreamableHttpTransport } from '@x/mcp-transport'
import type { AuthProvider } from '@x/mcp-transport/auth'
import type { ClientKind } from '../plan.ts'

/** The part of a client that scenarios use: of `McpClient`, and of the `Client` in each version of the SDK. */
export interface SuiteClient {
  listTools(): Promise<{
    readonly tools: readonly { readonly name: string; readonly inputSchema: object }[]
  }>
  callTool(call: ToolCall): Promise<unknown>
  listResources(): Promise<{ readonly resources: readonly { readonly uri: string }[] }>
  readResource(resource: { readonly uri: string }): Promise<unknown>
  listPrompts(): Promise<{ readonly prompts: readonly { readonly name: string }[] }>
  getPrompt(prompt: { readonly name: string }): Promise<unknown>
  /** Only of `McpClient`. */
  readonly skills?: McpSkills
}

/** A `Client` of the SDK. */
interface SdkClient extends SuiteClient {
  connect(transport: StreamableHttpTransport): Promise<void>
  close(): Promise<void>
}

export interface ToolCall {
  readonly name: string
  readonly arguments: Record<string, unknown>
}

/** Requests of servers that the client supports, with its answers. */
export interface Answers {
  readonly elicitation?: {
    /** The client fills empty fields with their defaults (SEP-1034). */
    readonly applyDefaults: boolean
    /** Content that the user accepts with. */
    readonly content: Record<string, boolean>
  }
  /** Text of the model. */
  readonly sampling?: string
  readonly roots?: readonly []
}

export interface ConnectOptions {
  readonly answers?: Answers
  readonly authProvider?: AuthProvider
}

type ConnectedClient = { readonly client: SuiteClient } & AsyncDisposable

/** Connects a stock client on our transport, or creates an `McpClient`, which connects at its first call. */
export async function connect(
  { client: kind, url }: { readonly client: ClientKind; readonly url: string },
  options: ConnectOptions = {},
): Promise<ConnectedClient> {
  if (kind === 'mcp-client') return newMcpClient(url, options)
  const { answers = {}, ...transportOptions } = options
  const client = kind === 'v1' ? await newClientV1(answers) : await newClientV2(answers, kind)
  await client.connect(new StreamableHttpTransport(url, transportOptions))
  return { client, [Symbol.asyncDispose]: () => client.close() }
}

const INFO = { name: 'conformance-client', version: '1.0.0' } as const

function capabilitiesOf({ elicitation, sampling, roots }: Answers) {
  return {
    ...(elicitation && { elicitation: { form: { applyDefaults: elicitation.applyDefaults } } }),
    ...(sampling !== undefined && { sampling: {} }),
    ...(roots && { roots: { listChanged: true } }),
  }
}

/** Results for the requests of servers. */
function resultsOf({ elicitation, sampling = '', roots = [] }: Answers) {
  return {
    elicitation: { action: 'accept' as const, content: { ...elicitation?.content } },
    sampling: {
      model: 'none',
      role: 'assistant' as const,
      content: { type: 'text' as const, text: sampling },
    },
    roots: { roots: [...roots] },
  }
}

async function newClientV1(answers: Answers): Promise<SdkClient> {
  const { Client } = await import('@modelcontextprotocol/sdk/client/index.js')
  const types = await import('@modelcontextprotocol/sdk/types.js')
  const client = new Client(INFO, { capabilities: capabilitiesOf(answers) })
  client.onerror = reportError
  const results = resultsOf(answers)
  if (answers.elicitation !== undefined) {
    client.setRequestHandler(types.ElicitRequestSchema, () => results.elicitation)
  }
  if (answers.sampling !== undefined) {
    client.setRequestHandler(types.CreateMessageRequestSchema, () => results.sampling)
  }
  if (answers.roots !== undefined) {
    client.setRequestHandler(types.ListRootsRequestSchema, () => results.roots)
  }
  return client
}

async function newClientV2(answers: Answers, kind: 'v2' | 'v2-modern'): Promise<SdkClient> {
  const { Client } = await import('@modelcontextprotocol/client')
  const mode = kind === 'v2' ? 'legacy' : 'auto'
  const client = new Client(INFO, {
    capabilities: capabilitiesOf(answers),
    versionNegotiation: { mode },
  })
  client.onerror = reportError
  const results = resultsOf(answers)
  if (answers.elicitation !== undefined) {
    client.setRequestHandler('elicitation/create', () => results.elicitation)
  }
  if (answers.sampling !== undefined) {
    client.setRequestHandler('sampling/createMessage', () => results.sampling)
  }
  if (answers.roots !== undefined) {
    client.setRequestHandler('roots/list', () => results.roots)
  }
  return client
}

async function newMcpClient(
  url: string,
  { answers = {}, authProvider }: ConnectOptions,
): Promise<ConnectedClient> {
  const { McpClient } = await import('@x/mcp-client')
  const { McpSkills } = await import('@x/mcp-client/skills')
  const { elicitation, sampling, roots } = resultsOf(answers)
  const client = new McpClient(url, {
    clientInfo: INFO,
    authProvider,
    handlers: {
      ...(answers.elicitation && { elicitation: () => elicitation }),
      ...(answers.sampling !== undefined && { sampling: () => sampling }),
      ...(answers.roots && { roots: () => roots.roots }),
    },
    // A client that fills in defaults has to declare it. The other capabilities are those of the handlers.
    ...(answers.elicitation?.applyDefaults && {
      capabilities: { elicitation: { form: { applyDefaults: true } } },
    }),
  })
  client.on('log', ({ level, message, cause }) => console.error(`${level}: ${message}`, cause))
  return {
    client: {
      listTools: async () => ({ tools: await client.listTools() }),
      callTool: (call) => client.callTool(call.name, call.arguments),
      listResources: async () => ({ resources: await client.listResources() }),
      readResource: ({ uri }) => client.readResource(uri),
      listPrompts: async () => ({ prompts: await client.listPrompts() }),
      getPrompt: ({ name }) => client.getPrompt(name),
      skills: new McpSkills(client),
    },
    [Symbol.asyncDispose]: () => client.dispose(),
  }
}

function reportError(error: Error): void {
  console.error('onerror:', error)
}
