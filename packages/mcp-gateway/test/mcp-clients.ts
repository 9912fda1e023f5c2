import {
  Client as ClientV2,
  StreamableHTTPClientTransport as TransportV2,
} from '@modelcontextprotocol/client'
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport as TransportV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import {
  ElicitRequestSchema,
  ToolListChangedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js'

/** What the tests ask of a client, whichever it is. */
export interface TestClient extends AsyncDisposable {
  listTools(): Promise<{ readonly tools: readonly { readonly name: string }[] }>
  callTool(
    name: string,
    message: string,
    options?: { readonly signal?: AbortSignal; readonly onProgress?: (message: string) => void },
  ): Promise<Readonly<Record<string, unknown>>>
  ping(): Promise<unknown>
}

export interface ClientHooks {
  /** Sent with each request. */
  readonly headers?: Readonly<Record<string, string>>
  /** In place of the one of the platform. */
  readonly fetch?: (url: string | URL, init?: RequestInit) => Promise<Response>
  readonly onToolsChanged?: () => void
  /** Answers a form. */
  readonly answer?: (message: string) => Record<string, string>
  /** Goes to a page. @returns whether somebody did */
  readonly visit?: (url: string) => boolean
}

export type ClientKind = 'v1' | 'v2 auto' | 'v2 pinned' | 'v2 legacy'

export const CLIENT_KINDS: readonly ClientKind[] = ['v1', 'v2 auto', 'v2 pinned', 'v2 legacy']

const MODES = {
  'v2 auto': 'auto',
  'v2 pinned': { pin: '2026-07-28' },
  'v2 legacy': 'legacy',
} as const

export async function connect(
  kind: ClientKind,
  url: string,
  hooks: ClientHooks = {},
): Promise<TestClient> {
  return kind === 'v1' ? connectV1(url, hooks) : connectV2(url, hooks, MODES[kind])
}

type Asking = Pick<ClientHooks, 'answer' | 'visit'>

function capabilitiesOf({ answer, visit }: Asking): object {
  if (visit) return { elicitation: { url: {}, ...(answer && { form: {} }) } }
  return answer ? { elicitation: {} } : {}
}

function answerTo(
  params: { readonly message?: string; readonly url?: string },
  { answer, visit }: Asking,
): { action: 'accept' | 'decline'; content?: Record<string, string> } {
  if (params.url !== undefined) return { action: visit?.(params.url) ? 'accept' : 'decline' }
  return { action: 'accept', content: answer?.(params.message ?? '') ?? {} }
}

const INFO = { name: 'test', version: '1.0.0' }

async function connectV1(
  url: string,
  { onToolsChanged, headers, fetch: ask, ...hooks }: ClientHooks,
): Promise<TestClient> {
  const client = new ClientV1(INFO, { capabilities: capabilitiesOf(hooks) })
  if (hooks.answer ?? hooks.visit) {
    client.setRequestHandler(ElicitRequestSchema, ({ params }) => answerTo(params, hooks))
  }
  if (onToolsChanged) {
    client.setNotificationHandler(ToolListChangedNotificationSchema, onToolsChanged)
  }
  const transport = new TransportV1(new URL(url), {
    requestInit: { headers: { ...headers } },
    ...(ask && { fetch: ask }),
  })
  await client.connect(transport)
  return {
    listTools: () => client.listTools(),
    ping: () => client.ping(),
    callTool: (name, message, { signal, onProgress } = {}) =>
      client.callTool({ name, arguments: { message } }, undefined, {
        ...(signal && { signal }),
        ...(onProgress && { onprogress: (progress) => onProgress(progress.message ?? '') }),
      }),
    [Symbol.asyncDispose]: () => client.close(),
  }
}

async function connectV2(
  url: string,
  { onToolsChanged, headers, fetch: ask, ...hooks }: ClientHooks,
  mode: (typeof MODES)[keyof typeof MODES],
): Promise<TestClient> {
  const client = new ClientV2(INFO, {
    versionNegotiation: { mode },
    capabilities: capabilitiesOf(hooks),
    ...(onToolsChanged && { listChanged: { tools: { onChanged: onToolsChanged } } }),
  })
  if (hooks.answer ?? hooks.visit) {
    client.setRequestHandler('elicitation/create', ({ params }) => answerTo(params, hooks))
  }
  await client.connect(
    new TransportV2(new URL(url), {
      requestInit: { headers: { ...headers } },
      ...(ask && { fetch: ask }),
    }),
  )
  return {
    listTools: () => client.listTools(),
    ping: () => (mode === 'legacy' ? client.ping() : client.listTools()),
    callTool: (name, message, { signal, onProgress } = {}) =>
      client.callTool(
        { name, arguments: { message } },
        {
          ...(signal && { signal }),
          ...(onProgress && { onprogress: (progress) => onProgress(progress.message ?? '') }),
        },
      ),
    [Symbol.asyncDispose]: () => client.close(),
  }
}
