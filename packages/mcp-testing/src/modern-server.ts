import type { ServerResponse } from 'node:http'
import { toNodeHandler } from '@modelcontextprotocol/node'
import type {
  CallToolResult,
  GetPromptResult,
  McpHttpHandler,
  McpRequestContext,
  StandardSchemaWithJSON,
  ToolAnnotations,
} from '@modelcontextprotocol/server'
import {
  completable,
  createMcpHandler,
  fromJsonSchema,
  McpServer,
  ResourceTemplate,
} from '@modelcontextprotocol/server'
import { z } from 'zod'
import { resetConnection } from './loopback-server.ts'
import type { HandledRequest, Listener, ReceivedRequest, ServerOptions } from './recorded-server.ts'
import { StatelessServer } from './recorded-server.ts'
import type { Mutable } from './recording.ts'
import type { TestTool } from './tools.ts'
import { definitionOf, modernTools } from './tools.ts'

export interface ModernServerOptions extends ServerOptions {
  /** The tools. @default built-in tools such as `echo`, `slow` and `confirm` */
  readonly tools?: readonly TestTool[] | undefined
  /** Refuses legacy clients, or serves them without sessions. @default 'reject' */
  readonly legacy?: 'reject' | 'serve' | undefined
  /** `auto`: JSON, unless a notification comes before the answer. @default 'auto' */
  readonly answerAs?: 'auto' | 'sse' | undefined
  /** `ttlMs` of `tools/list`, in milliseconds. @default 0 */
  readonly listTtlMs?: number | undefined
}

/**
 * Starts a {@link ModernServer} on a free port of 127.0.0.1.
 *
 * @example
 * ```ts
 * import { startModernServer } from '@x/mcp-testing'
 *
 * await using server = await startModernServer() // stateless: it has no sessions
 * console.log(server.url)
 * ```
 */
export async function startModernServer(options: ModernServerOptions = {}): Promise<ModernServer> {
  const server = new ModernServer(options)
  await server.start()
  return server
}

/** A stateless MCP server (2026-07-28) of SDK v2 that records what it sees. */
export class ModernServer extends StatelessServer<Mutable<Listener>> {
  /** The tools. Changing them does not notify clients; {@link toolsChanged} does. */
  tools: readonly TestTool[]
  readonly #listTtlMs: number
  /** Responses of the open listen streams. */
  readonly #listening = new Set<ServerResponse>()
  readonly #schemas = new WeakMap<object, StandardSchemaWithJSON>()
  /** State that tools share: the modern era has no sessions. */
  readonly #state = new Map<string, unknown>()
  readonly #mcp: McpHttpHandler
  readonly #handler: ReturnType<typeof toNodeHandler>
  #addedTools = 0
  #counter = 0

  constructor(options: ModernServerOptions) {
    super(options)
    const { tools = modernTools, legacy = 'reject', answerAs = 'auto', listTtlMs = 0 } = options
    this.tools = tools
    this.#listTtlMs = listTtlMs
    this.#mcp = createMcpHandler((context) => this.#serverFor(context), {
      legacy: legacy === 'serve' ? 'stateless' : 'reject',
      responseMode: answerAs,
    })
    this.#handler = toNodeHandler(this.#mcp)
  }

  /** Adds a tool (`added_1`, …) and notifies the listeners. */
  toolsChanged(): void {
    const n = ++this.#addedTools
    this.tools = [...this.tools, { name: `added_${n}`, run: () => `added ${n}` }]
    this.#mcp.notify.toolsChanged()
  }

  /** Notifies the listeners. Adds one to `counter://value` before. */
  resourceUpdated(uri: string): void {
    if (uri === 'counter://value') this.#counter++
    this.#mcp.notify.resourceUpdated(uri)
  }

  promptsChanged(): void {
    this.#mcp.notify.promptsChanged()
  }

  resourcesChanged(): void {
    this.#mcp.notify.resourcesChanged()
  }

  /** Resets the connections of the listen streams. Returns how many streams. */
  dropListeners(): number {
    const count = this.#listening.size
    for (const response of this.#listening) resetConnection(response.socket)
    return count
  }

  override async [Symbol.asyncDispose](): Promise<void> {
    await super[Symbol.asyncDispose]()
    await this.#mcp.close()
  }

  protected async answer(handled: HandledRequest): Promise<void> {
    const { request, response, body, received } = handled
    const { method = 'GET', url = '/', headers } = request
    // The SDK passes `auth` on to the server object of this request.
    const auth = { token: '', clientId: '', scopes: [], extra: { handled } }
    // The SDK gets the body unparsed, and so rejects wrong bodies itself.
    const replayed = { method, url, headers, auth, [Symbol.asyncIterator]: () => once(body) }
    if (received.rpcMethod === 'subscriptions/listen') this.#watch(response.raw, received)
    await this.#handler(replayed, response.raw)
  }

  /** Server object of one request. */
  #serverFor({ authInfo }: McpRequestContext): McpServer {
    const server = new McpServer(
      { name: 'modern-test-server', version: '1.0.0' },
      {
        instructions: 'A stateless test server.',
        cacheHints: { 'tools/list': { ttlMs: this.#listTtlMs } },
        capabilities: {
          tools: { listChanged: true },
          resources: { listChanged: true, subscribe: true },
          logging: {},
        },
      },
    )
    const handled = authInfo?.extra?.['handled'] as HandledRequest
    for (const tool of this.tools) this.#addTool(server, tool, handled)
    this.#addResourcesAndPrompts(server)
    return server
  }

  #addTool(server: McpServer, tool: TestTool, handled: HandledRequest): void {
    const { name, description, inputSchema, outputSchema, annotations, _meta } = definitionOf(tool)
    const config = {
      ...(description === undefined ? {} : { description }),
      inputSchema: this.#schemaFrom(inputSchema),
      ...(outputSchema === undefined ? {} : { outputSchema: this.#schemaFrom(outputSchema) }),
      ...(annotations === undefined ? {} : { annotations: annotations as ToolAnnotations }),
      ...(_meta === undefined ? {} : { _meta }),
    }
    server.registerTool(name, config, async (_args, { mcpReq }) => {
      const result = await this.runTool(tool, handled, {
        state: this.#state,
        signal: mcpReq.signal,
        inputResponses: mcpReq.inputResponses,
        requestState: mcpReq.requestState(),
        log: (level, data) => mcpReq.log(level, data, name),
        notify: (method, params) => mcpReq.notify({ method, params }),
      })
      return result as CallToolResult
    })
  }

  /** Compiled once, because every request has a server object of its own. */
  #schemaFrom(schema: object): StandardSchemaWithJSON {
    const known = this.#schemas.get(schema)
    if (known !== undefined) return known
    const compiled = fromJsonSchema(schema)
    this.#schemas.set(schema, compiled)
    return compiled
  }

  /** One fixed resource, one that changes, a template; a prompt with an argument and one without. */
  #addResourcesAndPrompts(server: McpServer): void {
    const mimeType = 'text/plain'
    server.registerResource('static', 'static://text', { mimeType }, ({ href: uri }) => ({
      contents: [{ uri, mimeType, text: 'always the same' }],
    }))
    server.registerResource('counter', 'counter://value', { mimeType }, ({ href: uri }) => ({
      contents: [{ uri, mimeType, text: String(this.#counter) }],
    }))
    const complete = { name: namesStartingWith }
    const people = new ResourceTemplate('people://{name}', { list: undefined, complete })
    server.registerResource('people', people, {}, ({ href: uri }, { name }) => ({
      contents: [{ uri, text: `About ${String(name)}` }],
    }))
    const argsSchema = z.object({ name: completable(z.string(), namesStartingWith) })
    server.registerPrompt('greet', { description: 'Greets a person.', argsSchema }, ({ name }) =>
      promptResult(`Greet ${name}`),
    )
    server.registerPrompt('hello', { description: 'Greets.' }, () => promptResult('Say hello'))
  }

  /** The first write of a listen stream is its acknowledgement. */
  #watch(response: ServerResponse, received: ReceivedRequest): void {
    const write = response.write.bind(response)
    response.write = (chunk: string | Uint8Array) => {
      response.write = write
      const written = write(chunk)
      const listener = { requested: received.params?.['notifications'], isOpen: true }
      this.#listening.add(response)
      response.once('close', () => {
        this.#listening.delete(response)
        listener.isOpen = false
        this.streams.changed(listener)
      })
      this.streams.add(listener)
      return written
    }
  }
}

async function* once<Value>(value: Value): AsyncGenerator<Value> {
  yield value
}

function namesStartingWith(value = ''): string[] {
  return ['Ada', 'Adele', 'Grace'].filter((name) => name.startsWith(value))
}

function promptResult(text: string): GetPromptResult {
  return { messages: [{ role: 'user', content: { type: 'text', text } }] }
}
