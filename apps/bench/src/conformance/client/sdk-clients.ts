import { StreamableHttpTransport } from '@x/mcp-transport'
import type { StreamableHttpTransportOptions } from '@x/mcp-transport'
import type { ClientKind } from '../plan.ts'

/** The part of a `Client` that scenarios use, in each version of the SDK. */
export interface SuiteClient {
  connect(transport: StreamableHttpTransport): Promise<void>
  listTools(): Promise<{ readonly tools: readonly { readonly name: string }[] }>
  callTool(call: ToolCall): Promise<unknown>
  listResources(): Promise<{ readonly resources: readonly { readonly uri: string }[] }>
  readResource(resource: { readonly uri: string }): Promise<unknown>
  listPrompts(): Promise<{ readonly prompts: readonly { readonly name: string }[] }>
  getPrompt(prompt: { readonly name: string }): Promise<unknown>
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

export interface ConnectOptions extends StreamableHttpTransportOptions {
  readonly answers?: Answers
}

/** Connects a stock client on our transport. */
export async function connect(
  { client: kind, url }: { readonly client: ClientKind; readonly url: string },
  { answers = {}, ...options }: ConnectOptions = {},
): Promise<{ readonly client: SuiteClient } & AsyncDisposable> {
  const client = kind === 'v1' ? await newClientV1(answers) : await newClientV2(answers, kind)
  await client.connect(new StreamableHttpTransport(url, options))
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

async function newClientV1(answers: Answers): Promise<SuiteClient> {
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

async function newClientV2(answers: Answers, kind: 'v2' | 'v2-modern'): Promise<SuiteClient> {
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

function reportError(error: Error): void {
  console.error('onerror:', error)
}
