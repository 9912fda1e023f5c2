import type { Readable, Writable } from 'node:stream'

import { Client, StreamableHTTPClientTransport, type Transport } from '@modelcontextprotocol/client'

export type Block = Readonly<Record<string, unknown>> & { readonly type: string }

export interface CallAnswer {
  readonly content: readonly Block[]
  readonly structuredContent?: Readonly<Record<string, unknown>>
  readonly isError?: boolean
  readonly _meta?: Readonly<Record<string, unknown>>
}

interface Listed {
  readonly uri: string
  readonly name: string
  readonly mimeType?: string | undefined
  readonly size?: number | undefined
}

/** The requests about files that the tests send, with any kind of client. */
export interface FileClient extends AsyncDisposable {
  call(name: string, args: Readonly<Record<string, unknown>>): Promise<CallAnswer>
  tools(): Promise<readonly { readonly name: string; readonly inputSchema: unknown }[]>
  resources(): Promise<readonly Listed[]>
  templates(): Promise<readonly string[]>
  read(uri: string): Promise<Readonly<Record<string, unknown>>>
  complete(template: string, value: string): Promise<readonly string[]>
  /** @returns URIs that are followed now, if the server reports them */
  follow(uri: string): Promise<readonly string[]>
  /** Unsubscribes in a session. Other clients end their listening stream. */
  unfollow(uri: string): Promise<unknown>
}

export interface FileHooks {
  readonly token?: string
  readonly onUpdated?: (uri: string) => void
  readonly onListChanged?: () => void
}

export const FILE_CLIENTS = ['legacy', 'modern'] as const
export type FileClientKind = (typeof FILE_CLIENTS)[number]

export function connectForFiles(
  kind: FileClientKind,
  url: string,
  hooks: FileHooks = {},
): Promise<FileClient> {
  const { token } = hooks
  const requestInit = token === undefined ? {} : { headers: { authorization: `Bearer ${token}` } }
  const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit })
  return fileClient(transport, hooks, kind === 'legacy' ? kind : { pin: '2026-07-28' })
}

/** Connects over a pipe. */
export function connectPipe(
  { input, output }: { readonly input: Writable; readonly output: Readable },
  hooks: FileHooks & { readonly mode: 'legacy' | { readonly pin: string } },
): Promise<FileClient> {
  return fileClient(new LineTransport(input, output), hooks, hooks.mode)
}

async function fileClient(
  transport: Transport,
  { onUpdated, onListChanged }: FileHooks,
  mode: 'legacy' | { readonly pin: string },
): Promise<FileClient> {
  const client = new Client(
    { name: 'test', version: '1.0.0' },
    {
      versionNegotiation: { mode },
      capabilities: {},
      ...(onListChanged && { listChanged: { resources: { onChanged: onListChanged } } }),
    },
  )
  client.setNotificationHandler('notifications/resources/updated', ({ params }) => {
    onUpdated?.(params.uri)
  })
  await client.connect(transport)
  return {
    call: async (tool, args) =>
      (await client.callTool({ name: tool, arguments: { ...args } })) as unknown as CallAnswer,
    tools: async () => (await client.listTools()).tools,
    resources: async () => (await client.listResources()).resources,
    templates: async () =>
      (await client.listResourceTemplates()).resourceTemplates.map((each) => each.uriTemplate),
    read: async (uri) => firstOf((await client.readResource({ uri })).contents),
    complete: async (uri, value) => {
      const ref = { type: 'ref/resource' as const, uri }
      return (await client.complete({ ref, argument: { name: 'name', value } })).completion.values
    },
    follow: async (uri) => {
      if (mode === 'legacy') {
        await client.subscribeResource({ uri })
        return [uri]
      }
      const { honoredFilter } = await client.listen({
        toolsListChanged: true,
        resourceSubscriptions: [uri],
      })
      return honoredFilter.resourceSubscriptions ?? []
    },
    unfollow: (uri) => client.unsubscribeResource({ uri }),
    [Symbol.asyncDispose]: () => client.close(),
  }
}

function firstOf<T>(contents: readonly T[]): T {
  const [first] = contents
  if (first === undefined) throw new Error('Nothing was read')
  return first
}

/** Sends messages as lines, as a client over stdio does, without a process. */
class LineTransport implements Transport {
  onmessage?: Transport['onmessage']
  onclose?: () => void
  readonly #input: Writable
  readonly #output: Readable
  #text = ''

  constructor(input: Writable, output: Readable) {
    this.#input = input
    this.#output = output
  }

  async start(): Promise<void> {
    this.#output.on('data', (chunk: Buffer) => {
      const lines = (this.#text + chunk.toString()).split('\n')
      this.#text = lines.pop() ?? ''
      for (const line of lines) this.onmessage?.(JSON.parse(line))
    })
  }

  async send(message: unknown): Promise<void> {
    this.#input.write(`${JSON.stringify(message)}\n`)
  }

  async close(): Promise<void> {
    this.#input.end()
    this.onclose?.()
  }
}
