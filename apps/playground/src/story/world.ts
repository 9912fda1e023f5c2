import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { randomBytes } from 'node:crypto'
import { createDebugStateServer, SqliteDebugStateStore } from '@x/agents-debugstate/server'
import { startEverythingServer } from '@x/internal/testing'
import { startModernServer, startRecordingProxy, startLegacyServer } from '@x/mcp-testing'
import type { RecordingProxy } from '@x/mcp-testing'

export interface WorldOptions {
  /** The SQLite file of the debug-state service. @default one in a temporary folder */
  readonly databaseFile?: string | undefined
  /** Servers of the user's own, by slug, in place of the demo's. */
  readonly servers: Readonly<Record<string, string>>
}

/** One MCP server of the story, behind a proxy that counts what the agent does. */
interface StoryServer {
  readonly slug: string
  readonly what: string
  readonly proxy: RecordingProxy
  /** From now on the server does not know the sessions that it has. */
  forgetSessions(): Promise<void>
}

/** Everything that the story needs beside the agent. All of it is real, and listens on loopback. */
export interface World extends AsyncDisposable {
  readonly shop: StoryServer
  readonly everything: StoryServer
  readonly calculator: StoryServer
  /** All of them. */
  readonly servers: readonly StoryServer[]
  readonly debugState: { readonly url: string; readonly agentId: string; readonly token: string }
}

export async function startWorld(options: WorldOptions): Promise<World> {
  await using stack = new AsyncDisposableStack()
  const databaseFile = options.databaseFile ?? (await temporaryDatabase(stack))
  const store = stack.use(new SqliteDebugStateStore(databaseFile))
  await store.get({ agentId: 'demo', key: 'probe' }) // a file that cannot be used shows here, not later
  const agentId = 'demo-agent'
  const token = randomBytes(16).toString('hex')
  const service = stack.use(
    createDebugStateServer({ store, tokens: [{ token, agentIds: [agentId] }] }),
  )
  const url = await service.listen()
  const shop = await shopServer(stack, options.servers['shop'])
  const everything = await everythingServer(stack, options.servers['everything'])
  const calculator = await calculatorServer(stack, options.servers['calculator'])
  const owned = stack.move()
  return {
    shop,
    everything,
    calculator,
    servers: [shop, everything, calculator],
    debugState: { url, agentId, token },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

async function shopServer(
  stack: AsyncDisposableStack,
  own: string | undefined,
): Promise<StoryServer> {
  if (own !== undefined) return foreignServer(stack, 'shop', own)
  const server = stack.use(await startLegacyServer())
  const proxy = stack.use(await startRecordingProxy(server.url))
  const what = 'a stateful demo server; answers in JSON'
  return { slug: 'shop', what, proxy, forgetSessions: async () => server.forgetSessions() }
}

/** Its own way of forgetting: the process ends and another one takes its place. */
async function everythingServer(
  stack: AsyncDisposableStack,
  own: string | undefined,
): Promise<StoryServer> {
  if (own !== undefined) return foreignServer(stack, 'everything', own)
  let server = await startEverythingServer()
  stack.defer(() => server[Symbol.asyncDispose]())
  const proxy = stack.use(await startRecordingProxy(server.url))
  return {
    slug: 'everything',
    what: '@modelcontextprotocol/server-everything from npm; answers in event streams',
    proxy,
    async forgetSessions() {
      await server[Symbol.asyncDispose]()
      server = await startEverythingServer({ port: Number(new URL(server.url).port) })
    },
  }
}

async function calculatorServer(
  stack: AsyncDisposableStack,
  own: string | undefined,
): Promise<StoryServer> {
  if (own !== undefined) return foreignServer(stack, 'calculator', own)
  const server = stack.use(await startModernServer())
  const proxy = stack.use(await startRecordingProxy(server.url))
  const what = 'a stateless server of revision 2026-07-28, on the SDK v2'
  return { slug: 'calculator', what, proxy, forgetSessions: async () => {} } // it has none
}

/** A server that is not ours cannot be made to forget: the proxy says it in its place. */
async function foreignServer(
  stack: AsyncDisposableStack,
  slug: string,
  url: string,
): Promise<StoryServer> {
  const proxy = stack.use(await startRecordingProxy(url))
  const forgotten = new Set<string>()
  const error = { code: -32001, message: 'Session not found' }
  proxy.inject({
    match: ({ sessionId }) => sessionId !== undefined && forgotten.has(sessionId),
    action: {
      status: 404,
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ jsonrpc: '2.0', id: null, error }),
    },
  })
  return {
    slug,
    what: `your server at ${new URL(url).origin}`,
    proxy,
    async forgetSessions() {
      for (const { assignedSessionId } of proxy.exchanges) {
        if (assignedSessionId !== undefined) forgotten.add(assignedSessionId)
      }
    },
  }
}

async function temporaryDatabase(stack: AsyncDisposableStack): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'mcp-demo-'))
  stack.defer(() => rm(folder, { recursive: true, force: true }))
  return join(folder, 'debugstate.db')
}
