// The clients that use the gateway, behind one interface.
import type { StructuredToolInterface } from '@langchain/core/tools'
import { loadMcpTools, MultiServerMCPClient } from '@langchain/mcp-adapters'
import {
  Client as ClientV2,
  StreamableHTTPClientTransport as HttpV2,
} from '@modelcontextprotocol/client'
import { StdioClientTransport as StdioV2 } from '@modelcontextprotocol/client/stdio'
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport as StdioV1 } from '@modelcontextprotocol/sdk/client/stdio.js'
import { StreamableHTTPClientTransport as HttpV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js'
import { createMcpTools } from '@x/langchain-mcp'
import { McpClient } from '@x/mcp-client'

/** How a client reaches the gateway. */
export type Target =
  | { readonly url: string; readonly headers?: Readonly<Record<string, string>> }
  | { readonly command: string; readonly args: readonly string[] }

export interface CallHooks {
  readonly signal?: AbortSignal | undefined
  readonly onProgress?: ((message: string) => void) | undefined
}

/** A connected client. Functions that a client does not have are absent. */
export interface ClientUnderTest extends AsyncDisposable {
  /** Names of the tools. */
  readonly listTools: () => Promise<readonly string[]>
  /** Calls a tool. Returns the whole answer as JSON. */
  readonly call: (tool: string, message: string, hooks?: CallHooks) => Promise<string>
  readonly listPrompts?: () => Promise<readonly string[]>
  /** The messages of a prompt as JSON. */
  readonly getPrompt?: (name: string) => Promise<string>
  /** URIs of the resources. */
  readonly listResources?: () => Promise<readonly string[]>
  /** The contents of a resource as JSON. */
  readonly readResource?: (uri: string) => Promise<string>
}

export interface ClientHooks {
  /** Answers a form with one field. @default the client declares no elicitation */
  readonly answer?: (question: string) => string
  readonly onToolsChanged?: () => void
}

/** A feature of a client beside listing and calling. */
export type Ability =
  | 'prompts'
  | 'resources'
  | 'progress'
  | 'answers'
  | 'changes'
  /** Without an `answer` hook, it declares that it does not support elicitation. */
  | 'silence'
  /** Opens a new session when the gateway has forgotten the old one. */
  | 'heals'

/** A client, configured for one era. */
export interface ClientKind {
  readonly name: string
  /** Era over HTTP. */
  readonly era: 'legacy' | 'modern'
  readonly can: readonly Ability[]
  readonly connect: (target: Target, hooks?: ClientHooks) => Promise<ClientUnderTest>
}

export const CLIENT_INFO = { name: 'interop', version: '1.0.0' } as const

export const SDK_VERSIONS = ['v1', 'v2'] as const
export type SdkVersion = (typeof SDK_VERSIONS)[number]

const SDK_ABILITIES = ['silence', 'prompts', 'resources', 'progress', 'answers', 'changes'] as const

export const sdkV1: ClientKind = {
  name: 'SDK v1',
  era: 'legacy',
  can: SDK_ABILITIES,
  async connect(target, { answer, onToolsChanged } = {}) {
    const client = new ClientV1(CLIENT_INFO, {
      capabilities: answer ? { elicitation: {} } : {},
      ...(onToolsChanged && {
        listChanged: { tools: { onChanged: onToolsChanged, autoRefresh: false, debounceMs: 0 } },
      }),
    })
    if (answer) {
      client.setRequestHandler(ElicitRequestSchema, ({ params }) => ({
        action: 'accept',
        content: { answer: answer(params.message) },
      }))
    }
    await client.connect(
      'command' in target
        ? new StdioV1({ command: target.command, args: [...target.args] })
        : new HttpV1(new URL(target.url), { requestInit: { headers: { ...target.headers } } }),
    )
    return {
      ...listsOf(client),
      call: async (name, message, hooks) =>
        JSON.stringify(
          await client.callTool({ name, arguments: { message } }, undefined, sdkOptions(hooks)),
        ),
    }
  },
}

const V2_MODES = {
  legacy: 'legacy',
  modern: { pin: '2026-07-28' },
  auto: 'auto',
} as const

/** The `Client` of SDK v2 in each of its modes of version negotiation. */
export const sdkV2: readonly ClientKind[] = (['legacy', 'modern', 'auto'] as const).map((mode) => ({
  name: `SDK v2, ${mode}`,
  era: mode === 'legacy' ? 'legacy' : 'modern',
  can: SDK_ABILITIES,
  async connect(target, { answer, onToolsChanged } = {}) {
    const client = new ClientV2(CLIENT_INFO, {
      versionNegotiation: { mode: V2_MODES[mode] },
      capabilities: answer ? { elicitation: { form: {} } } : {},
      ...(onToolsChanged && { listChanged: { tools: { onChanged: onToolsChanged } } }),
    })
    if (answer) {
      client.setRequestHandler('elicitation/create', ({ params }) => ({
        action: 'accept',
        content: { answer: answer('message' in params ? params.message : '') },
      }))
    }
    await client.connect(
      'command' in target
        ? new StdioV2({ command: target.command, args: [...target.args] })
        : new HttpV2(new URL(target.url), { requestInit: { headers: { ...target.headers } } }),
    )
    return {
      ...listsOf(client),
      call: async (name, message, hooks) =>
        JSON.stringify(await client.callTool({ name, arguments: { message } }, sdkOptions(hooks))),
    }
  },
}))

/** The functions for which both versions of the SDK have the same methods. */
function listsOf(client: ClientV1 | ClientV2): Omit<ClientUnderTest, 'call'> {
  return {
    listTools: async () => (await client.listTools()).tools.map(({ name }) => name),
    listPrompts: async () => (await client.listPrompts()).prompts.map(({ name }) => name),
    getPrompt: async (name) => JSON.stringify(await client.getPrompt({ name })),
    listResources: async () => (await client.listResources()).resources.map(({ uri }) => uri),
    readResource: async (uri) => JSON.stringify(await client.readResource({ uri })),
    [Symbol.asyncDispose]: () => client.close(),
  }
}

function sdkOptions({ signal, onProgress }: CallHooks = {}) {
  return {
    ...(signal && { signal }),
    ...(onProgress && {
      onprogress: ({ message = '' }: { message?: string | undefined }) => onProgress(message),
    }),
  }
}

/** `McpClient`: with its default, which finds the newest revision, and limited to legacy revisions. */
const ourClient: readonly ClientKind[] = (['legacy', 'auto'] as const).map((era) => ({
  name: `McpClient, ${era}`,
  era: era === 'legacy' ? 'legacy' : 'modern',
  can: [...SDK_ABILITIES, 'heals'],
  async connect(target, { answer, onToolsChanged } = {}) {
    const client = new McpClient(target, {
      era,
      clientInfo: CLIENT_INFO,
      handlers: { elicitation: answer && accepting(answer) },
    })
    if (onToolsChanged) client.on('toolListChanged', onToolsChanged)
    return {
      async listTools() {
        const tools = await client.listTools({ forceRefresh: true })
        return tools.map(({ name }) => name)
      },
      async call(name, message, { signal, onProgress } = {}) {
        const progress = onProgress && (({ message: text = '' }) => onProgress(text))
        const options = { signal, onProgress: progress }
        return JSON.stringify(await client.callTool(name, { message }, options))
      },
      listPrompts: async () => (await client.listPrompts()).map(({ name }) => name),
      getPrompt: async (name) => JSON.stringify(await client.getPrompt(name)),
      listResources: async () => (await client.listResources()).map(({ uri }) => uri),
      readResource: async (uri) => JSON.stringify(await client.readResource(uri)),
      [Symbol.asyncDispose]: () => client.dispose(),
    }
  },
}))

/** LangChain's adapters with their own client and transports. They do not support elicitation. */
const adapters: ClientKind = {
  name: '@langchain/mcp-adapters',
  era: 'legacy',
  can: ['silence', 'resources', 'progress', 'changes'],
  async connect(target, { onToolsChanged } = {}) {
    const connection =
      'command' in target
        ? { transport: 'stdio' as const, command: target.command, args: [...target.args] }
        : {
            transport: 'http' as const,
            url: target.url,
            headers: { ...target.headers },
            automaticSSEFallback: false, // else they try HTTP+SSE after a refusal
          }
    const client = new MultiServerMCPClient({
      mcpServers: { gateway: connection },
      ...(onToolsChanged && { onToolsListChanged: onToolsChanged }),
    })
    await client.initializeConnections()
    const connected = async (): Promise<Parameters<typeof loadMcpTools>[1]> => {
      const one = await client.getClient('gateway')
      if (one === undefined) throw new Error('The adapters are not connected')
      return one
    }
    return {
      listTools: async () => callsOf(await loadMcpTools('gateway', await connected())).names,
      // Loads the tools each time: `getTools()` returns its first list, also after a change.
      async call(name, message, { signal, onProgress } = {}) {
        const tools = await loadMcpTools('gateway', await connected(), {
          outputHandling: 'content', // else files are beside the answer that the model gets
          ...(onProgress && { onProgress: ({ message: text = '' }) => onProgress(text) }),
        })
        return callsOf(tools).call(name, { message }, signal)
      },
      async listResources() {
        const { gateway = [] } = await client.listResources()
        return gateway.map(({ uri }) => uri)
      },
      readResource: async (uri) => JSON.stringify(await client.readResource('gateway', uri)),
      [Symbol.asyncDispose]: () => client.close(),
    }
  },
}

/** `createMcpTools`, as a LangChain agent uses the tools. */
const ourTools: ClientKind = {
  name: 'createMcpTools',
  era: 'modern',
  can: ['answers', 'changes', 'heals'],
  async connect(target, { answer, onToolsChanged } = {}) {
    const tools = createMcpTools({
      servers: { gateway: target },
      onServerError: 'throw',
      handlers: { elicitation: answer && accepting(answer) },
    })
    if (onToolsChanged) tools.on('toolsChanged', onToolsChanged)
    return {
      listTools: async () => callsOf(await tools.listTools()).names,
      call: async (name, message, { signal } = {}) =>
        callsOf(await tools.listTools()).call(name, { message }, signal),
      [Symbol.asyncDispose]: () => tools.close(),
    }
  },
}

/** All clients that are libraries. */
export const KINDS: readonly ClientKind[] = [sdkV1, ...sdkV2, ...ourClient, adapters, ourTools]

function accepting(answer: (question: string) => string) {
  return ({ message }: { message: string }) => ({
    action: 'accept' as const,
    content: { answer: answer(message) },
  })
}

/** LangChain tools, called by their names. */
export interface ToolCalls {
  readonly names: readonly string[]
  /** Returns the whole answer as JSON, because its shape differs between packages. */
  readonly call: (name: string, args?: object, signal?: AbortSignal) => Promise<string>
}

export function callsOf(
  tools: readonly Pick<StructuredToolInterface, 'name' | 'invoke'>[],
): ToolCalls {
  return {
    names: tools.map(({ name }) => name),
    async call(name, args = {}, signal?: AbortSignal) {
      const tool = tools.find((one) => one.name === name)
      if (tool === undefined) throw new Error(`There is no tool "${name}"`)
      const answer: unknown = await tool.invoke(args, signal && { signal })
      return JSON.stringify(answer) ?? ''
    },
  }
}
